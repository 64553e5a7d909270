// The whole command line of `troupe`, as a function: what a program of one's own calls once it has registered its
// exchanges, models or data sets. All commands know them then, and the nodes that `run` starts are that program again.
#pragma once

namespace troupe::apps {

/// Does what `words`, the arguments of main(), say, and returns the exit status: 0 done, 1 the run failed, 2 the input
/// was wrong, 130 or 143 interrupted. What goes wrong is printed to standard error. Call it once, from the main
/// thread and before any other is started: threads inherit the signals that a run blocks.
int command(int count, char** words);

}  // namespace troupe::apps

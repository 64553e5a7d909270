// The whole command line of `troupe` as a function. A program of your own calls it after registering its exchanges (see
// register_exchange()); all commands then support them, and the nodes that `run` starts are instances of that program.
#pragma once

namespace troupe::apps {

/// Executes the command given by `words`, the arguments of main(), and returns the exit status: 0 success, 1 the run
/// failed, 2 invalid input, 128 + the number of a signal that ended it. Errors are printed to standard error. Call it
/// once, from the main thread and before any other thread is started: threads inherit the signals that a run blocks.
int command(int count, char** words);

}  // namespace troupe::apps

// Starts this program again as a child process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace troupe {

/// Where a child writes: both streams to the descriptor `output`, or only standard error, while standard output is
/// shared with this process.
struct child_streams {
  int output{-1};
  bool shares_stdout{false};
};

/// Starts this program with `arguments`, the first of which is its name. The child does not read standard input, is
/// killed if this thread ends, and is in a process group of its own, so that signals of the terminal do not reach it.
/// Returns its process id. Throws std::runtime_error if no process can be started.
pid_t start_child(const std::vector<std::string>& arguments, const child_streams& streams);

}  // namespace troupe

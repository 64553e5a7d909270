// Runs `troupe run` or `troupe simulate` as a child process, so that every run of a comparison starts in a fresh
// process and cannot end the comparison.
#pragma once

#include "troupe/runtime/node/signals.hpp"

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace troupe::comparing {

/// Runs child processes, one for each thread that calls run(), and forwards the first signal to those that are running.
/// Create it before any other thread is started; see signal_watch. No child outlives this process.
class child_runner {
 public:
  explicit child_runner(signal_watch& signals);
  ~child_runner();
  child_runner(const child_runner&) = delete;
  child_runner& operator=(const child_runner&) = delete;

  /// Runs this program with `arguments`, the first of which is its name, and returns the exit status; 1 if a signal
  /// terminated it. Its output is written to `log`. Calls `tick` about once per second with the time since the start.
  /// Throws std::runtime_error if no process can be started.
  int run(const std::vector<std::string>& arguments, const std::filesystem::path& log,
          const std::function<void(std::chrono::milliseconds)>& tick);

  /// Returns the signal that this process has received, or 0. After a signal, run nothing more.
  int signal() const { return signal_; }

 private:
  void forward(int signal);
  int wait_for(pid_t process, const std::function<void(std::chrono::milliseconds)>& tick);

  signal_watch& signals_;
  std::mutex mutex_;
  std::set<pid_t> processes_;  ///< The children that have not been reaped; guarded by mutex_.
  std::atomic<int> signal_{0};
  signal_handler handler_;  ///< The last member, because it uses the others.
};

}  // namespace troupe::comparing

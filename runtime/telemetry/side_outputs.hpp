// The outputs of a run that may wait: all except the final weights. An output that cannot be written causes a warning
// and never ends the run. It is retried during the run and at its end. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace troupe::telemetry {

/// Functions that the outputs of a run need from their environment.
struct side_output_options {
  std::function<void(const std::string&)> warn = [](const auto&) {};  ///< Prints a warning.
  std::function<std::chrono::nanoseconds()> now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  std::function<void(std::chrono::milliseconds)> wait{};  ///< By default, sleeps.
};

class side_outputs {
 public:
  /// Writes an output with its newest content. Throws std::runtime_error with the path and the reason.
  using attempt = std::function<void()>;

  explicit side_outputs(side_output_options options = {});

  /// Sets the functions that are called before a warning is printed and before an output is written. An exception of
  /// the latter counts as a failure to write the output.
  void before_warning(std::function<void()> what) { before_warning_ = std::move(what); }
  void before_writing(attempt what) { before_writing_ = std::move(what); }

  /// Writes an output, or keeps `how` until it succeeds. Only the newest attempt of each name is kept, so that at most
  /// one content of each output waits.
  void write(const std::string& name, attempt how);

  /// Retries the waiting outputs unless they were tried a moment ago. Cheap if none is waiting.
  void retry();

  /// Retries the waiting outputs.
  void retry_now();

  /// Retries until everything is written, for at most `patience`, and warns about outputs that are still not written.
  void finish(std::chrono::milliseconds patience);

  bool waits(const std::string& name) const { return waiting_.contains(name); }

  /// Prints a line, or a warning.
  void say(const std::string& text);
  void warn(const std::string& text);

  /// Calls `attempt` until it returns true, with pauses, for at most `patience`. A single attempt may take long.
  void persist(std::chrono::milliseconds patience, std::chrono::milliseconds pause,
               const std::function<bool()>& attempt) const;

 private:
  bool try_one(const attempt& how);
  void note_failure(const std::string& name, const std::string& reason);
  void note_success();

  side_output_options options_;
  std::function<void()> before_warning_;
  attempt before_writing_;
  std::map<std::string, attempt> waiting_;
  std::set<std::string> failed_;  ///< Outputs that were not written at once since the last time that none was waiting.
  std::string reason_;            ///< Why the last attempt failed.
  std::chrono::nanoseconds next_{0};
  std::size_t warnings_{0};
};

}  // namespace troupe::telemetry

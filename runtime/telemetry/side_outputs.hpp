// The outputs of a run that may wait: everything but its final weights. One that cannot be written costs a warning,
// never the run; it is tried again while the run goes on, and at its end. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace troupe::telemetry {

/// What the outputs of a run need from their surroundings.
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

  /// Sets what is called before a warning is printed, and before outputs are written, where it may throw as they do.
  void before_warning(std::function<void()> what) { before_warning_ = std::move(what); }
  void before_writing(attempt what) { before_writing_ = std::move(what); }

  /// Writes an output, or keeps `how` until it succeeds. Of the attempts of one name only the newest is kept, so that
  /// at most one content of each output waits.
  void write(const std::string& name, attempt how);

  /// Tries again what is waiting, if that was not tried a moment ago. Cheap if nothing is waiting.
  void retry();

  /// Tries again what is waiting.
  void retry_now();

  /// Tries again until everything is written, at most for so long, and names what is still not written.
  void finish(std::chrono::milliseconds patience);

  bool waits(const std::string& name) const { return waiting_.contains(name); }

  /// Prints a line, or a warning.
  void say(const std::string& text);
  void warn(const std::string& text);

  /// Calls `attempt` until it returns true, with pauses, for at most `patience`. Attempts may take long themselves.
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
  std::set<std::string> failed_;  ///< What was not written at once, since everything was written last.
  std::string reason_;            ///< Why the last attempt failed.
  std::chrono::nanoseconds next_{0};
  std::size_t warnings_{0};
};

}  // namespace troupe::telemetry

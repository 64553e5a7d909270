// What the main thread of a command is doing while nothing else reports progress: reading data, trying out a model.
// Code that is not part of Troupe may never return; a watch then reports which code it is. Without a watch, as in
// tests, nothing happens.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// An operation that usually takes a moment. It lasts as long as this object. If activities are nested, only the
/// innermost is watched.
class activity {
 public:
  enum class when_late {
    say_so,      ///< The user is notified once.
    end_process  ///< The process ends with an error, because the operation cannot be abandoned otherwise.
  };

  /// `what` is the beginning of a message, such as "m.pt: forward()"; it is late after `limit`, which the key
  /// `limit_key` sets.
  activity(std::string what, std::chrono::milliseconds limit, std::string limit_key,
           when_late then = when_late::say_so);
  ~activity();
  activity(const activity&) = delete;
  activity& operator=(const activity&) = delete;

  /// Reports that the current activity is not stuck: its time starts again.
  static void goes_on();
};

/// What to do about late activities.
struct activity_reports {
  std::function<void(const std::string&)> note{};
  std::function<void(const std::string&)> end{};  ///< Ends the process; does not return.
};

/// Watches the activities of this process on a thread of its own. At most one watch exists at a time.
class activity_watch {
 public:
  explicit activity_watch(activity_reports reports);
  ~activity_watch();
  activity_watch(const activity_watch&) = delete;
  activity_watch& operator=(const activity_watch&) = delete;

 private:
  struct looking;
  std::unique_ptr<looking> looking_;
};

}  // namespace troupe

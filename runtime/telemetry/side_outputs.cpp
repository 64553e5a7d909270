#include "troupe/runtime/telemetry/side_outputs.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::telemetry {

namespace {

using namespace std::chrono_literals;

/// Maximum number of warnings, for a disk that is full now and then.
constexpr std::size_t most_warnings = 5;

std::string names_of(const std::set<std::string>& names) {
  return text::listed({names.begin(), names.end()}, "and");
}

}  // namespace

side_outputs::side_outputs(side_output_options options) : options_(std::move(options)) {
  if (!options_.wait) options_.wait = [](auto time) { std::this_thread::sleep_for(time); };
}

void side_outputs::say(const std::string& text) {
  if (before_warning_) before_warning_();
  options_.warn(text);
}

void side_outputs::warn(const std::string& text) {
  say("warning: " + text);
}

/// Returns whether an output was written.
bool side_outputs::try_one(const attempt& how) try {
  if (before_writing_) before_writing_();
  how();
  return true;
} catch (const std::exception& reason) {
  reason_ = reason.what();
  return false;
}

void side_outputs::note_failure(const std::string& name, const std::string& reason) {
  const auto is_first = failed_.empty();
  failed_.insert(name);
  if (!is_first || ++warnings_ > most_warnings) return;
  warn(reason + "; the run continues, and tries again" +
       (warnings_ == most_warnings ? " (later failures are reported at the end only)" : ""));
}

void side_outputs::note_success() {
  if (failed_.empty() || !waiting_.empty()) return;
  const auto names = std::exchange(failed_, {});
  if (warnings_ < most_warnings) say(names_of(names) + (names.size() == 1 ? " is" : " are") + " written again");
}

void side_outputs::write(const std::string& name, attempt how) {
  if (const auto waits = waiting_.find(name); waits != waiting_.end()) {
    waits->second = std::move(how);
    return retry();
  }
  if (try_one(how)) return;
  waiting_.emplace(name, std::move(how));
  next_ = std::max(next_, options_.now() + 1s);
  note_failure(name, reason_);
}

void side_outputs::retry() {
  if (!waiting_.empty() && options_.now() >= next_) retry_now();
}

void side_outputs::retry_now() {
  if (waiting_.empty()) return;
  const auto begin = options_.now();
  std::erase_if(waiting_, [this](const auto& output) { return try_one(output.second); });
  // An attempt to write weights may take long to fail. Retries take at most a tenth of the time.
  const auto end = options_.now();
  next_ = end + std::max<std::chrono::nanoseconds>(1s, 10 * (end - begin));
  note_success();
}

void side_outputs::persist(std::chrono::milliseconds patience, std::chrono::milliseconds pause,
                           const std::function<bool()>& attempt) const {
  const auto begin = options_.now();
  for (auto paused = 0ms; !attempt(); paused += pause) {
    if (std::max<std::chrono::nanoseconds>(paused, options_.now() - begin) >= patience) return;
    options_.wait(pause);
  }
}

void side_outputs::finish(std::chrono::milliseconds patience) {
  persist(patience, 500ms, [this] {
    retry_now();
    return waiting_.empty();
  });
  if (waiting_.empty()) return;
  std::set<std::string> names;
  for (const auto& [name, how] : waiting_) names.insert(name);
  warn("not written, or not to the end: " + names_of(names) + " (" + reason_ + ")");
}

}  // namespace troupe::telemetry

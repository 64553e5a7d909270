#include "troupe/runtime/telemetry/trace_file.hpp"

#include "troupe/files/json.hpp"

#include <array>
#include <charconv>
#include <exception>
#include <system_error>
#include <utility>

namespace troupe::telemetry {

namespace {

constexpr std::size_t written_at_once = 1 << 16;

/// Thread numbers are unique across all processes in the file, because readers expect that.
constexpr std::uint64_t threads_of_process = 1'000'000;

template <class Number>
void append(std::string& text, Number value, int base = 10) {
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
  text.append(digits.data(), end);
}

/// Appends microseconds with three decimals.
void append_time(std::string& text, trace_time time) {
  auto count = time.count();
  if (count < 0) {
    text += '-';
    count = -count;
  }
  append(text, count / 1000);
  const auto rest = static_cast<int>(count % 1000);
  const std::array<char, 4> decimals{'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                                     static_cast<char>('0' + rest % 10)};
  text.append(decimals.data(), decimals.size());
}

void append_details(std::string& text, std::span<const trace_detail> details) {
  const char* before = R"(,"args":{")";
  for (const auto& [name, value] : details) {
    text.append(before).append(name).append("\":");
    append(text, value);
    before = ",\"";
  }
  if (!details.empty()) text += '}';
}

std::string json_text(const std::string& text) {
  return files::json_text(text);
}

}  // namespace

trace_file::~trace_file() {
  close();
}

std::uint64_t trace_file::thread_of(std::uint32_t track) const {
  return (options_.node + 1) * threads_of_process + track;
}

/// Returns whether an event can be appended, and separates it from the previous one.
bool trace_file::begin_event() {
  if (closed_) return false;
  if (open_) {
    pending_ += ",\n";
    return true;
  }
  std::error_code failed;  // on failure, the file cannot be opened either
  std::filesystem::create_directories(options_.path.parent_path(), failed);
  out_ = std::make_unique<appended_file>(appended_file::options{.path = options_.path, .most_waiting = 16u << 20u});
  open_ = true;
  pending_ = "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" + std::to_string(options_.node + 1) +
             ",\"args\":{\"name\":" + json_text(options_.process) + "}},\n";
  return true;
}

/// Writes what is pending. Returns whether all of it is in the file.
bool trace_file::flush() try {
  out_->add(std::exchange(pending_, {}));  // whole events, which may be dropped
  out_->flush();
  return true;
} catch (const std::exception& reason) {
  if (closed_)
    options_.warn(std::string("warning: the trace is not complete: ") + reason.what());
  else if (!std::exchange(warned_, true))
    options_.warn(std::string("warning: ") + reason.what() + "; the run continues, and tries again");
  return false;
}

std::uint32_t trace_file::track(const std::string& name) {
  const std::lock_guard lock{mutex_};
  const auto [entry, is_new] = tracks_.emplace(name, tracks_.size());
  const auto track = entry->second;
  if (!is_new || !begin_event()) return track;
  pending_ += R"({"name":"thread_name","ph":"M","pid":)";
  append(pending_, options_.node + 1);
  pending_ += ",\"tid\":";
  append(pending_, thread_of(track));
  pending_ += ",\"args\":{\"name\":" + json_text(name) + "}}";
  if (pending_.size() >= written_at_once) flush();
  return track;
}

void trace_file::add(const trace_span& span) {
  const std::lock_guard lock{mutex_};
  if (spans_ >= options_.limit) {
    if (dropped_++ == 0) first_dropped_ = span.begin;
    return;
  }
  if (!begin_event()) return;
  ++spans_;
  auto& text = pending_;
  text.append(R"({"name":")").append(span.what).append(R"(","ph":"X","ts":)");
  append_time(text, span.begin - options_.origin);
  text += ",\"dur\":";
  append_time(text, span.end - span.begin);
  text += ",\"pid\":";
  append(text, options_.node + 1);
  text += ",\"tid\":";
  append(text, thread_of(span.track));
  if (span.with != trace_span::arrow::none) {
    text += R"(,"bind_id":"0x)";
    append(text, span.arrow_id, 16);
    text += span.with == trace_span::arrow::begins ? R"(","flow_out":true)" : R"(","flow_in":true)";
  }
  append_details(text, span.details);
  text += '}';
  if (text.size() >= written_at_once) flush();
}

void trace_file::close() {
  const std::lock_guard lock{mutex_};
  if (closed_ || !open_) {
    closed_ = true;
    return;
  }
  if (dropped_ > 0) {
    begin_event();
    pending_ += "{\"name\":\"the trace is full: " + std::to_string(dropped_) +
                " later spans are left out\",\"ph\":\"i\",\"s\":\"g\",\"ts\":";
    append_time(pending_, first_dropped_ - options_.origin);
    pending_ += ",\"pid\":" + std::to_string(options_.node + 1) + ",\"tid\":" + std::to_string(thread_of(0)) + "}";
  }
  out_->add(std::exchange(pending_, {}));
  out_->add_last("\n]\n");
  closed_ = true;
  if (flush() && out_->dropped() > 0)
    options_.warn("warning: " + options_.path.string() + " lacks spans that could not be written in time");
}

}  // namespace troupe::telemetry

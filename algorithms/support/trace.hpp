// Where the time of a run goes: spans of time on tracks, one track for each worker, port, lane and emulated interface.
// Actors and lanes report them here, from any thread; the runtime writes them to a file. Nothing is reported in a run
// that is not traced.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace troupe {

/// Point in time, counted from the origin of the clock that the actors of the run use: the steady clock, or virtual
/// time.
using trace_time = std::chrono::nanoseconds;

/// A number that describes a span; its name is a literal.
using trace_detail = std::pair<const char*, std::int64_t>;

/// A span of time on a track. Spans of one track are nested or disjoint.
struct trace_span {
  /// Whether an arrow begins or ends at the span. Each part that travels from one port to another has one arrow.
  enum class arrow : std::uint8_t { none, begins, ends };
  std::uint32_t track{0};
  const char* what{""};  ///< Name of the span: a literal without characters that JSON escapes.
  trace_time begin{0}, end{0};
  std::span<const trace_detail> details{};
  arrow with{arrow::none};
  std::uint64_t arrow_id{0};
};

class trace_sink {
 public:
  virtual ~trace_sink() = default;

  /// Returns the number of the track with this name.
  virtual std::uint32_t track(const std::string& name) = 0;

  virtual void add(const trace_span& span) = 0;
};

/// One track of a trace, or none if the run is not traced.
class trace_track {
 public:
  trace_track() = default;
  trace_track(std::shared_ptr<trace_sink> sink, const std::string& name) : sink_(std::move(sink)) {
    if (sink_) number_ = sink_->track(name);
  }

  /// Returns whether the run is traced.
  explicit operator bool() const { return sink_ != nullptr; }

  void add(const char* what, trace_time begin, trace_time end, std::initializer_list<trace_detail> details = {}) const {
    if (sink_) sink_->add({.track = number_, .what = what, .begin = begin, .end = end, .details = details});
  }

  void add_arrow(const char* what, trace_time begin, trace_time end, trace_span::arrow with, std::uint64_t id,
                 std::initializer_list<trace_detail> details) const {
    if (sink_)
      sink_->add({.track = number_,
                  .what = what,
                  .begin = begin,
                  .end = end,
                  .details = details,
                  .with = with,
                  .arrow_id = id});
  }

 private:
  std::shared_ptr<trace_sink> sink_;
  std::uint32_t number_{0};
};

/// Converts a point in time of a clock.
template <class TimePoint>
trace_time trace_time_of(TimePoint when) {
  return std::chrono::duration_cast<trace_time>(when.time_since_epoch());
}

}  // namespace troupe

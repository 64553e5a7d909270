// What a run tells its guests: the lines of its metrics and its progress. The recorder's lane writes it; the actors of
// guests read it. Each reader states how far it has read, so that a slow one costs nothing: lines are kept once, up to
// a limit, and a reader that comes too late for some of them is told how many it has missed.
#pragma once

#include "troupe/net/guests/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

/// Any thread may call any function.
class feed {
 public:
  /// Keeps at most this many bytes of lines. A longer line counts as missed.
  explicit feed(std::size_t most_bytes = std::size_t{8} << 20) : most_bytes_(most_bytes) {}

  /// Adds lines of metrics.jsonl, each with its line break.
  void add(std::string_view lines);

  void set_progress(std::uint64_t step);
  void set_steps_of_workers(const std::vector<std::uint64_t>& steps);
  void set_waits(const std::string& sentence);

  /// Sets what makes the figures of the run, as JSON. Any thread may call it, at any rate; `over` says whether the run
  /// has ended.
  void set_figures(std::function<std::string(bool over)> make);

  /// Notes that the last line has been added.
  void close();

  /// Returns whether there is something that the sender of this request does not know.
  bool has_news(const news_after& known) const;

  /// Returns the answer to a request. Lines that do not fit an answer follow in the next one.
  news after(const news_after& known) const;

  /// Returns the figures of the run, or "" if there are none yet.
  std::string figures() const;

  /// Calls `tell`, without waiting for anything, whenever there is something new. Returns a number for unsubscribe(),
  /// after which `tell` is not called again.
  std::uint64_t subscribe(std::function<void()> tell);
  void unsubscribe(std::uint64_t number);
  bool has_readers() const;

 private:
  template <class Change>
  void change(Change change);

  mutable std::mutex mutex_;
  std::size_t most_bytes_, bytes_{0};
  std::deque<std::string> lines_;
  std::uint64_t next_{0};     ///< Number of the line after the last one.
  std::uint64_t version_{1};  ///< Changes with each of the values below.
  std::uint64_t step_{0};
  std::vector<std::uint64_t> steps_;
  std::string waits_;
  bool over_{false};
  std::function<std::string(bool over)> figures_;
  std::map<std::uint64_t, std::function<void()>> readers_;
  std::uint64_t subscribed_{0};
};

}  // namespace troupe::telemetry

#include "troupe/runtime/telemetry/feed.hpp"

#include <algorithm>
#include <utility>

namespace troupe::telemetry {

namespace {

/// Bytes of lines in one answer. A message between CAF programs has at most 1 MiB.
constexpr std::size_t most_bytes_of_answer = std::size_t{256} << 10;

}  // namespace

template <class Change>
void feed::change(Change change) {
  const std::lock_guard lock{mutex_};
  change();
  for (const auto& [number, tell] : readers_) tell();
}

void feed::add(std::string_view lines) {
  change([&] {
    while (!lines.empty()) {
      const auto end = std::min(lines.find('\n'), lines.size());
      lines_.emplace_back(lines.substr(0, end));
      bytes_ += end;
      next_ += 1;
      lines.remove_prefix(std::min(end + 1, lines.size()));
      if (end > most_bytes_of_answer) {
        bytes_ -= end;
        lines_.back().clear();  // counts as missed
      }
      while (bytes_ > most_bytes_) {
        bytes_ -= lines_.front().size();
        lines_.pop_front();
      }
    }
  });
}

void feed::set_progress(std::uint64_t step) {
  change([&] {
    step_ = step;
    ++version_;
  });
}

void feed::set_steps_of_workers(const std::vector<std::uint64_t>& steps) {
  const std::lock_guard lock{mutex_};  // set_progress() follows, and tells the readers
  steps_ = steps;
}

void feed::set_waits(const std::string& sentence) {
  if (std::lock_guard lock{mutex_}; sentence == waits_) return;
  change([&] {
    waits_ = sentence;
    ++version_;
  });
}

void feed::set_figures(std::function<std::string(bool over)> make) {
  const std::lock_guard lock{mutex_};
  figures_ = std::move(make);
}

std::string feed::figures() const {
  std::function<std::string(bool over)> make;
  bool over = false;
  {
    const std::lock_guard lock{mutex_};
    make = figures_;
    over = over_;
  }
  return make ? make(over) : std::string();
}

void feed::close() {
  change([&] {
    over_ = true;
    ++version_;
  });
}

bool feed::has_news(const news_after& known) const {
  const std::lock_guard lock{mutex_};
  return known.line < next_ || known.version != version_;
}

news feed::after(const news_after& known) const {
  const std::lock_guard lock{mutex_};
  news all{.next = std::min(known.line, next_), .version = version_, .step = step_, .steps = steps_, .waits = waits_};
  const auto first = next_ - lines_.size();
  if (all.next < first) {
    all.missed = first - all.next;
    all.next = first;
  }
  for (std::size_t bytes = 0; all.next < next_; ++all.next) {
    const auto& line = lines_[static_cast<std::size_t>(all.next - first)];
    if (line.empty()) {
      all.missed += 1;
      continue;
    }
    bytes += line.size();
    if (bytes > most_bytes_of_answer && !all.lines.empty()) break;
    all.lines.push_back(line);
  }
  all.over = over_ && all.next == next_;
  if (all.next < next_) all.version = known.version;  // so that the rest is asked for at once
  return all;
}

std::uint64_t feed::subscribe(std::function<void()> tell) {
  const std::lock_guard lock{mutex_};
  readers_.emplace(++subscribed_, std::move(tell));
  return subscribed_;
}

void feed::unsubscribe(std::uint64_t number) {
  const std::lock_guard lock{mutex_};
  readers_.erase(number);
}

bool feed::has_readers() const {
  const std::lock_guard lock{mutex_};
  return !readers_.empty();
}

}  // namespace troupe::telemetry

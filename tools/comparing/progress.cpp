#include "troupe/tools/comparing/progress.hpp"

#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace troupe::comparing {

void time_left::add(std::size_t variant, seconds taken) {
  for (auto* sums : {&by_variant_[variant], &all_}) {
    sums->sum += taken;
    ++sums->count;
  }
}

std::optional<time_left::seconds> time_left::of(const std::vector<std::size_t>& remaining, seconds running) const {
  if (all_.count == 0) return std::nullopt;
  seconds sum{0};
  for (const auto variant : remaining) {
    const auto found = by_variant_.find(variant);
    const auto& from = found == by_variant_.end() ? all_ : found->second;
    const auto expected = from.sum / static_cast<double>(from.count);
    sum += std::max(seconds{0}, expected - std::exchange(running, seconds{0}));
  }
  return sum;
}

progress::progress(std::ostream& out, const comparison& what, std::vector<planned_run> remaining, bool live)
    : out_(out), what_(what), remaining_(std::move(remaining)), live_(live) {}

std::string progress::head() const {
  const auto& run = remaining_.at(done_);
  auto text = "run " + std::to_string(done_ + 1) + " of " + std::to_string(remaining_.size()) + "  " +
              what_.variants.at(run.variant).label;
  if (what_.repeats > 1) text += ", seed " + std::to_string(run.seed);
  return for_terminal(text);
}

std::string progress::estimate(std::chrono::milliseconds running) const {
  std::vector<std::size_t> variants;
  for (auto i = done_; i < remaining_.size(); ++i) variants.push_back(remaining_[i].variant);
  const auto left = left_.of(variants, running);
  if (variants.empty() || !left) return {};
  return "; about " + human_duration(std::chrono::round<std::chrono::seconds>(*left)) + " left";
}

void progress::clear() {
  if (std::exchange(drawn_, false)) out_ << "\r\033[K" << std::flush;
}

void progress::running(std::chrono::milliseconds since_start) {
  if (!live_) return;
  clear();
  out_ << head() << "  " << human_duration(std::chrono::floor<std::chrono::seconds>(since_start))
       << estimate(since_start) << std::flush;
  drawn_ = true;
}

void progress::ended(const run_result& result, std::chrono::milliseconds taken, const std::string& problem) {
  clear();
  auto text = head() + "  ";
  if (result.finished()) {
    text += seconds_text(result.seconds.value_or(0)) + (what_.simulated ? " of virtual time" : "");
    if (result.final_accuracy) text += ", accuracy " + percent_text(*result.final_accuracy);
  } else {
    text += result.status + (problem.empty() ? "" : ": " + for_terminal(problem));
  }
  left_.add(remaining_.at(done_).variant, taken);
  ++done_;
  out_ << text << estimate(std::chrono::milliseconds{0}) << '\n' << std::flush;
}

}  // namespace troupe::comparing

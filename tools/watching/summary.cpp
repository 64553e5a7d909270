#include "troupe/tools/watching/summary.hpp"

#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace troupe::watching {

namespace {

std::string time_text(double seconds) {
  if (seconds < 10) return human_number(seconds, 3) + " s";
  return human_duration(std::chrono::seconds(std::llround(std::min(seconds, 1e9))));
}

/// Smallest share of the time that is worth a sentence.
constexpr double notable = 0.1;

constexpr auto waits_less = [](const time_shares& a, const time_shares& b) { return a.exchange < b.exchange; };

std::string accuracy_text(double share) {
  return human_number(100 * share, 4) + " %";
}

}  // namespace

std::string percent_text(double share) {
  return human_number(100 * std::clamp(share, 0.0, 1.0), share < 0.1 ? 2 : 3) + " %";
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::llround(std::clamp(bytes, 0.0, 1e18))));
}

std::string rate_text(double bytes_per_second) {
  return bytes_text(bytes_per_second) + "/s";
}

std::string wait_text(double seconds) {
  return human_number(1000 * seconds, 3) + " ms";
}

std::string status_text(const std::string& status) {
  if (status == "waiting") return "not started yet";
  if (status == "stopped_early") return "stopped early";
  return status == "max_seconds" ? "time limit reached" : status == "halted" ? "ended by a guest" : status;
}

std::vector<time_shares> shares_of(const history_state& state) {
  if (state.workers.empty() || !state.latest || state.latest->train_seconds <= 0) return {};
  // The totals date from the last line with results, not from now.
  double whole = state.has_ended() && !state.latest->workers.empty() ? state.latest->train_seconds : 0;
  for (const auto& line : state.lines) whole = std::max(whole, line.train_seconds);
  if (whole <= 0) return {};
  std::vector<time_shares> shares;
  for (const auto& worker : state.workers) {
    const auto share = [&](double seconds) { return std::clamp(seconds / whole, 0.0, 1.0); };
    time_shares parts{share(worker.busy - worker.data_wait), share(worker.data_wait), share(worker.exchange_wait)};
    const auto sum = std::max(1.0, parts.compute + parts.data + parts.exchange);
    shares.push_back({parts.compute / sum, parts.data / sum, parts.exchange / sum});
  }
  return shares;
}

std::optional<double> samples_per_second(const run_facts& facts, const history_state& state) {
  if (!state.has_ended())
    if (const auto steps = state.steps_per_second()) return *steps * static_cast<double>(facts.samples_per_step);
  if (state.latest && state.latest->samples_per_second) return state.latest->samples_per_second;
  return state.last(&record::samples_per_second);
}

std::vector<std::pair<std::string, std::string>> tiles_of(const run_facts& facts, const history_state& state) {
  std::vector<std::pair<std::string, std::string>> tiles{
      {"step", grouped(state.steps) + " of " + grouped(facts.steps)}};
  const auto add = [&](const char* label, const std::optional<double>& value, auto text) {
    if (value && std::isfinite(*value)) tiles.emplace_back(label, text(*value));
  };
  const auto plain = [](double value) { return human_number(value, 4); };
  if (!state.latest) return tiles;
  auto seconds = state.latest->seconds;
  if (!state.progress.empty() && !state.has_ended()) seconds = std::max(seconds, state.progress.back().seconds);
  tiles.emplace_back(facts.simulated ? "virtual time" : "time", time_text(seconds));
  add("time left", seconds_left(facts, state), time_text);
  add("validation accuracy", state.last(&record::val_accuracy), accuracy_text);
  add("validation loss", state.last(&record::val_loss), plain);
  add("training loss", state.last(&record::train_loss), plain);
  add("samples per second", samples_per_second(facts, state), plain);
  if (state.latest->bytes_sent > 0) tiles.emplace_back("sent", human_bytes(state.latest->bytes_sent));
  add("learning rate", state.last(&record::lr), plain);
  add("consensus distance", state.last(&record::consensus_distance), plain);
  add("mean staleness", state.last(&record::staleness_mean), plain);
  return tiles;
}

std::optional<double> seconds_left(const run_facts& facts, const history_state& state) {
  const auto speed = state.steps_per_second();
  if (state.has_ended() || !speed || *speed <= 0) return {};
  return std::max(0.0, static_cast<double>(facts.steps) - state.progress.back().steps) / *speed;
}

std::uint64_t steps_of(const history_state& state, std::size_t rank) {
  const auto totals = rank < state.workers.size() ? state.workers[rank].steps : 0;
  return std::max(totals, rank < state.steps_by_worker.size() ? state.steps_by_worker[rank] : 0);
}

std::optional<std::size_t> awaited_worker(const history_state& state) {
  const auto shares = shares_of(state);
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), waits_less);
  if (shares.empty() || most->exchange - least->exchange <= notable) return {};
  return static_cast<std::size_t>(least - shares.begin());
}

std::optional<std::string> waiting_text(const history_state& state) {
  const auto shares = shares_of(state);
  if (shares.size() < 2) return {};
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), waits_less);
  const auto name = [&](auto at) { return "worker " + std::to_string(at - shares.begin()); };
  const auto by_data = [](const auto& a, const auto& b) { return a.data < b.data; };
  const auto most_data = std::max_element(shares.begin(), shares.end(), by_data);
  std::string text;
  if (awaited_worker(state))
    text = "The other workers wait for " + name(least) + ": it waits for exchanges " + percent_text(least->exchange) +
           " of the time, " + name(most) + " " + percent_text(most->exchange) + ".";
  else if (most->exchange > notable)
    text = "All workers wait for exchanges alike, up to " + percent_text(most->exchange) +
           " of the time: the exchange takes that long, not one slow worker.";
  if (most_data->data > notable)
    text += std::string(text.empty() ? "" : " ") + "Waiting for samples takes up to " + percent_text(most_data->data) +
            " of the time (" + name(most_data) + ").";
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace troupe::watching

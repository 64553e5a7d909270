// The numbers that a page shows next to its figures, as text.
#pragma once

#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::watching {

/// How a worker has spent its training time, as shares of it.
struct time_shares {
  double compute{0}, data{0}, exchange{0};  ///< Computing, waiting for samples, waiting for exchanges.
};

/// Returns the shares of each worker by rank; empty as long as they are unknown.
std::vector<time_shares> shares_of(const history_state& state);

/// Returns labels and values, the most important ones first.
std::vector<std::pair<std::string, std::string>> tiles_of(const run_facts& facts, const history_state& state);

/// Returns the rank of the worker for which the others wait: its share of waiting for exchanges is much smaller than
/// the largest one. Returns nothing if there is none.
std::optional<std::size_t> awaited_worker(const history_state& state);

/// Returns a sentence about which workers wait for which, or nothing if none waits for long.
std::optional<std::string> waiting_text(const history_state& state);

/// Returns the steps that a worker has completed, as far as known.
std::uint64_t steps_of(const history_state& state, std::size_t rank);

/// Returns the samples of all workers per second, of the last seconds if the run trains, or nothing if unknown.
std::optional<double> samples_per_second(const run_facts& facts, const history_state& state);

/// Returns the seconds until the last step at the current speed, or nothing if unknown or if the run has ended.
std::optional<double> seconds_left(const run_facts& facts, const history_state& state);

// Texts of values, which may come from another process and be of any size.

/// Returns a share such as "12 %", and "0.4 %" for a small one.
std::string percent_text(double share);

/// Returns an amount such as "1.5 MiB", a rate such as "1.5 MiB/s", or a duration such as "0.2 ms".
std::string bytes_text(double bytes);
std::string rate_text(double bytes_per_second);
std::string wait_text(double seconds);

/// Returns the status of a run as people say it, such as "not started yet" for "waiting".
std::string status_text(const std::string& status);

}  // namespace troupe::watching

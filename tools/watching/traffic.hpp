// What edges and emulated links carry: measured if it was counted, planned otherwise. Rates are those of the last few
// seconds or, for a run that has ended or is simulated, of the whole run.
#pragma once

#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::watching {

/// One direction of an emulated network interface or link.
struct link_traffic {
  std::string name;  ///< Such as "w0 sends".
  std::uint64_t messages{0}, bytes{0};
  double rate{0};                    ///< Bytes per second.
  double busy{0};                    ///< Share of the time in which it is occupied, from 0 to 1.
  double queue{0};                   ///< Mean number of messages that wait for it to be free.
  double wait_mean{0}, wait_max{0};  ///< Seconds that a message waits for it; the longest wait of the run.
};

/// What one worker or server sends to another one.
struct edge_traffic {
  std::string name;                     ///< See edge_facts.
  double planned{0};                    ///< Bytes per step.
  bool measured{false};                 ///< Whether traffic was counted; that of a sender in another process is not.
  std::uint64_t messages{0}, bytes{0};  ///< Since the run began, or was continued.
  double rate{0};                       ///< Bytes per second; as planned, at the current speed, if it was not counted.
  std::optional<std::uint64_t> staleness{};    ///< See emulation::edge_usage.
  std::optional<double> queue{}, wait_mean{};  ///< Queue and wait of its emulated interface, if any.
};

std::vector<link_traffic> links_of(const history_state& state);
std::vector<edge_traffic> edges_of(const run_facts& facts, const history_state& state);

/// Returns the edges as CSV, with a header.
std::string csv_of(const std::vector<edge_traffic>& edges);

}  // namespace troupe::watching

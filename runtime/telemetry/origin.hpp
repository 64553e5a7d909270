// The origin of a run: when it began, and with which seed, software and processor. Readers of results tell runs apart
// by these facts.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::telemetry {

struct origin {
  std::string begun{};  ///< UTC time, such as "2025-11-24T09:30:00Z"; empty for a simulation, whose time is virtual.
  std::string continued{};  ///< UTC time at which the run was last continued; empty if it never was.
  std::uint64_t seed{0};
  std::string troupe{}, libtorch{}, cpu{}, cpu_capability{};
  std::string control{};  ///< What carries control messages between nodes; empty if there is one node.

  /// Returns the facts on one line, separated by semicolons.
  std::string text() const;
};

/// Returns the origin of a run of `plan` on this machine. Without a time, `begun` is empty.
origin origin_of(const plan& plan, std::optional<std::chrono::system_clock::time_point> now = {});

/// Returns an origin as one JSON object: the value of the key `origin` in metrics.jsonl. An empty text is null.
std::string json_of(const origin& what);

/// Returns `begun` of the `start` line of metrics.jsonl; empty for every other text.
std::string begun_in(std::string_view json_line);

}  // namespace troupe::telemetry

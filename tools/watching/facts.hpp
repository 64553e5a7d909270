// What is known about a run before it begins.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/origin.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::watching {

/// Traffic of an exchange in one step of every worker, as planned.
struct exchange_facts {
  std::string name, kind;
  std::uint64_t edges{0};
  std::uint64_t every{1};  ///< Steps from one exchange to the next.
  double bytes{0};         ///< Bytes of all edges per exchange.
};

/// Traffic from one worker or server to another, as planned.
struct edge_facts {
  std::string name;              ///< As in the drawing: "w0->w1", "w0->exchange s0".
  std::uint32_t from{0}, to{0};  ///< Ids of the sender and the receiver.
  double bytes{0};               ///< Bytes per step, the mean if an exchange is not due in every step.
};

struct run_facts {
  std::string title;     ///< File name of the topology, or model and data.
  std::string subtitle;  ///< Model, data, number of workers.
  std::string model, data;
  std::uint32_t workers{1};
  std::uint64_t steps{0}, steps_per_epoch{1};
  std::uint64_t samples_per_step{1};  ///< Samples of all workers in one step.
  bool simulated{false};              ///< Whether times are virtual.
  std::vector<exchange_facts> exchanges{};
  std::vector<edge_facts> edges{};  ///< Empty if there are too many.
  std::vector<std::string> warnings{};
  std::string topology;            ///< The topology file with every default.
  telemetry::origin origin{};      ///< When the run began, its seed, versions and CPU.
  std::filesystem::path folder{};  ///< The results folder, which has graph.svg once the run has begun.
};

/// Returns the facts about the run of `plan`.
run_facts facts_of(const plan& plan, const std::filesystem::path& folder, bool simulated);

}  // namespace troupe::watching

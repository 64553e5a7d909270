// Runs of a wiring over simulated nodes, and the conditions that hold however they end.
#pragma once

#include "tests/support/wirings.hpp"

#include "troupe/runtime/simulation/simulation.hpp"

#include <memory>
#include <optional>
#include <string>

namespace troupe::tests {

/// Distributes the workers of a wiring over three nodes.
tiny_options over_three_nodes(tiny_options wiring);

struct node_run {
  simulated_end all;
  std::shared_ptr<remembered> journal = std::make_shared<remembered>();
};

class node_runs {
 public:
  explicit node_runs(const tiny_options& wiring);

  node_run run(const simulation_options& options) const;

  /// Runs it under faults, and checks:
  /// END-1: every node that is alive ends within run.silence + 2 · run.timeout after the last fault; if a node is
  ///        missing, run.join_timeout is added.
  /// END-2: the run has one exit status on all nodes that are alive and not cut off from the first node.
  /// END-3: a failure names an injected fault, the node or the link, except on a node that was frozen itself.
  /// END-4: a run that succeeds has the bits of a run in one process, if the wiring is deterministic.
  void check(const simulation_options& options) const;

 private:
  plan plan_;
  at::Tensor expected_;  ///< Undefined if the wiring is not deterministic.
};

}  // namespace troupe::tests

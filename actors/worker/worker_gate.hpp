// Decides when a worker in a replay begins steps and answers the coordinator: after as many steps as the recorded
// worker. Other workers have no gate.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// Steps are counted from 0. Called by the worker only.
class worker_gate {
 public:
  virtual ~worker_gate() = default;

  /// Returns whether requests must wait for the step at which the recorded worker answered them.
  virtual bool holds_requests() const = 0;

  /// Returns how many of the `granted` steps a worker that has completed `completed` steps may begin before it answers
  /// the next request.
  virtual std::uint64_t may_begin(std::uint64_t granted, std::uint64_t completed) const = 0;

  /// Returns whether the worker may begin another step. Called between steps.
  virtual bool may_go_on(std::uint64_t completed) = 0;

  /// Keeps a request for the parameters of this step.
  virtual void keep_request(std::uint64_t step) = 0;

  /// Returns and forgets the kept requests that are answered after this many completed steps.
  virtual std::vector<std::uint64_t> requests_due(std::uint64_t completed) = 0;

  /// Returns whether a request to halt is answered after this many begun steps, and forgets it if so.
  virtual bool may_halt(std::uint64_t begun) = 0;

  /// Returns the same about a request to hold.
  virtual bool may_hold(std::uint64_t begun) = 0;
};

}  // namespace troupe

// Compares the replicas of workers that a wiring keeps equal, by digests of their parameters.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::rules {

/// Returns one CRC-32C for each parameter tensor of `values` (float32 [P] or [P + B], contiguous, on the
/// CPU), in the order of `layout.parameters`.
std::vector<std::uint32_t> digests_of(const at::Tensor& values, const models::flat_layout& layout);

/// Collects the digests of all workers by step and finds those that differ.
class agreement {
 public:
  /// `names` are the names of the parameter tensors, in the order of the digests.
  explicit agreement(std::uint32_t workers = 1, std::vector<std::string> names = {})
      : workers_(workers), names_(std::move(names)) {}

  /// Takes the digests of one worker after `step` steps. Once all workers have sent theirs, returns which of them
  /// differ from the largest group of equal ones, and in which tensor they first differ; nothing if all agree or some
  /// are still missing. Throws std::logic_error if the worker has already sent digests of that step, or sends digests
  /// of a wrong number of tensors.
  std::optional<std::string> take(rank_id worker, std::uint64_t step, std::vector<std::uint32_t> digests);

 private:
  std::uint32_t workers_;
  std::vector<std::string> names_;
  std::map<std::uint64_t, std::map<rank_id, std::vector<std::uint32_t>>> incomplete_;  ///< By step.
};

}  // namespace troupe::rules

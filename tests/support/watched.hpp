// Decorators around members of any kind that let a test observe or control the messages between them.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::tests {

/// Observes every part: the member or server with this index has `sent` it, `taken` it, or `answered` its worker with
/// it. Also observes which state a member or server has `saved` for a checkpoint. Called by one thread at a time.
class witness {
 public:
  virtual ~witness() = default;
  virtual void sent(rank_id by, rank_id to, const part& piece) = 0;
  virtual void taken(rank_id by, const part& piece) = 0;
  virtual void answered(rank_id by, const part& piece) = 0;
  virtual void saved(rank_id /*by*/, const state_dict& /*state*/) {}
};

/// Returns `kind`, with members and servers that report their actions to the witness.
exchange_kind watched(exchange_kind kind, std::shared_ptr<witness> who);

/// Returns `kind`, with servers that take contributions in this order of workers, whatever the order of arrival, and
/// keep those that arrive too early. Every worker's index occurs in `workers` as often as the worker contributes.
exchange_kind in_order(exchange_kind kind, std::vector<std::uint32_t> workers);

}  // namespace troupe::tests

// Decorators around members of any kind that let a test observe or control the messages between them.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::tests {

/// Is told of every part: that the member of this index, or server, has `sent` it (to whom), `taken` it, or handed it
/// to its worker as an answer. Called by one thread at a time.
class witness {
 public:
  virtual ~witness() = default;
  virtual void sent(rank_id by, rank_id to, const part& piece) = 0;
  virtual void taken(rank_id by, const part& piece) = 0;
  virtual void answered(rank_id by, const part& piece) = 0;
};

/// Returns `kind`, whose members and servers tell `who` of what they do.
exchange_kind watched(exchange_kind kind, std::shared_ptr<witness> who);

/// Returns `kind`, whose servers take contributions in this order of workers, whatever the order in which they come:
/// what comes too early is kept. Every worker's index stands in it as often as it contributes.
exchange_kind in_order(exchange_kind kind, std::vector<std::uint32_t> workers);

}  // namespace troupe::tests

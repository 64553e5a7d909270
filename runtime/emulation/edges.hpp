// Counts of what one worker or server has sent to another, taken at the sender.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::emulation {

/// Counts what is sent to one peer. The port that sends calls add(), the port that answers calls answer(), and any
/// thread may read.
class edge_meter {
 public:
  /// Counts a part that was computed from this version of the parameters, or that contains it.
  void add(std::int64_t bytes, std::uint64_t version) {
    messages_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
    version_.store(version, std::memory_order_relaxed);
  }

  /// Notes that the last part sent was answered with parameters of this version.
  void answer(std::uint64_t version) {
    const auto sent = version_.load(std::memory_order_relaxed);
    if (messages() > 0) staleness_.store(version > sent ? version - sent - 1 : 0, std::memory_order_relaxed);
  }

  std::uint64_t messages() const { return messages_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::optional<std::uint64_t> staleness() const {
    const auto value = staleness_.load(std::memory_order_relaxed);
    return value == unknown ? std::nullopt : std::optional(value);
  }

 private:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};
  std::atomic<std::uint64_t> messages_{0}, bytes_{0}, version_{0}, staleness_{unknown};
};

/// What one worker or server has sent to another.
struct edge_usage {
  std::uint32_t from{0}, to{0};  ///< Ids of the sender and the receiver.
  std::uint64_t messages{0}, bytes{0};
  /// Only on edges to a server: number of updates that others made between the parameters from which the last gradient
  /// was computed and those that answered it.
  std::optional<std::uint64_t> staleness{};
  std::string wire{};  ///< wire_usage::name of the emulated sending direction; empty if the bandwidth is not limited.
};

}  // namespace troupe::emulation

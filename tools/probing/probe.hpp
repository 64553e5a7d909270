// What a network between two machines can do: one of them answers, and the other one measures. Neither trusts the other
// one: a connection that says something else, or nothing, ends.
#pragma once

#include "troupe/net/channels/endpoint.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::probing {

struct measured_link {
  double to{0}, from{0};                 ///< Bytes per second to the other machine and from it, without TCP's headers.
  std::chrono::microseconds latency{0};  ///< Half of the shortest round trip.
  std::chrono::microseconds jitter{0};   ///< Half of what nine of ten round trips stay below, less the shortest one.
};

struct probe_limits {
  std::chrono::milliseconds silence{30'000};  ///< Time to connect, and the longest time in which nothing arrives.
  std::chrono::milliseconds enough{1'000};    ///< A transfer that takes as long is precise; shorter ones are enlarged.
  std::uint64_t bytes{1u << 30u};             ///< The largest transfer.
};

/// Measures the network to a machine on which an answerer listens. Takes a few seconds, or as long as 16 KiB take in
/// each direction. Throws input_error if nothing answers there, or something else.
measured_link measure(const endpoint& to, const probe_limits& limits = {});

/// Answers measurements, one after the other.
class answerer {
 public:
  /// Listens at an address of this machine. Throws input_error if it cannot.
  explicit answerer(const endpoint& where, const probe_limits& limits = {});
  ~answerer();
  answerer(const answerer&) = delete;
  answerer& operator=(const answerer&) = delete;

  std::uint16_t port() const;

  /// Waits for a connection and answers it until it ends. Returns the address of the other machine, and why the
  /// connection was ended, if that was not the end of a measurement.
  struct served {
    std::string address{}, problem{};
  };
  served answer_one();

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::probing

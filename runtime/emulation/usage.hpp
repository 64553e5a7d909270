// What an emulated network has carried: rows of links.csv.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::emulation {

/// One direction of a network interface, or of a link of its own.
struct wire_usage {
  std::string name{};  ///< Name of the worker, server or node with the interface; "w0 to w1" for a link of its own.
  bool sends{true};    ///< Whether it is the sending direction.
  std::uint64_t messages{0};
  std::int64_t bytes{0};
  std::chrono::nanoseconds busy{0};          ///< How long it was occupied, in total.
  std::chrono::nanoseconds waited{0};        ///< How long messages waited for it to be free, in total.
  std::chrono::nanoseconds longest_wait{0};  ///< How long one message waited at most.
};

}  // namespace troupe::emulation

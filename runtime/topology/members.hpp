// The members of an exchange: workers, named w0, w1, …, or groups of workers, each given by the name of the exchange
// whose members they are.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::topology {

/// One member of an exchange: its name in the file and the ranks of its workers, in ascending order.
struct exchange_member {
  std::string name;
  std::vector<std::uint32_t> ranks;
};

/// An error in one of the members.
struct member_error : std::runtime_error {
  member_error(std::size_t which, const std::string& text) : std::runtime_error(text), index(which) {}
  std::size_t index;  ///< Index in exchange_settings::members.
};

/// Returns the members of exchange `index` in the order of their first ranks, or all workers if it names none. Requires
/// workers.count to be settled. Throws member_error for an unknown name and for a worker that appears twice.
std::vector<exchange_member> members_of(const topology& file, std::size_t index);

}  // namespace troupe::topology

// Who takes part in an exchange: workers, by the names w0, w1 …, or groups of them, each named by an exchange whose
// members they are.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::topology {

/// One member of an exchange: what the file calls it, and the ranks of its workers, ascending.
struct exchange_member {
  std::string name;
  std::vector<std::uint32_t> ranks;
};

/// Says what is wrong with one of the members.
struct member_error : std::runtime_error {
  member_error(std::size_t which, const std::string& text) : std::runtime_error(text), index(which) {}
  std::size_t index;  ///< In exchange_settings::members.
};

/// Returns the members of exchange `index` in the order of their first ranks; where it names none, all workers. Needs
/// workers.count. Throws member_error: an unknown name, a worker who is in it twice.
std::vector<exchange_member> members_of(const topology& file, std::size_t index);

}  // namespace troupe::topology

// The messages with which make_plan refuses topologies.
#pragma once

#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe::testing {

/// Returns the message with which make_plan refuses a file.
inline std::string refusal(const topology::topology& file, const data_facts& facts = 60'000) {
  try {
    make_plan(file, facts);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace troupe::testing

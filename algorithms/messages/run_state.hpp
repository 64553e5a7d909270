// The state of a whole run at a moment when no step is under way: what a checkpoint holds.
#pragma once

#include "troupe/algorithms/messages/state_dict.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

struct run_state {
  std::uint64_t step{0};                     ///< Steps completed by every worker; see record::step.
  std::map<std::string, state_dict> actors;  ///< "coordinator", "worker 0", "ps server 0", …
};

}  // namespace troupe

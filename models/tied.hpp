// Parameters that have several names, such as a table of characters that is also the weights of the output. Flat
// storage has each once, under the first; a state dict of PyTorch has them all.
#pragma once

#include "troupe/models/network.hpp"

#include <string>
#include <vector>

namespace troupe::models {

struct tied_name {
  std::string name;   ///< The further one.
  std::string first;  ///< The one in the flat layout.
};

/// Returns the further names of the learnable parameters of `net`, in order of registration.
std::vector<tied_name> tied_names_of(const network& net);

}  // namespace troupe::models

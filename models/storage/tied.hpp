// Parameters and buffers that have several names, such as an embedding table of characters that is also the weights of
// the output. Flat storage holds each once, under its first name; a PyTorch state dict has all names.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <string>
#include <vector>

namespace troupe::models {

/// An additional name of a parameter or a float32 buffer.
struct tied_name {
  std::string name;   ///< Additional name.
  std::string first;  ///< Name in the flat layout.
};

/// Returns the additional names of the learnable parameters and of the float32 buffers of `net`, in order of
/// registration.
std::vector<tied_name> tied_names_of(const network& net);

}  // namespace troupe::models

// Credentials of a guest, and why it could not attach.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace troupe {

/// Why a program could not attach to a run, or lost it; what() says how to fix it.
struct attach_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// With what a guest identifies itself to a run on another host: the certificates of `troupe certs --guest NAME`.
struct guest_credentials {
  std::filesystem::path folder;  ///< It has authority.crt, NAME.crt and NAME.key.
  std::string name;              ///< NAME. The run must have it in `actors.allow`, or as the actor of an exchange.
  std::string node{};            ///< Name of the node to which the guest connects; empty if it may be any node.
};

}  // namespace troupe

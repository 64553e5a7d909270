// How the nodes of a plan identify themselves to each other.
#pragma once

#include "troupe/net/channels/channel.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// Throws input_error if a node has an address other than a loopback one, but neither certificates nor
/// security.insecure are given.
void check_security(const plan& plan);

/// Returns the path of the secret of nodes that are started by hand. The file is next to the topology file.
std::filesystem::path secret_file_of(const plan& plan);

/// Returns whether the nodes of the plan identify themselves with a secret.
bool uses_secret(const plan& plan);

/// Whether guests may connect to a node, and how they identify themselves.
struct guest_rights {
  bool admitted{false};                             ///< Whether guests may connect at all.
  std::optional<security::shared_secret> secret{};  ///< The secret of guests, if nodes identify themselves with one.
};

/// Returns whether the plan has certificates, with which guests then identify themselves as well.
bool uses_certificates(const plan& plan);

/// Returns the channels of a node: with certificates if any are given, with a secret if all nodes are on one host, and
/// otherwise without any protection. The secret is read from the environment (security::secret_variable) or, if that is
/// not set, from secret_file_of(). Throws input_error if the certificates or the secret cannot be used.
std::shared_ptr<const transport::channel_factory> channels_of(const plan& plan, std::uint32_t node,
                                                              const guest_rights& guests = {});

/// Returns the channels of the only node of a plan, to which only guests connect.
std::shared_ptr<const transport::channel_factory> channels_of_guests(const plan& plan, const guest_rights& guests);

}  // namespace troupe

// A small actor system for actors that other programs reach: it has few threads, and nothing in it listens or dials.
#pragma once

#include "troupe/net/basp/gate.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/fwd.hpp>
#include <caf/make_type_erased_value.hpp>
#include <caf/node_id.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <typeindex>
#include <typeinfo>

namespace troupe::basp {

/// Adds to a configuration what every CAF node behind a gate needs: CAF's network module without listening sockets, and
/// heartbeats.
void prepare(caf::actor_system_config& config, std::chrono::milliseconds beat);

/// Makes a message type known in a system under a name. Unlike CAF's add_message_type, which takes three times as long to
/// compile, it does not add vectors and streams of the type, and so they are not read from a connection either.
template <class Message>
void add_message(caf::actor_system_config& config, const std::string& name) {
  const std::type_index type{typeid(Message)};
  config.type_names_by_rtti.emplace(type, name);
  config.value_factories_by_name.emplace(name, &caf::make_type_erased_value<Message>);
  config.value_factories_by_rtti.emplace(type, &caf::make_type_erased_value<Message>);
}

/// The configuration of an actor system that serves one connection, or a few.
struct small_config : caf::actor_system_config {
  explicit small_config(std::chrono::milliseconds beat);
};

/// A pair of connected local sockets that do not block: `ours` for the pump, `theirs` for CAF.
struct socket_pair {
  int ours{-1}, theirs{-1};
};

/// Throws std::runtime_error if the system has no more sockets.
socket_pair make_socket_pair();

/// Offers an actor to the CAF node at the other end of `socket`, of which the system takes ownership. `signatures`:
/// caf::actor_system::message_types() of the type of its handle.
void offer(caf::actor_system& system, int socket, const caf::strong_actor_ptr& actor,
           const std::set<std::string>& signatures);

/// Asks the CAF node at the other end of `socket`, of which the system takes ownership, for the actor that it offers.
/// Blocks until it answers. Throws std::runtime_error with a clause if it does not, within `patience`, or if its actor
/// lacks one of the signatures.
caf::strong_actor_ptr ask_for_actor(caf::actor_system& system, int socket, const std::set<std::string>& signatures,
                                    std::chrono::milliseconds patience);

/// Does the same without blocking: calls `then` once, on a thread of the system, with the actor or with null and a
/// clause.
void ask_for_actor(caf::actor_system& system, int socket, const std::set<std::string>& signatures,
                   std::chrono::milliseconds patience,
                   std::function<void(const caf::strong_actor_ptr& actor, const std::string& problem)> then);

/// Returns the id of the system's node as it is written in payloads.
node_text node_of(caf::actor_system& system);

}  // namespace troupe::basp

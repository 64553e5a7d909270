// Identifies an actor of a run: by an id for the program and by a name for people.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace troupe {

enum class role : std::uint8_t {
  worker,
  compute,
  port,
  server,
  evaluator,
  coordinator,
  recorder,
  interface,  ///< The receiving half of an emulated link, before a port or server.
  copies,     ///< Writes copies of checkpoints on another node than the first.
  reception,  ///< Receives the visitors of the first node.
  link,       ///< Stands for actors of another node.
};

/// All interfaces of a node have the same id, and so do its links: ids do not distinguish them.
struct actor_id {
  role what{role::worker};
  std::uint32_t place{0};  ///< Index of the exchange; 0 unless it is a port or a server.
  std::uint32_t rank{0};   ///< Rank of the worker, index of the server within its exchange, or index of the node.
  auto operator<=>(const actor_id&) const = default;
};

/// The id of an actor, and its name in errors, traces and threads: "worker 2", "compute 2", "exchange 2",
/// "exchange server 0", "evaluator" …
struct actor_label {
  actor_id id{};
  std::string name{};
};

/// Return the labels of the actors of a worker, and of roles with only one actor.
actor_label label_of_worker(std::uint32_t rank);
actor_label label_of_compute(std::uint32_t rank);
actor_label label_of(role what);

/// Return the labels of an exchange's actors: the port of a worker, and a server by its index within the exchange.
actor_label label_of_port(const std::string& exchange, std::uint32_t place, std::uint32_t rank);
actor_label label_of_server(const std::string& exchange, std::uint32_t place, std::uint32_t index);

}  // namespace troupe

// The control messages between nodes: how nodes join, link and end, and the messages of workers, coordinator and
// recorder in actors/wire/control_messages.hpp. They are values: they name nodes by their index in the plan and workers
// by their rank, never an actor. docs/protocol.md describes when each is sent.
#pragma once

#include "troupe/actors/wire/control_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe::transport {
struct frame_header;
}

namespace troupe::control {

// From a node to the first node. -----------------------------------------------------------------------------------

/// Introduces a node that asks to join. All fields except the name and the fingerprint must be equal on all nodes.
struct introduction {
  static constexpr const char* name = "introduction";
  std::string node{};      ///< Name of the node in the topology file.
  std::string version{};   ///< Version of Troupe.
  std::string topology{};  ///< Canonical text of the topology file; see topology::canonical.
  std::string weights{};   ///< Digest of the initial weights.
  std::string data{};      ///< Digest of the training and validation samples.
  /// Properties of the node that may affect the bits of a result; see runtime/supervision/fingerprint.hpp.
  std::map<std::string, std::string> fingerprint{};
  bool continues{false};  ///< Whether --resume was given to the first node, or to the one that keeps copies.
};

/// The tensor links of this node to all others are open.
struct linked {
  static constexpr const char* name = "linked";
};

/// An actor of this node has failed.
struct failed {
  static constexpr const char* name = "failed";
  std::string why{};
};

/// The tensor link of this node to another one is lost.
struct link_lost {
  static constexpr const char* name = "link_lost";
  std::uint32_t node{0};
  std::string why{};
};

/// Answers who_waits: which ranks of this node wait for ranks of the lost node; empty if none does.
struct waiting {
  static constexpr const char* name = "waiting";
  std::uint32_t lost{0};
  std::string ranks{};
};

/// This node has received a signal and asks to end the run in good order.
struct interrupted {
  static constexpr const char* name = "interrupted";
  std::int32_t signal{0};
};

/// This node has written its copy of the checkpoint of this step, or could not.
struct copied {
  static constexpr const char* name = "copied";
  std::uint64_t step{0};
};

// From the first node to another node. -----------------------------------------------------------------------------

/// Accepts an introduction.
struct welcome {
  static constexpr const char* name = "welcome";
  std::vector<memory_handle> memories{};  ///< Handles indexed by exchange; empty for exchanges without shared memory.
  std::string session{};                  ///< Opens tensor links: 16 random bytes. Filled in by the links.
};

/// Rejects an introduction.
struct refusal {
  static constexpr const char* name = "refusal";
  std::string reason{};
};

/// All nodes have joined: asks the node to open its tensor links.
struct link_up {
  static constexpr const char* name = "link_up";
};

/// A node is lost: asks which ranks wait for its ranks.
struct who_waits {
  static constexpr const char* name = "who_waits";
  std::uint32_t lost{0};
};

/// The run is over.
struct end {
  static constexpr const char* name = "end";
  std::int32_t status{0};  ///< Exit status of the run.
  std::string failure{};   ///< Empty if it did not fail.
};

/// The messages to the first node, and those from it.
using to_first_node = joined<list<introduction, linked, failed, link_lost, waiting, interrupted, copied>,
                             joined<to_coordinator, to_recorder>>;
using from_first_node = joined<list<welcome, refusal, link_up, who_waits, end>, to_worker>;

/// A control message. The position of a type is its number in the bytes of a message.
using message = variant_of<joined<to_first_node, from_first_node>>;

/// Returns the name of a message's type, such as "progress".
std::string name_of(const message& what);

/// Returns a message as bytes.
std::vector<std::byte> encode(const message& what);

/// Returns the message that the bytes encode. Throws transport::frame_error if they are not a message.
message decode(std::span<const std::byte> bytes);

/// The ranks of a node: [first, first + count).
struct node_ranks {
  std::uint32_t first{0}, count{0};
};

/// Throws transport::frame_error unless node `from` may send the message to node `to`: it must be sent in this
/// direction, its nodes and ranks must exist, and the worker that it is about, if any, must belong to the node that it
/// comes from or goes to.
void check(const message& what, const std::vector<node_ranks>& nodes, std::uint32_t from, std::uint32_t to);

/// Throws transport::frame_error unless the sender of a frame with a tensor is on node `from`. Servers are on the first
/// node, and only that node sends states to workers of other nodes and copies of checkpoints.
void check_sender(const transport::frame_header& header, const std::vector<node_ranks>& nodes, std::uint32_t from);

}  // namespace troupe::control

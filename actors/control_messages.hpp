// How nodes join a run, and how the members of an exchange are re-formed: the only messages that name actors. See
// messages.hpp.
#pragma once

#include "troupe/actors/exchange/membership.hpp"
#include "troupe/actors/messages.hpp"

#include <caf/actor_control_block.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Introduction of a node that joins a run. All fields except the name and the fingerprint must be equal on all nodes.
struct introduction {
  std::string node;           ///< Name of the node in the topology file.
  std::uint32_t protocol{0};  ///< Version of the messages and frames.
  std::string version;        ///< Version of Troupe.
  std::string topology;       ///< Canonical text of the topology file; see topology::canonical.
  std::string weights;        ///< Digest of the initial weights.
  std::string data;           ///< Digest of the training and validation samples.
  /// Properties of the node that may affect the bits of a result; see node/fingerprint.hpp.
  std::map<std::string, std::string> fingerprint;
  bool continues{false};  ///< Whether --resume was given to the first node, or to the one that keeps copies.
};

/// The first node's answer to an introduction.
struct welcome {
  std::string session{};  ///< Session id: 16 random bytes with which the connections of this run are opened.
  caf::strong_actor_ptr coordinator{};    ///< A milestone_sink.
  caf::strong_actor_ptr recorder{};       ///< A progress_sink.
  std::vector<memory_handle> memories{};  ///< Handles indexed by exchange; empty for exchanges without shared memory.
};

/// How far a member has come when an exchange is paused to be re-formed.
struct exchange_standing {
  std::uint64_t step{0};          ///< The step that its port answers next.
  std::optional<outcome> last{};  ///< The answer to the step before, if there was one.
};

/// The members with which an exchange continues.
struct reformation {
  membership among;                            ///< As the receiver sees it, with the next generation.
  std::vector<caf::strong_actor_ptr> peers{};  ///< The ports of all members by index: each a peer_port.
  std::optional<outcome> missed{};             ///< The answer to the receiver's step, if another member has it already.
};

}  // namespace troupe

// How the members of an exchange are re-formed: the only messages that name actors.
#pragma once

#include "troupe/algorithms/exchange/membership.hpp"
#include "troupe/algorithms/messages/messages.hpp"

#include <caf/actor_control_block.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// How far a member has progressed when an exchange is paused to be re-formed.
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

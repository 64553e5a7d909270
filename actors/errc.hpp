// Every failure an actor may answer with. A separate code exists only if some caller can handle it differently.
#pragma once

#include <caf/error.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace troupe {

enum class errc : std::uint8_t {
  stale = 1,  ///< The part belongs to a step, version or generation that has ended, or was already merged.
  mismatch,   ///< The run, sender, shape or dtype of the part does not fit the receiver.
  peer_lost,  ///< A member of the exchange was lost; the text names it.
  timed_out,  ///< Members did not answer within the topology's timeout; the text names who is waiting for whom.
  failed,     ///< The work itself failed, in a lane or in a handler; the text gives the reason.
};

std::string to_string(errc code);

/// Returns an error that carries `text`, a message for people.
caf::error make_error(errc code, std::string text = {});

/// Returns whether `error` has this code and belongs to Troupe.
bool is(const caf::error& error, errc code);

/// Returns a readable message for an exception; messages of LibTorch lose their stack trace.
std::string describe(const std::exception_ptr& raised);

/// Returns a readable message for `error`: its text if it has one, otherwise CAF's description.
std::string describe(const caf::error& error);

}  // namespace troupe

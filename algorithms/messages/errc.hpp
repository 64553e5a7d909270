// Every failure an actor may answer with. A separate code exists only if some caller can handle it differently.
// error.hpp turns codes into errors of the actor framework.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace troupe {

/// Kinds of failure.
enum class errc : std::uint8_t {
  stale = 1,  ///< The part belongs to a step, version or generation that has ended, or was already merged.
  mismatch,   ///< The run, sender, shape or dtype of the part does not fit the receiver.
  peer_lost,  ///< A member of the exchange was lost; the text names it.
  timed_out,  ///< Members did not answer within the topology's timeout; the text states which member waits for which.
  failed,     ///< The work itself failed, in a lane or in a handler; the text gives the reason.
};

/// Returns the name of a code.
std::string to_string(errc code);

/// Thrown by a member, or by a rule that it uses, if it receives something that does not fit. The port reports the
/// error to its worker.
struct exchange_error : std::runtime_error {
  /// `text` states what does not fit and what was expected.
  exchange_error(errc why, const std::string& text) : std::runtime_error(text), code(why) {}
  errc code;  ///< Kind of the failure.
};

/// Returns a readable message for an exception, without the stack trace in messages of LibTorch.
std::string describe(const std::exception_ptr& raised);

}  // namespace troupe

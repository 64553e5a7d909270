// Every failure an actor may answer with. A code exists only where some caller can act on it in its own way.
#pragma once

#include <caf/error.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace troupe {

enum class errc : std::uint8_t {
  stale = 1,  ///< A part of a step, version or generation that is over, or that was merged already.
  mismatch,   ///< A part whose run, sender, shape or dtype does not fit the receiver.
  peer_lost,  ///< A member of the exchange is gone; the text names it.
  timed_out,  ///< Members did not come within the topology's timeout; the text says who waits for whom.
  failed,     ///< The work itself failed, in a lane or in a handler; the text says how.
};

std::string to_string(errc code);

/// Returns an error that carries `text`, what a person reads.
caf::error make_error(errc code, std::string text = {});

/// Tells whether `error` is this one of ours.
bool is(const caf::error& error, errc code);

/// Returns what a person should read of an exception: LibTorch's without the stack it brings along.
std::string describe(const std::exception_ptr& raised);

/// Returns what a person should read of `error`: the text if it carries one, else CAF's own words.
std::string describe(const caf::error& error);

}  // namespace troupe

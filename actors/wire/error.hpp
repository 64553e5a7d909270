// Failures as errors of the actor framework.
#pragma once

#include "troupe/algorithms/messages/errc.hpp"

#include <caf/error.hpp>

#include <exception>
#include <string>

namespace troupe {

/// Returns an error that carries `text`, a message for people.
caf::error make_error(errc code, std::string text = {});

/// Returns an exception as an error with its text: errc::peer_lost if a process died while it held a lock, otherwise
/// errc::failed.
caf::error error_of(const std::exception_ptr& raised);

/// Returns whether `error` has this code and belongs to Troupe.
bool is(const caf::error& error, errc code);

/// Returns a readable message for `error`: its text if it has one, otherwise CAF's description.
std::string describe(const caf::error& error);

}  // namespace troupe

// What guests can make a run do.
#pragma once

#include "troupe/net/guests/messages.hpp"

#include <functional>
#include <string>
#include <variant>

namespace troupe::guests {

using steering_request = std::variant<pause_run, continue_run, checkpoint_run, halt_run, set_learning_rate>;

/// Calls `answer` once, on any thread, when the request is carried out or refused. `guest` is the name of the guest
/// that asks. May be called on any thread.
using steering = std::function<void(const steering_request& what, const std::string& guest,
                                    std::function<void(const steered&)> answer)>;

}  // namespace troupe::guests

// Timeouts of requests in virtual time.
#pragma once

#include <caf/detail/test_actor_clock.hpp>
#include <caf/message_id.hpp>

namespace troupe {

/// Called when a request has been answered: forgets its timeout, which CAF keeps until it is due. In real time that is
/// soon; in virtual time, a minute may hold millions of requests, and all that has a time would be slower.
template <class Self>
void forget_timeout(Self* self, caf::message_id answer) {
  if (auto* clock = dynamic_cast<caf::detail::test_actor_clock*>(&self->clock()))
    clock->cancel_request_timeout(self, answer);
}

}  // namespace troupe

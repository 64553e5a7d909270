// The actor that a run offers to a guest. It lives in an actor system of its own, so that the guest can reach nothing
// else; it reads the feed of the run, and passes on what the guest asks the run to do.
#pragma once

#include "troupe/net/guests/messages.hpp"
#include "troupe/runtime/guests/steering.hpp"
#include "troupe/runtime/telemetry/feed.hpp"

#include <caf/fwd.hpp>

#include <functional>
#include <memory>
#include <string>

namespace troupe::guests {

struct front_options {
  std::string guest;  ///< Name of the guest.
  std::shared_ptr<telemetry::feed> feed;
  std::function<run_status()> status;
  steering steer;
  wiring about{};
  std::function<void()> follows{};  ///< Called when the guest has asked for news.
};

run_actor spawn_front(caf::actor_system& system, front_options options);

}  // namespace troupe::guests

// Actors that run under the control of a test: one message at a time, without threads.
#pragma once

#include "troupe/actors/wire/lane.hpp"
#include "troupe/actors/wire/type_ids.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace troupe::testing {

/// Configures an actor system whose scheduler is a caf::scheduler::test_coordinator.
struct stepped_config : caf::actor_system_config {
  stepped_config() { set("scheduler.policy", caf::atom("testing")); }
};

/// Runs its jobs at once, on the thread of the owner.
class immediate_lane final : public lane {
 public:
  void post(caf::actor owner, task, job work) override {
    caf::anon_send(owner, done_atom_v, completion{std::make_shared<std::function<void()>>(work())});
  }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }  // no job waits
};

}  // namespace troupe::testing

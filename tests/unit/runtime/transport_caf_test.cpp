// What CAF's own network does with a message that holds a tensor. It cannot serialise it and sends an empty message
// instead, which no handler accepts: the requester receives an error, and the connection stays open.
#include "tests/support/doctest.hpp"

#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/error.hpp"
#include "troupe/actors/port.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <atomic>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

struct networked : caf::actor_system_config {
  networked() {
    set("scheduler.max-threads", 2u);
    set("logger.verbosity", caf::atom("quiet"));
    load<caf::io::middleman>();
    add_message_types<caf::id_block::troupe>();
    set("middleman.workers", 1u);
    set("middleman.connection-timeout", caf::timespan{5s});
    set("middleman.heartbeat-interval", caf::timespan{200ms});
  }
};

/// Takes parts and milestones, and counts both.
using taker =
    peer_port::extend<caf::reacts_to<reached_atom, milestone>, caf::replies_to<progress_atom>::with<std::uint64_t>>;

}  // namespace

TEST_CASE("a tensor message that is sent through CAF's network does not arrive, and the next message does") {
  networked here_config, there_config;
  caf::actor_system here{here_config}, there{there_config};
  std::atomic<int> parts{0}, empty{0};
  std::atomic<std::uint64_t> reached_step{0};
  const auto published = there.spawn([&](taker::pointer self) -> taker::behavior_type {
    self->set_default_handler([&](caf::scheduled_actor*, caf::message_view& what) -> caf::result<caf::message> {
      empty += what.content().empty() ? 1 : 0;
      return caf::sec::unexpected_message;
    });
    return {[&](part_atom, const part&) { ++parts; },
            [&](reached_atom, const milestone& said) { reached_step = said.step; },
            [&](progress_atom) { return reached_step.load(); }};
  });
  const auto port = there.middleman().publish(published, 0, "127.0.0.1");
  REQUIRE(port);
  const auto reached = here.middleman().remote_actor<taker>("127.0.0.1", *port);
  REQUIRE(reached);
  caf::scoped_actor self{here};
  self->monitor(*reached);

  const auto control = [&](std::uint64_t step) {
    caf::anon_send(*reached, reached_atom_v, milestone{.step = step});
    std::uint64_t heard = 0;
    self->request(*reached, 5s, progress_atom_v)
        .receive([&](std::uint64_t count) { heard = count; },
                 [&](const caf::error& why) { MESSAGE(here.render(why)); });
    return heard;
  };
  REQUIRE(control(1) == 1);

  bool answered = false;
  caf::error heard;
  self->request(*reached, 500ms, part_atom_v, part{.piece = {0, at::ones({4})}, .total = 4, .sample_count = 1})
      .receive([&] { answered = true; }, [&](const caf::error& why) { heard = why; });
  CHECK_FALSE(answered);
  CHECK(heard == caf::sec::unexpected_message);
  CHECK(control(2) == 2);
  caf::anon_send(*reached, part_atom_v, part{.piece = {0, at::ones({4})}, .total = 4, .sample_count = 1});
  CHECK(control(3) == 3);
  CHECK(parts == 0);
  CHECK(empty == 2);
  caf::anon_send_exit(published, caf::exit_reason::kill);
}

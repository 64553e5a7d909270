// Checkpoints of a run: the coordinator's requests to the workers, when the workers continue, and the checkpoint at
// which a halted run ends.
#include "tests/support/doctest.hpp"
#include "tests/support/rehearsal.hpp"

#include "troupe/actors/coordinator/coordinator.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <vector>

namespace coordinator_checkpoint_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

coordinator_options with_checkpoints(std::uint64_t every) {
  coordinator_options options;
  options.when.checkpoint_every = every;
  return options;
}

}  // namespace

TEST_CASE("a checkpoint holds the states of all, and the workers continue while it is written") {
  rehearsal here{true, with_checkpoints(2)};
  here.all->keeps_writing = true;
  CHECK(here.all->granted == std::vector<std::uint64_t>{2, 2});
  here.complete(1, 1);
  here.all->granted.clear();
  here.arrive(2);
  CHECK(here.all->granted == std::vector<std::uint64_t>{2, 2});  // an evaluation would allow more, the barrier does not
  CHECK(here.all->asked == std::vector<std::uint64_t>{1, 1});
  here.answer(1, 1);
  CHECK(here.all->checkpoints.empty());
  here.answer(0, 1);
  REQUIRE(here.all->checkpoints.size() == 1);
  const auto& made = here.all->checkpoints.front();
  CHECK(made.step == 2);
  REQUIRE(made.actors.size() == 3);
  CHECK((made.actors.contains("coordinator") && made.actors.contains("worker 0") && made.actors.contains("worker 1")));
  CHECK(here.all->granted.back() == 4);
}

TEST_CASE("a worker that reports its arrival twice does not start another checkpoint") {
  rehearsal here{true, with_checkpoints(2)};
  here.complete(1, 1);
  here.arrive(2);
  caf::anon_send(here.coordinator, control::at_checkpoint{rank_id{1}, 2});
  here.run();
  CHECK(here.all->asked == std::vector<std::uint64_t>{1, 1});
  here.answer(0, 1);
  here.answer(1, 1);
  CHECK(here.all->checkpoints.size() == 1);
}

TEST_CASE("a checkpoint that is due while another one is written is skipped") {
  rehearsal here{true, with_checkpoints(1)};
  here.all->keeps_writing = true;
  here.arrive(1);
  here.answer(0, 1);
  here.answer(1, 1);
  here.all->asked.clear();
  here.all->granted.clear();
  here.arrive(2);
  CHECK(here.all->asked.empty());
  CHECK(here.all->granted.back() == 3);
  caf::anon_send(caf::actor_cast<recorder_actor>(here.members[1]), done_atom_v, completion{});
  here.run();
  here.arrive(3);
  CHECK(here.all->asked == std::vector<std::uint64_t>{2, 2});
}

TEST_CASE("a halted run makes its checkpoint of the step at which it ends, with states requested after it") {
  rehearsal here{true, with_checkpoints(1)};
  here.arrive(1);
  here.answer(0, 1);
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  CHECK(here.all->asked.back() == 2);
  here.answer(1, 1);  // too late
  here.answer(0, 2);
  CHECK(here.all->checkpoints.empty());
  CHECK(here.all->finished.empty());
  here.answer(1, 2);
  REQUIRE(here.all->checkpoints.size() == 1);
  CHECK(here.all->checkpoints.front().step == 1);
  CHECK(here.all->checkpoints.front().actors.at("worker 1").count("number") == 2);
  CHECK(here.all->finished.size() == 2);
}

TEST_CASE("a checkpoint waits for a milestone that a worker's state has overtaken") {
  rehearsal here{true, with_checkpoints(1)};
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  here.show(0, 1, 7);
  here.reach(0, 1);
  here.answer(0, 1);
  here.answer(1, 1);
  CHECK(here.all->checkpoints.empty());
  here.reach(1, 1);
  REQUIRE(here.all->checkpoints.size() == 1);
  CHECK(here.all->checkpoints.front().actors.at("coordinator").count("reports") == 1);
  CHECK(here.all->events.back() == "end interrupted");
}

}  // namespace coordinator_checkpoint_test

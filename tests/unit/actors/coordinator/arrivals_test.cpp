#include "troupe/actors/coordinator/arrivals.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/full.h>

namespace arrivals_test {

namespace {

using namespace troupe;
using rules::arrivals;

milestone reached(std::uint32_t rank, std::uint64_t step) {
  return {.rank = rank_id{rank}, .step = step, .sample_count = 1};
}

snapshot shown(std::uint32_t rank, std::uint64_t step, snapshot_time taken = snapshot_time::after_step) {
  return {.origin = {.sender = rank_id{rank}, .step = step},
          .values = at::full({2}, static_cast<double>(step)),
          .taken = taken};
}

}  // namespace

TEST_CASE("a step is complete once all workers have reported it, whatever others report meanwhile") {
  arrivals all{2};
  all.take(reached(1, 5));
  CHECK_FALSE(all.complete(5));
  all.take(reached(1, 10));
  all.take(reached(0, 5));
  const auto found = all.complete(5);
  REQUIRE(found);
  REQUIRE(found->size() == 2);
  CHECK((found->front().rank == rank_id{0}));
  CHECK_FALSE(all.complete(5));  // it is forgotten
  CHECK_FALSE(all.complete(10));
  const auto rest = all.take_rest();
  REQUIRE(rest.size() == 1);
  CHECK(rest.front().step == 10);
  CHECK(all.take_rest().empty());
}

TEST_CASE("a milestone or a snapshot that comes twice is an error that names the worker") {
  arrivals all{2};
  all.take(reached(1, 5));
  CHECK_THROWS_WITH(all.take(reached(1, 5)), "worker 1 reported step 5 twice");
  CHECK_THROWS_WITH(all.take(reached(1, 4)), "worker 1 reported step 4 twice");
  arrivals of_queue{2};
  of_queue.take_of_queue(reached(0, 3));
  CHECK_THROWS_WITH(of_queue.take_of_queue(reached(0, 3)), "worker 0 reported step 3 twice");
  all.take(shown(0, 5));
  CHECK_THROWS_WITH(all.take(shown(0, 5)), "worker 0 sent its parameters for step 5 twice");
}

TEST_CASE("workers that end at different steps are asked about their own") {
  arrivals all{2};
  all.take(reached(0, 7));
  all.take(reached(1, 4));
  CHECK(all.all_have_reached({7, 4}));
  CHECK_FALSE(all.all_have_reached({7, 5}));
  all.take(shown(0, 7));
  all.take(shown(1, 3));
  all.take(shown(1, 4));
  const auto found = all.shown_at({7, 4});
  REQUIRE(found.size() == 2);
  CHECK(found.at(rank_id{1}).origin.step == 4);
}

TEST_CASE("snapshots are kept until the report of a later step is written") {
  arrivals all{2};
  for (const std::uint64_t step : {5U, 10U}) {
    all.take(shown(0, step));
    all.take(shown(1, step, snapshot_time::before_mixing));
    all.take(shown(0, step, snapshot_time::after_mixing));
    all.take(shown(1, step, snapshot_time::after_mixing));
  }
  CHECK(all.before_mixing(5).size() == 1);
  CHECK(all.after_mixing(5).size() == 2);
  all.forget_before(5);
  CHECK(all.shown(5).size() == 1);  // it may be requested again
  CHECK(all.before_mixing(5).empty());
  CHECK(all.after_mixing(5).empty());
  all.forget_before(10);
  CHECK(all.shown(5).empty());
  CHECK(all.shown(10).size() == 1);
  CHECK((all.withdraw(10) == std::vector{rank_id{0}}));
  CHECK(all.shown(10).empty());
  CHECK_NOTHROW(all.take(shown(0, 10)));
}

TEST_CASE("what has arrived from some workers is restored") {
  arrivals before{2};
  before.take(reached(1, 5));
  before.take(shown(1, 5));
  before.take(shown(0, 5, snapshot_time::before_mixing));
  before.take(shown(1, 5, snapshot_time::after_mixing));
  arrivals after{2};
  after.restore(before.state());
  CHECK(after.shown(5).size() == 1);
  CHECK(after.before_mixing(5).size() == 1);
  CHECK(after.after_mixing(5).size() == 1);
  CHECK_THROWS_WITH(after.take(reached(1, 5)), "worker 1 reported step 5 twice");
  after.take(reached(0, 5));
  CHECK(after.complete(5));
  arrivals of_queue{2};
  of_queue.take_of_queue(reached(0, 3));
  after.restore(of_queue.state());
  CHECK(after.take_queued().size() == 1);
  CHECK_THROWS_AS(arrivals{3}.restore(before.state()), state_error);
}

}  // namespace arrivals_test

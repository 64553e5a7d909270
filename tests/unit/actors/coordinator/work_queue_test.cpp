#include "troupe/actors/coordinator/work_queue.hpp"

#include "tests/support/doctest.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace work_queue_test {

namespace {

using namespace troupe;
using rules::work_queue;

/// Workers that complete their assignments at different rates, and the assignments of each.
struct simulated_workers {
  simulated_workers(const schedule& when, std::vector<std::uint64_t> rates, std::uint32_t most)
      : queue(static_cast<std::uint32_t>(rates.size()), when, most),
        rates(std::move(rates)),
        open(this->rates.size()) {}

  void hand_out(std::uint64_t until) {
    for (const auto& [rank, more] : queue.hand_out(until)) {
      auto& its = open[static_cast<std::size_t>(rank)];
      CHECK(more.first_step == granted[rank]);  // assignments are contiguous
      granted[rank] = more.end();
      for (std::uint64_t i = 0; i < more.count; ++i) ++drawn[more.first_batch + i];
      its.push_back(more);
      CHECK(its.size() <= 2);
      sizes.push_back(more.count);
    }
  }

  /// Worker i completes an assignment at every tick that is divisible by its rate.
  void work_until(std::uint64_t until) {
    hand_out(until);
    for (; queue.steps() < until; ++tick)
      for (std::size_t i = 0; i < open.size(); ++i) {
        if (tick % rates[i] != 0 || open[i].empty()) continue;
        queue.note(rank_id{static_cast<std::uint32_t>(i)}, open[i].front().end());
        open[i].pop_front();
        hand_out(until);
      }
  }

  work_queue queue;
  std::vector<std::uint64_t> rates;
  std::vector<std::deque<assignment>> open;
  std::map<rank_id, std::uint64_t> granted;
  std::map<std::uint64_t, int> drawn;  ///< By batch.
  std::vector<std::uint64_t> sizes;
  std::uint64_t tick{1};
};

}  // namespace

TEST_CASE("every batch of a queue is handed out once, and faster workers get more of them") {
  simulated_workers all{{.steps = 100, .steps_per_epoch = 40, .evaluate_every = 30}, {1, 2, 5}, 4};
  all.work_until(100);
  CHECK(all.drawn.size() == 300);
  CHECK(std::all_of(all.drawn.begin(), all.drawn.end(), [](const auto& one) { return one.second == 1; }));
  CHECK(all.queue.steps() == 100);
  CHECK(all.granted[rank_id{0}] > 1.5 * static_cast<double>(all.granted[rank_id{1}]));
  CHECK(all.granted[rank_id{1}] > 1.5 * static_cast<double>(all.granted[rank_id{2}]));
}

TEST_CASE("assignments become shorter towards the end of what may be started") {
  simulated_workers all{{.steps = 1000, .steps_per_epoch = 1000, .evaluate_every = 1000}, {1, 1}, 16};
  all.work_until(1000);
  CHECK(all.sizes.front() == 16);
  CHECK(all.sizes.back() == 1);
  CHECK(std::is_sorted(all.sizes.rbegin(), all.sizes.rend()));
}

TEST_CASE("no batch is handed out beyond the granted steps, and no assignment goes beyond a milestone") {
  const schedule when{.steps = 50, .steps_per_epoch = 7, .evaluate_every = 5};
  work_queue queue{3, when, 64};
  std::uint64_t next = 0;
  for (std::uint64_t until = 5; until <= 50; until += 5) {
    for (auto made = queue.hand_out(until); !made.empty(); made = queue.hand_out(until))
      for (const auto& [rank, more] : made) {
        CHECK(more.first_batch == next);
        next += more.count;
        CHECK(next <= 3 * until);
        CHECK(next <= 3 * when.next_milestone(more.first_batch / 3));
        queue.note(rank, more.end());
      }
    CHECK(queue.steps() == until);
  }
}

TEST_CASE("assignments are whole blocks, unless a milestone or the end is nearer") {
  work_queue queue{2, {.steps = 25, .steps_per_epoch = 100, .evaluate_every = 10}, 20, 5};
  std::uint64_t all = 0;
  for (auto made = queue.hand_out(25); !made.empty(); made = queue.hand_out(25))
    for (const auto& [rank, more] : made) {
      CHECK(more.count % 5 == 0);
      all += more.count;
      queue.note(rank, more.end());
    }
  CHECK(all == 50);
}

TEST_CASE("a worker that stands still keeps two assignments and no more") {
  work_queue queue{2, {.steps = 100, .steps_per_epoch = 100, .evaluate_every = 100}, 4};
  auto still = 0;
  std::uint64_t moved = 0;
  for (auto made = queue.hand_out(100); !made.empty(); made = queue.hand_out(100))
    for (const auto& [rank, more] : made) {
      if (rank == rank_id{0})
        ++still;
      else
        queue.note(rank, moved = more.end());
    }
  CHECK(still == 2);
  CHECK(moved == 200 - 8);
}

TEST_CASE("a restored queue hands out what the saved one would have") {
  const schedule when{.steps = 20, .steps_per_epoch = 10, .evaluate_every = 10};
  work_queue before{2, when, 4};
  const auto first = before.hand_out(6);
  REQUIRE(first.size() >= 2);
  before.note(first.front().first, first.front().second.end());
  CHECK_FALSE(before.is_idle_at(6));
  CHECK(before.steps_assigned() <= 6);
  work_queue after{2, when, 4};
  after.restore(before.state());
  CHECK(after.steps() == before.steps());
  CHECK(after.steps_assigned_to(first.front().first) == before.steps_assigned_to(first.front().first));
  for (int round = 0; round < 3; ++round) {
    const auto expected = before.hand_out(6), found = after.hand_out(6);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK((found[i].first == expected[i].first));
      CHECK(found[i].second.first_batch == expected[i].second.first_batch);
      CHECK(found[i].second.end() == expected[i].second.end());
    }
    for (const std::uint32_t rank : {0U, 1U}) {
      before.note(rank_id{rank}, before.steps_assigned_to(rank_id{rank}));
      after.note(rank_id{rank}, after.steps_assigned_to(rank_id{rank}));
    }
  }
  CHECK(after.is_idle_at(6));
  CHECK_THROWS_AS((work_queue{3, when, 4}.restore(before.state())), state_error);
}

}  // namespace work_queue_test

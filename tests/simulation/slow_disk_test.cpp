// Checkpoints on real threads, to a disk that is slower than training.
#include "tests/support/doctest.hpp"
#include "tests/support/watched.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/node.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace slow_disk_test {

namespace {

using namespace troupe;
using tests::remembered;
using tests::tiny_options;

/// The progress of every worker: the step of its last contribution to the exchange.
class contributions final : public tests::witness {
 public:
  explicit contributions(std::uint32_t workers) : steps_(workers) {}

  void sent(rank_id by, rank_id, const part& piece) override {
    if (static_cast<std::size_t>(by) >= steps_.size()) return;  // a server
    const std::lock_guard lock{mutex_};
    steps_[static_cast<std::size_t>(by)] = piece.origin.step;
    changed_.notify_all();
  }
  void taken(rank_id, const part&) override {}
  void answered(rank_id, const part&) override {}

  /// Waits until every worker has contributed to this step. Returns false after a timeout.
  bool wait_for(std::uint64_t step) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{60},
                             [&] { return *std::min_element(steps_.begin(), steps_.end()) >= step; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> steps_;
};

/// A disk that does not finish a checkpoint until every worker has reached a later step.
struct slow_disk final : journal {
  explicit slow_disk(std::shared_ptr<contributions> workers, std::uint64_t step)
      : seen(std::move(workers)), until(step) {}

  void write(const record& line) override { journal.write(line); }
  void progress(std::uint64_t) override {}
  void keep(const snapshot& best) override { journal.keep(best); }
  void save(const snapshot& result) override { journal.save(result); }
  std::optional<state_dict> checkpoint(const run_state& state, bool) override {
    steps.push_back(state.step);
    went_on = went_on && seen->wait_for(until);
    return {};
  }

  std::shared_ptr<contributions> seen;
  std::uint64_t until;
  remembered journal;
  std::vector<std::uint64_t> steps;  ///< Steps of the checkpoints.
  bool went_on{true};
};

/// Trains with checkpoints every five steps.
std::shared_ptr<slow_disk> train(const tiny_options& options, std::uint64_t until) {
  auto plan = tests::tiny_plan(options);
  plan.when.checkpoint_every = 5;
  auto disk = std::make_shared<slow_disk>(std::make_shared<contributions>(options.workers), until);
  const auto kind = tests::watched(*find_exchange(options.exchange), disk->seen);
  plan.exchanges.front().kind = &kind;
  models::buffer_pool pool;
  signal_watch signals;
  const auto end =
      run(plan, tests::tiny_data(),
          {.initial = initial_weights(plan, pool), .pool = pool, .open_journal = [&] { return disk; }}, signals);
  CHECK(end.status() == 0);
  return disk;
}

const tiny_options all_reduce{
    .workers = 3, .settings = {{"route", std::string{"direct"}}}, .steps = 30, .evaluate_every = 4};
const tiny_options asgd{.workers = 3,
                        .exchange = "parameter_server",
                        .settings = {{"apply", std::string{"each"}}, {"shards", std::int64_t{1}}},
                        .loop = {"gradient", "exchange"},
                        .steps = 30,
                        .evaluate_every = 4};

}  // namespace

TEST_CASE("training never waits for the disk, and skips checkpoints that are due meanwhile") {
  for (const auto& options : {all_reduce, asgd}) {
    CAPTURE(options.exchange);
    const auto disk = train(options, 29);
    CHECK(disk->went_on);
    CHECK(disk->steps == std::vector<std::uint64_t>{5});
    CHECK(disk->journal.lines.back().step == 30);
  }
}

TEST_CASE("a slow disk changes neither the result nor the lines") {
  const auto slow = train(all_reduce, 29), fast = train(all_reduce, 0);
  CHECK(fast->steps.front() == 5);
  CHECK(slow->journal.result.equal(fast->journal.result));
  REQUIRE(slow->journal.lines.size() == fast->journal.lines.size());
  for (std::size_t i = 0; i < slow->journal.lines.size(); ++i) {
    CHECK(slow->journal.lines[i].event == fast->journal.lines[i].event);
    CHECK(slow->journal.lines[i].step == fast->journal.lines[i].step);
    CHECK(slow->journal.lines[i].train_loss == fast->journal.lines[i].train_loss);
    CHECK(slow->journal.lines[i].val_loss == fast->journal.lines[i].val_loss);
  }
}

}  // namespace slow_disk_test

// The port of a device's collective, under the test coordinator and with a fake NCCL. Calls block separate threads,
// which the test starts and joins; time is virtual.
#include "troupe/actors/port/collective_port.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/fake_collective.hpp"
#include "tests/support/stepped_system.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <deque>
#include <thread>

namespace collective_port_test {

namespace {

using namespace troupe;

/// Keeps its jobs until the test begins them, each on a separate thread.
struct hand_lane final : lane {
  struct yard {
    std::deque<std::pair<caf::actor, job>> waiting;
    std::deque<std::pair<caf::actor, job>> running;
    std::thread thread;
    std::function<void()> result;

    void start() {
      if (waiting.empty() || thread.joinable()) return;
      running.push_back(std::move(waiting.front()));
      waiting.pop_front();
      thread = std::thread{[this] { result = running.front().second(); }};
    }

    bool finish() {
      if (!thread.joinable()) return false;
      thread.join();
      caf::anon_send(running.front().first, done_atom_v,
                     completion{std::make_shared<std::function<void()>>(std::move(result))});
      running.pop_front();
      return true;
    }
  };

  explicit hand_lane(std::shared_ptr<yard> given) : all(std::move(given)) {}
  void post(caf::actor owner, task, job work) override { all->waiting.emplace_back(std::move(owner), std::move(work)); }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }
  std::shared_ptr<yard> all;
};

struct stage_with_collective {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<testing::fake_wire> wire;
  std::vector<port_actor> ports;
  std::vector<std::shared_ptr<hand_lane::yard>> yards;
  std::vector<std::shared_ptr<testing::fake_collective>> engines;

  explicit stage_with_collective(std::uint32_t n, std::vector<range> buckets = {})
      : wire(std::make_shared<testing::fake_wire>(n)) {
    models::flat_layout layout;
    layout.parameters = {{"w", {32}, 0, 32}};
    layout.parameter_end = layout.total = layout.parameter_count = 32;
    std::vector<peer_port> peers;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      yards.push_back(std::make_shared<hand_lane::yard>());
      engines.push_back(std::make_shared<testing::fake_collective>(wire));
      const port_options options{
          .run = run_id{5},
          .timeout = std::chrono::seconds{8},
          .own = {.among = {.rank = rank_id{rank}, .world_size = n}, .layout = layout, .buckets = buckets}};
      ports.push_back(device::spawn_collective_port(system, options, engines.back(), "id",
                                                    std::make_unique<hand_lane>(yards.back())));
      peers.emplace_back(ports.back());
    }
    for (const auto& port : ports) caf::anon_send(port, wire_atom_v, peers);
    handlers();
  }

  ~stage_with_collective() {
    for (const auto& port : ports) caf::anon_send_exit(port, caf::exit_reason::kill);
    handlers();
    for (const auto& engine : engines) engine->abort();
    for (bool more = true; more;) {  // a job holds its owner
      more = false;
      for (const auto& yard : yards) more = yard->finish() || more;
      handlers();
      for (const auto& yard : yards) yard->waiting.clear();
    }
  }

  void handlers() {
    while (scheduler.has_job()) scheduler.run_once();
  }

  /// Lets every lane run its jobs, all lanes at once, until none has more.
  void lanes() {
    for (bool more = true; more;) {
      more = false;
      for (const auto& yard : yards) yard->start();
      for (const auto& yard : yards) more = yard->finish() || more;
      handlers();
    }
  }

  void seconds(int count) {
    for (int i = 0; i < count; ++i) {
      scheduler.advance_time(std::chrono::seconds{1});
      handlers();
    }
  }

  part contribution(std::uint32_t rank, at::Tensor values, std::int64_t samples, std::int64_t first = 0,
                    std::uint64_t step = 0) const {
    return {.origin = {.run = run_id{5}, .sender = rank_id{rank}, .step = step},
            .piece = {first, std::move(values)},
            .total = 32,
            .sample_count = samples};
  }

  void bring(std::uint32_t rank, const part& piece) {
    caf::anon_send(ports[rank], part_atom_v, piece);
    handlers();
  }
};

/// A question that is sent to a port now and whose answer is read later.
struct question {
  caf::scoped_actor self;
  outcome answer;
  std::string text;
  std::optional<decltype(std::declval<caf::scoped_actor&>()->request(std::declval<port_actor&>(), caf::infinite,
                                                                     await_atom_v, stamp{}, key{}))>
      handle;

  question(stage_with_collective& stage, std::uint32_t rank, std::uint64_t step = 0) : self(stage.system) {
    handle.emplace(
        self->request(stage.ports[rank], caf::infinite, await_atom_v, stamp{.run = run_id{5}, .step = step}, key{}));
    stage.handlers();
  }

  void read() {
    handle->receive([this](const outcome& said) { answer = said; },
                    [this](const caf::error& why) { text = describe(why); });
  }
};

}  // namespace

TEST_CASE("a collective answers each worker with the mean by samples, step after step") {
  stage_with_collective stage{2};
  for (std::uint64_t step = 0; step < 3; ++step) {
    question first{stage, 0, step}, second{stage, 1, step};
    stage.bring(0, stage.contribution(0, at::full({32}, 1.0F), 1, 0, step));
    stage.bring(1, stage.contribution(1, at::full({32}, 5.0F), 3, 0, step));
    stage.lanes();
    for (auto* each : {&first, &second}) {
      each->read();
      REQUIRE(each->text == "");
      REQUIRE(each->answer.pieces.size() == 1);
      CHECK(each->answer.pieces[0].values.equal(at::full({32}, 4.0F)));  // (1·1 + 3·5) / 4
      CHECK(each->answer.what == slot::gradient);
      CHECK(each->answer.origin.step == step);
      CHECK(each->answer.payload_bytes == (step + 1) * 32 * 4);  // 2 (n − 1) / n of 32 elements
    }
  }
}

TEST_CASE("buckets that come early are held back until it is their turn") {
  stage_with_collective stage{2, {{16, 16}, {0, 16}}};  // the last parameters leave first
  question first{stage, 0}, second{stage, 1};
  const auto values = at::arange(32, at::kFloat);
  stage.bring(0, stage.contribution(0, values.narrow(0, 0, 16), 1, 0));
  stage.lanes();
  CHECK(stage.wire->calls.empty());
  stage.bring(0, stage.contribution(0, values.narrow(0, 16, 16), 1, 16));
  stage.bring(1, stage.contribution(1, values, 1));  // whole: both buckets
  stage.lanes();
  REQUIRE(stage.wire->calls.size() == 2);
  CHECK(stage.wire->calls[0].first == 16);
  CHECK(stage.wire->calls[1].first == 0);
  for (auto* each : {&first, &second}) {
    each->read();
    REQUIRE(each->text == "");
    REQUIRE(each->answer.pieces.size() == 2);
    CHECK(at::cat({each->answer.pieces[0].values, each->answer.pieces[1].values}).equal(values));
  }
}

TEST_CASE("a collective that takes too long is aborted, and says who waits for whom") {
  stage_with_collective stage{3};
  stage.lanes();  // all join
  question first{stage, 0};
  stage.bring(0, stage.contribution(0, at::full({32}, 1.0F), 1));
  stage.yards[0]->start();
  stage.seconds(7);
  CHECK(stage.yards[0]->thread.joinable());
  stage.seconds(4);  // the first tick may come at once, so wait for one more
  first.read();
  CHECK(first.text == "exchange: rank 0 is waiting for ranks 1, 2 at step 1; no answer within 8000 ms (run.timeout)");
  CHECK(stage.yards[0]->finish());  // returns: the call was aborted
}

TEST_CASE("members that never join are waited for as long as for a call") {
  stage_with_collective stage{2};
  stage.yards[0]->start();
  question first{stage, 0};
  stage.bring(0, stage.contribution(0, at::full({32}, 1.0F), 1));
  stage.seconds(11);
  first.read();
  CHECK(first.text == "exchange: rank 0 is waiting for rank 1 at step 1; no answer within 8000 ms (run.timeout)");
  CHECK(stage.yards[0]->finish());
}

TEST_CASE("a collective whose peer is lost is aborted at once") {
  stage_with_collective stage{3};
  stage.lanes();
  question first{stage, 0};
  stage.bring(0, stage.contribution(0, at::full({32}, 1.0F), 1));
  stage.yards[0]->start();
  caf::scoped_actor self{stage.system};
  auto asked = self->request(stage.ports[0], caf::infinite, lost_atom_v, std::vector<rank_id>{rank_id{2}});
  stage.handlers();
  std::string text;
  asked.receive([&](const std::string& said) { text = said; }, [](const caf::error&) {});
  CHECK(text == "exchange: rank 0 is waiting for rank 2 at step 1");
  first.read();
  CHECK(first.text == text);
  CHECK(stage.yards[0]->finish());
}

TEST_CASE("a port that ends aborts the call under way, so that its lane can end") {
  stage_with_collective stage{2};
  stage.lanes();
  stage.bring(0, stage.contribution(0, at::full({32}, 1.0F), 1));
  stage.yards[0]->start();
  caf::anon_send_exit(stage.ports[0], caf::exit_reason::user_shutdown);
  stage.handlers();
  CHECK(stage.yards[0]->finish());
}

TEST_CASE("a collective refuses what is not its worker's, and says what") {
  stage_with_collective stage{2};
  stage.lanes();
  question first{stage, 0};
  auto piece = stage.contribution(0, at::full({32}, 1.0F), 1);
  std::string expected;
  SUBCASE("a peer's part") {
    piece.origin.sender = rank_id{1};
    expected = "received a part from another rank, but a collective accepts only parts from its own worker (step 1)";
  }
  SUBCASE("another step") {
    piece.origin.step = 3;
    expected = "received a part for another step than 1 (step 4)";
  }
  SUBCASE("no bucket") {
    piece.piece = {8, at::full({8}, 1.0F)};
    expected = "received a part that is not a bucket (step 1)";
  }
  SUBCASE("another run") {
    piece.origin.run = run_id{6};
    expected = "received a part that belongs to another run (step 1)";
  }
  stage.bring(0, piece);
  first.read();
  CHECK(first.text == expected);
}

}  // namespace collective_port_test

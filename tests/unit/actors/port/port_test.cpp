// The port as an actor, under the test coordinator: which messages it rejects, and its report when it waits too long.
#include "troupe/actors/port/port.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/stepped_system.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

namespace port_test {

namespace {

using namespace troupe;

struct stage_with_ports {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::vector<port_actor> ports;

  /// `buckets` are exchanged and awaited separately.
  explicit stage_with_ports(std::uint32_t n, const std::vector<range>& buckets = {}) {
    models::flat_layout layout;
    layout.parameters = {{"w", {32}, 0, 32}};
    layout.parameter_end = layout.total = layout.parameter_count = 32;
    std::vector<peer_port> peers;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const port_options options{.run = run_id{5},
                                 .timeout = std::chrono::seconds{8},
                                 .answers_buckets = !buckets.empty(),
                                 .own = {.among = {.rank = rank_id{rank}, .world_size = n},
                                         .layout = layout,
                                         .settings = {{"route", std::string{"direct"}}},
                                         .buckets = buckets}};
      member_maker make = find_exchange("all_reduce")->make_member;
      if (!buckets.empty())
        make = [inner = make](const member_options& own) { return make_bucketed_member(own, inner); };
      ports.push_back(spawn_port(system, options, make));
      peers.emplace_back(ports.back());
    }
    for (const auto& port : ports) caf::anon_send(port, wire_atom_v, peers);
    scheduler.run_once();
  }

  ~stage_with_ports() {
    for (const auto& port : ports) caf::anon_send_exit(port, caf::exit_reason::kill);
    while (scheduler.has_job()) scheduler.run_once();
  }

  part contribution(std::uint32_t rank, std::uint64_t step = 0) const {
    return {.origin = {.run = run_id{5}, .sender = rank_id{rank}, .step = step},
            .piece = {0, at::full({32}, static_cast<float>(rank))},
            .total = 32,
            .sample_count = 1};
  }

  /// Sends `piece` to port 0 and asks it for step 0. Returns its answer after `seconds` of virtual time.
  std::string answer_to(const part& piece, int seconds = 0) {
    caf::scoped_actor self{system};
    caf::anon_send(ports[0], part_atom_v, piece);
    auto request = self->request(ports[0], caf::infinite, await_atom_v, stamp{.run = run_id{5}}, key{});
    while (scheduler.has_job()) scheduler.run_once();
    for (int i = 0; i < seconds; ++i) {
      scheduler.advance_time(std::chrono::seconds{1});
      while (scheduler.has_job()) scheduler.run_once();
    }
    std::string text = "answered";
    request.receive([](const outcome&) {}, [&](const caf::error& why) { text = describe(why); });
    return text;
  }
};

}  // namespace

TEST_CASE("a port refuses what does not belong to its step, and says what and from whom") {
  stage_with_ports stage{2};
  auto piece = stage.contribution(1);
  std::string expected;
  SUBCASE("another run") {
    piece.origin.run = run_id{6};
    expected = "received a part that belongs to another run (from rank 1, step 1)";
  }
  SUBCASE("an unknown rank") {
    piece.origin.sender = rank_id{7};
    expected = "received a part from an unknown rank (from rank 7, step 1)";
  }
  SUBCASE("another model") {
    piece.total = 33;
    expected = "received a part that belongs to another model";
  }
  SUBCASE("two steps ahead") {
    piece.origin.step = 2;
    expected =
        "received a part more than 1 step ahead, which is the limit for this kind of exchange (from rank 1, step 3)";
  }
  SUBCASE("another exchange") {
    piece.which.place = 3;
    expected = "received a part that belongs to another exchange";
  }
  std::string heard;
  caf::actor_cast<caf::abstract_actor*>(stage.ports[0])->attach_functor([&](const caf::error& why) {
    heard = describe(why);
  });
  caf::anon_send(stage.ports[0], part_atom_v, piece);
  while (stage.scheduler.has_job()) stage.scheduler.run_once();
  CHECK(heard.find(expected) != std::string::npos);
  CHECK(heard.find("(from rank ") != std::string::npos);
}

TEST_CASE("a port whose worker waits beyond the timeout says for whom") {
  stage_with_ports stage{3};
  CHECK(stage.answer_to(stage.contribution(0), 12) ==
        "exchange: rank 0 is waiting for ranks 1, 2 at step 1; no answer within 8000 ms (run.timeout)");
}

TEST_CASE("a port that hears of lost ranks says whether it waits for them, and then ends") {
  stage_with_ports stage{3};
  caf::scoped_actor self{stage.system};
  const auto waiting_for = [&](const std::vector<rank_id>& lost) {
    auto request = self->request(stage.ports[0], caf::infinite, lost_atom_v, lost);
    while (stage.scheduler.has_job()) stage.scheduler.run_once();
    std::string said;
    request.receive([&](const std::string& text) { said = text; },
                    [&](const caf::error& why) { said = describe(why); });
    return said;
  };
  caf::anon_send(stage.ports[0], part_atom_v, stage.contribution(0));
  auto answer = self->request(stage.ports[0], caf::infinite, await_atom_v, stamp{.run = run_id{5}}, key{});
  CHECK(waiting_for({rank_id{7}}).empty());
  CHECK(waiting_for({rank_id{2}, rank_id{7}}) == "exchange: rank 0 is waiting for rank 2 at step 1");
  caf::error heard;
  answer.receive([](const outcome&) {}, [&](const caf::error& why) { heard = why; });
  CHECK(is(heard, errc::peer_lost));
  CHECK(describe(heard) == "exchange: rank 0 is waiting for rank 2 at step 1");
}

TEST_CASE(
    "a port of buckets answers each by itself, asked before or after it is there, and goes on when all were given") {
  const std::vector<range> buckets{{16, 16}, {0, 16}};
  stage_with_ports stage{2, buckets};
  caf::scoped_actor self{stage.system};
  const auto run = [&] {
    while (stage.scheduler.has_job()) stage.scheduler.run_once();
  };
  const auto bring = [&](std::uint32_t rank, std::uint32_t bucket, std::uint64_t step) {
    auto piece = stage.contribution(rank, step);
    const auto& where = buckets[bucket];
    piece.piece = {where.first, piece.piece.values.narrow(0, where.first, where.count)};
    caf::anon_send(stage.ports[rank], part_atom_v, piece);
    run();
  };
  const auto ask = [&](std::uint32_t bucket, std::uint64_t step) {
    auto request = self->request(stage.ports[0], caf::infinite, await_atom_v, stamp{.run = run_id{5}, .step = step},
                                 key{.place = 0, .part = bucket});
    run();
    return request;
  };
  const auto first_of = [&](auto& request) {
    std::int64_t first = -1;
    request.receive(
        [&](const outcome& answer) {
          first = answer.pieces.front().first;
          CHECK(answer.sample_count == 2);
          CHECK(answer.pieces.front().values.equal(at::full_like(answer.pieces.front().values, 0.5)));
        },
        [&](const caf::error& why) { FAIL_CHECK(describe(why)); });
    return first;
  };
  for (std::uint64_t step = 0; step < 2; ++step) {
    auto early = ask(0, step);
    for (const std::uint32_t bucket : {0U, 1U})
      for (const std::uint32_t rank : {0U, 1U}) bring(rank, bucket, step);
    CHECK(first_of(early) == 16);
    std::string again;
    ask(0, step).receive([](const outcome&) {}, [&](const caf::error& why) { again = describe(why); });
    CHECK(again.find("requested the answer to step") != std::string::npos);
    auto late = ask(1, step);
    CHECK(first_of(late) == 0);
    // The other port answers, too.
    for (const std::uint32_t bucket : {0U, 1U}) {
      auto other = self->request(stage.ports[1], caf::infinite, await_atom_v,
                                 stamp{.run = run_id{5}, .sender = rank_id{1}, .step = step}, key{0, bucket});
      run();
      other.receive([](const outcome&) {}, [&](const caf::error& why) { FAIL_CHECK(describe(why)); });
    }
  }
}

TEST_CASE("a port of buckets says for whom it waits") {
  stage_with_ports stage{3, {{16, 16}, {0, 16}}};
  auto piece = stage.contribution(0);
  piece.piece = {16, piece.piece.values.narrow(0, 16, 16)};
  CHECK(stage.answer_to(piece, 12) ==
        "exchange: rank 0 is waiting for ranks 1, 2 at step 1; no answer within 8000 ms (run.timeout)");
}

TEST_CASE("a part that waits for the lane of its port keeps its receipt until the member has taken it") {
  struct waiting_lane final : lane {
    explicit waiting_lane(std::vector<job>& jobs) : jobs_(jobs) {}
    void post(caf::actor, task, job work) override { jobs_.push_back(std::move(work)); }
    std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }
    std::vector<job>& jobs_;
  };
  std::vector<lane::job> jobs;
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  port_options options{
      .run = run_id{5},
      .own = {.among = {.rank = rank_id{0}, .world_size = 2}, .settings = {{"route", std::string{"direct"}}}}};
  options.own.layout.parameter_end = options.own.layout.total = 32;
  const auto port = spawn_port(system, options, find_exchange("all_reduce")->make_member,
                               [&](std::int64_t) { return std::make_unique<waiting_lane>(jobs); });
  auto receipt = std::make_shared<const int>(1);
  caf::anon_send(port, wire_atom_v, std::vector<peer_port>{port, port});
  caf::anon_send(port, part_atom_v,
                 part{.origin = {.run = run_id{5}, .sender = rank_id{1}},
                      .piece = {0, at::ones({16})},
                      .total = 32,
                      .sample_count = 1,
                      .receipt = receipt});
  while (scheduler.has_job()) scheduler.run_once();
  REQUIRE(jobs.size() == 1);
  CHECK(receipt.use_count() == 2);
  jobs.front()();
  jobs.clear();
  CHECK(receipt.use_count() == 1);
  caf::anon_send_exit(port, caf::exit_reason::kill);
  while (scheduler.has_job()) scheduler.run_once();
}

}  // namespace port_test

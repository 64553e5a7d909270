// The stand-in of an actor in another program, driven by hand.
#include "troupe/algorithms/exchange/remote/remote.hpp"

#include "tests/support/exchange_pump.hpp"

#include <ATen/ops/full.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace remote_test {

namespace {

using namespace troupe;
using testing::kept;

constexpr std::uint32_t members = 3;
constexpr rank_id stand_in{members};

struct far_actor final : remote_actor {
  std::vector<part> heard;
  void send(const part& contribution) override { heard.push_back(contribution); }
};

struct played {
  std::shared_ptr<far_actor> actor = std::make_shared<far_actor>();
  std::unique_ptr<member> at;
  kept out;

  explicit played(const std::string& answers, std::shared_ptr<const state_dict> restored = nullptr) {
    member_options options{.among = {.rank = stand_in, .world_size = members, .servers = 1},
                           .layout = testing::one_parameter(),
                           .settings = {{"actor", std::string("rule")}, {"answers", answers}}};
    options.remote = actor;
    options.restored = std::move(restored);
    at = remote_kind().make_member(options);
  }

  void contribute(std::uint32_t from, std::uint64_t step, std::int64_t samples = 4) {
    at->receive(contribution(from, step, samples), out);
  }
  static part contribution(std::uint32_t from, std::uint64_t step, std::int64_t samples = 4) {
    return {.origin = {.sender = rank_id{from}, .step = step},
            .piece = {0, at::full({16}, static_cast<float>(from))},
            .total = 16,
            .sample_count = samples};
  }
  static part answer(std::uint64_t step, float value, std::uint32_t to = 0) {
    return {.origin = {.sender = stand_in, .step = step},
            .which = {.part = to},
            .at = stage::result,
            .piece = {0, at::full({16}, value)},
            .total = 16,
            .sample_count = 1};
  }
};

errc refused(played& one, const part& piece) {
  return testing::code_of(*one.at, piece);
}

}  // namespace

TEST_CASE("contributions go to the actor as they are, and its answer to all members") {
  played one{"same"};
  for (const auto from : {2u, 0u, 1u}) one.contribute(from, 0);
  REQUIRE(one.actor->heard.size() == 3);
  CHECK(one.actor->heard[0].origin.sender == rank_id{2});
  CHECK(testing::all_are(one.actor->heard[0].piece.values, 2));
  CHECK(one.out.sent.empty());
  one.at->receive(played::answer(0, 7), one.out);
  REQUIRE(one.out.sent.size() == 3);
  for (const auto& [to, piece] : one.out.sent) {
    CHECK(static_cast<std::uint32_t>(to) < members);
    CHECK(piece.at == stage::result);
    CHECK(piece.origin.sender == stand_in);
    CHECK(piece.origin.version == 1);
    CHECK(piece.sample_count == 12);
    CHECK(piece.which.part == 0);
    CHECK(testing::all_are(piece.piece.values, 7));
  }
}

TEST_CASE("a member that contributes after the answer gets the same one, and the actor does not hear it") {
  played one{"same"};
  one.contribute(0, 0);
  one.at->receive(played::answer(0, 7), one.out);
  CHECK(one.out.sent.size() == 1);
  one.contribute(2, 0);
  one.contribute(1, 0);
  CHECK(one.out.sent.size() == 3);
  CHECK(testing::all_are(one.out.sent.back().second.piece.values, 7));
  CHECK(one.actor->heard.size() == 1);
  CHECK(one.at->waiting_for(0).empty());
  CHECK(refused(one, played::answer(0, 8)) == errc::mismatch);
}

TEST_CASE("members are answered separately") {
  played one{"each"};
  one.contribute(0, 0, 4);
  one.contribute(1, 0, 5);
  one.at->receive(played::answer(0, 8, 1), one.out);
  REQUIRE(one.out.sent.size() == 1);
  CHECK(one.out.sent[0].first == rank_id{1});
  CHECK(one.out.sent[0].second.sample_count == 5);
  CHECK(refused(one, played::answer(0, 8, 1)) == errc::mismatch);
  CHECK(refused(one, played::answer(0, 8, 2)) == errc::mismatch);
  one.contribute(1, 1);  // a member goes on while others are slower
  one.at->receive(played::answer(1, 9, 1), one.out);
  CHECK(one.out.sent.size() == 2);
}

TEST_CASE("it waits for members, and then for the actor") {
  played one{"same"};
  CHECK(one.at->waiting_for(0).empty());
  one.contribute(1, 0);
  CHECK((one.at->waiting_for(0) == std::vector{rank_id{0}, rank_id{2}}));
  one.contribute(0, 0);
  one.contribute(2, 0);
  CHECK((one.at->waiting_for(0) == std::vector{stand_in}));
  CHECK(one.at->open_step() == 0);
  one.at->receive(played::answer(0, 1), one.out);
  CHECK(one.at->waiting_for(0).empty());
}

TEST_CASE("what is out of turn, of another size or answers nothing is refused") {
  played one{"same"};
  CHECK(refused(one, played::answer(0, 1)) == errc::mismatch);
  CHECK(refused(one, played::contribution(0, 1)) == errc::mismatch);
  one.contribute(0, 0);
  CHECK(refused(one, played::contribution(0, 0)) == errc::stale);
  auto partial = played::contribution(1, 0);
  partial.at = stage::partial;
  CHECK(refused(one, partial) == errc::mismatch);
  auto shorter = played::answer(0, 1);
  shorter.piece.values = at::full({8}, 1.f);
  CHECK(refused(one, shorter) == errc::mismatch);
}

TEST_CASE("a stand-in that continues another one expects the steps after it") {
  played one{"same"};
  for (const auto from : {0u, 1u, 2u}) one.contribute(from, 0);
  one.at->receive(played::answer(0, 1), one.out);
  played next{"same", std::make_shared<const state_dict>(one.at->state())};
  CHECK(refused(next, played::contribution(0, 0)) == errc::stale);
  for (const auto from : {0u, 1u, 2u}) next.contribute(from, 1);
  next.at->receive(played::answer(1, 1), next.out);
  CHECK(next.out.sent.back().second.origin.version == 2);
}

}  // namespace remote_test

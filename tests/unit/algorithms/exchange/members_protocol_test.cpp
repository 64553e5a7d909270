// The members of stars and all-reduces: which ranks they wait for, which parts they refuse, and what they forget.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_by_hand.hpp"

#include "troupe/algorithms/exchange/member.hpp"

#include <ATen/ops/ones.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace members_protocol_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct silent final : outbox {
  void send(rank_id, part) override {}
  void answer(const part&) override {}
};

}  // namespace

TEST_CASE("a member says whom it waits for") {
  silent out;
  const auto from = [](std::uint32_t rank) { return contribution_of(rank, 0); };
  SUBCASE("the master of a star for those who have not contributed") {
    const auto master = make_member(wirings[0], 0, 3);
    master->contribute(from(0), out);
    master->receive(from(2), out);
    CHECK((master->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
  }
  SUBCASE("another member of a star for the master") {
    const auto point = make_member(wirings[0], 2, 3);
    point->contribute(from(2), out);
    CHECK((point->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
  }
  SUBCASE("a member of a direct all-reduce for every contribution and every mean that is missing") {
    // Chunks of 64 elements, each rank's shard: 64 + 64 + 48.
    const auto one = make_member(all_reduce("direct"), 0, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{1}, rank_id{2}}));
    one->contribute(from(0), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
    auto shard = from(1);
    shard.piece.values = shard.piece.values.narrow(0, 0, 64);
    one->receive(shard, out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
    shard.at = stage::result;
    shard.which.part = 1;
    shard.piece.first = 64;
    one->receive(shard, out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
  }
  SUBCASE("a member of a direct all-reduce that owns nothing for itself") {
    const auto one = make_member(all_reduce("direct"), 15, 16);  // 176 elements are 11 shards of 64 bytes
    CHECK(one->waiting_for(0).size() == 12);
    CHECK((one->waiting_for(0).back() == rank_id{15}));
  }
  SUBCASE("a member of a small all-reduce for those who have not contributed") {
    const auto one = make_member(all_reduce("auto"), 1, 3);
    one->receive(from(2), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{1}}));
  }
  SUBCASE("a member of a chain for the left while sums are missing, for the right while means are") {
    // Four chunks: 48 + 48 + 48 + 32.
    const auto one = make_member(all_reduce("chain", 48), 1, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
    one->contribute(from(1), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
    const auto chunk = [](std::uint32_t index, std::uint32_t sender, stage at) {
      auto piece = contribution_of(sender, 0);
      piece.which.part = index;
      piece.at = at;
      piece.piece = {48 * index, piece.piece.values.narrow(0, 48 * index, index == 3 ? 32 : 48)};
      return piece;
    };
    one->receive(chunk(0, 0, stage::partial), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{2}}));
    for (const std::uint32_t index : {1U, 2U, 3U}) one->receive(chunk(index, 0, stage::partial), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
    for (const std::uint32_t index : {0U, 1U, 2U, 3U}) one->receive(chunk(index, 2, stage::result), out);
    CHECK(one->waiting_for(0).empty());
  }
  SUBCASE("a member of a ring for the left") {
    const auto one = make_member(all_reduce("ring"), 0, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
    one->contribute(from(0), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
  }
  SUBCASE("nobody for anything that is complete") {
    for (const auto& route : routes) {
      exchange_by_hand exchange{all_reduce(route, 16), 4, 1};
      exchange.run(1);
      const auto one = make_member(all_reduce(route, 16), 2, 4);
      for (const auto& given : exchange.log())
        if (given.to == 2) give(*one, given, out);
      CHECK(one->waiting_for(0).empty());
    }
  }
}

TEST_CASE("a part that does not fit is refused") {
  silent out;
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    const auto one = make_member(wired, 0, 3);
    part odd{.origin = {.sender = rank_id{1}}, .piece = {0, at::ones({5})}, .total = 176, .sample_count = 1};
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
    odd.which.part = 1'000'000;
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
  }
}

TEST_CASE("an all-reduce refuses what comes twice, at another stage, as another chunk or from another rank") {
  silent out;
  constexpr std::uint32_t n = 4;
  for (const auto& route : routes) {
    const auto wired = all_reduce(route, 32);
    CAPTURE(wired.label);
    exchange_by_hand exchange{wired, n, 5};
    exchange.run(1);
    for (std::size_t i = 0; i < exchange.log().size(); ++i) {
      const auto& given = exchange.log()[i];
      // The same member as it was before this delivery, once for each way in which the delivery may be wrong.
      const auto refuses = [&](const delivery& wrong, bool after = false) {
        const auto one = make_member(wired, wrong.to, n);
        for (std::size_t j = 0; j < i + (after ? 1 : 0); ++j)
          if (exchange.log()[j].to == wrong.to) give(*one, exchange.log()[j], out);
        CHECK_THROWS_AS(give(*one, wrong, out), exchange_error);
      };
      refuses(given, true);
      if (given.own) continue;
      auto wrong = given;
      for (const auto at : {stage::contribution, stage::partial, stage::result}) {
        wrong.piece.at = at;
        if (at != given.piece.at) refuses(wrong);
      }
      wrong = given;
      wrong.piece.which.part += 1;
      refuses(wrong);
      wrong = given;
      wrong.piece.origin.sender = rank_id{given.to};
      refuses(wrong);
      if (given.piece.at != stage::contribution) {
        for (std::uint32_t other = 0; other < n; ++other) {
          wrong.piece.origin.sender = rank_id{other};
          if (wrong.piece.origin.sender != given.piece.origin.sender) refuses(wrong);
        }
      } else if (route == "direct") {
        wrong = given;
        wrong.to = static_cast<std::uint32_t>(given.piece.origin.sender) == (given.to + 1) % n ? (given.to + 2) % n
                                                                                               : (given.to + 1) % n;
        refuses(wrong);  // another rank's chunk
      }
    }
  }
}

TEST_CASE("a mean that comes before its contributions is refused") {
  silent out;
  for (const auto* route : {"direct", "chain", "ring"}) {
    exchange_by_hand exchange{all_reduce(route), 3, 1};
    exchange.run(1);
    for (const auto& given : exchange.log())
      if (given.piece.at == stage::result)
        CHECK_THROWS_AS(make_member(all_reduce(route), given.to, 3)->receive(given.piece, out), exchange_error);
  }
}

TEST_CASE("a step that is forgotten holds no contribution and no buffer") {
  for (const auto& route : routes) {
    CAPTURE(route);
    exchange_by_hand exchange{all_reduce(route, 16), 4, 7};
    exchange.run(1);
    std::map<const void*, at::Tensor> seen;  // each tensor that was sent, once
    for (const auto& given : exchange.log())
      seen.emplace(given.piece.piece.values.unsafeGetTensorImpl(), given.piece.piece.values);
    exchange.clear_log();
    for (std::uint32_t rank = 0; rank < 4; ++rank) exchange.forget_answers(rank);
    exchange.forget_before(1);
    std::map<const void*, std::size_t> views;  // by buffer
    for (const auto& [tensor, values] : seen) ++views[values.storage().data()];
    for (const auto& [tensor, values] : seen) CHECK(values.storage().use_count() == views[values.storage().data()]);
  }
}

}  // namespace members_protocol_test

// How gradients are divided into buckets, and which parts a member of buckets rejects. members_test.cpp tests that all
// orders of messages give the same bits.
#include "troupe/algorithms/exchange/around/buckets.hpp"

#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/rules/pieces.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace buckets_test {

namespace {

using namespace troupe;
using testing::three_parameters;  // a: 48, b: 16, c: 112 elements with padding, of which 40, 7 and 100 count

using ranges = std::vector<range>;

std::vector<range> cut(const std::vector<std::size_t>& order, std::int64_t first_elements, std::int64_t elements) {
  return cut_in_buckets(three_parameters(), order, first_elements * 4, elements * 4);
}

}  // namespace

TEST_CASE("buckets fill up in the order in which gradients come") {
  CHECK((cut({2, 1, 0}, 1, 1) == ranges{{64, 112}, {48, 16}, {0, 48}}));
  CHECK((cut({2, 1, 0}, 1, 1000) == ranges{{64, 112}, {0, 64}}));  // a small first bucket, then all the rest
  CHECK((cut({2, 1, 0}, 1000, 1000) == ranges{{0, 176}}));
  CHECK((cut({2, 1, 0}, 101, 1000) == ranges{{48, 128}, {0, 48}}));
  CHECK((cut({0, 1, 2}, 40, 1000) == ranges{{0, 48}, {48, 128}}));
}

TEST_CASE("a bucket of parameters that lie apart becomes several") {
  CHECK((cut({2, 0, 1}, 140, 1000) == ranges{{64, 112}, {0, 48}, {48, 16}}));
}

TEST_CASE("buckets cover every random layout once, whatever the order") {
  data::random_stream random{11};
  for (int round = 0; round < 200; ++round) {
    models::flat_layout layout;
    const auto count = 1 + random.below(12);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto elements = static_cast<std::int64_t>(1 + random.below(100));
      layout.parameters.push_back({"p", {elements}, layout.parameter_end, elements});
      layout.parameter_end += (elements + 15) / 16 * 16;
    }
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    auto buckets = cut_in_buckets(layout, order, static_cast<std::int64_t>(1 + random.below(400)),
                                  static_cast<std::int64_t>(1 + random.below(800)));
    std::sort(buckets.begin(), buckets.end(), [](const range& a, const range& b) { return a.first < b.first; });
    std::int64_t end = 0;
    for (const auto& bucket : buckets) {
      CHECK(bucket.first == end);
      CHECK(bucket.count > 0);
      end += bucket.count;
    }
    CHECK(end == layout.parameter_end);
  }
}

TEST_CASE("a member of buckets refuses what does not fit one") {
  member_options own{.among = {.rank = rank_id{0}, .world_size = 2}, .layout = three_parameters()};
  own.buckets = {{64, 112}, {0, 64}};
  own.settings = {{"route", std::string{"auto"}}};
  const auto member = make_bucketed_member(own, find_exchange("all_reduce")->make_member);
  part piece{.origin = {.sender = rank_id{1}}, .piece = {64, at::zeros({112})}, .total = 176, .sample_count = 1};
  SUBCASE("one that begins in no bucket") {
    piece.piece.first = -16;
  }
  SUBCASE("one that ends behind the last") {
    piece.piece.values = at::zeros({128});
  }
  SUBCASE("one that is not the whole bucket") {
    piece.piece.values = at::zeros({96});
  }
  SUBCASE("one that begins within a bucket") {
    piece.piece = {80, at::zeros({96})};
  }
  CHECK(testing::code_of(*member, piece) == errc::mismatch);
}

TEST_CASE("a member of buckets waits for who is missing in any of them") {
  member_options own{.among = {.rank = rank_id{0}, .world_size = 3}, .layout = three_parameters()};
  own.buckets = {{64, 112}, {0, 64}};
  own.settings = {{"route", std::string{"auto"}}};
  const auto member = make_bucketed_member(own, find_exchange("all_reduce")->make_member);
  testing::kept out;
  const auto bring = [&](std::uint32_t rank, const range& bucket) {
    const part piece{.origin = {.sender = rank_id{rank}},
                     .piece = {bucket.first, at::zeros({bucket.count})},
                     .total = 176,
                     .sample_count = 1};
    rank == 0 ? member->contribute(piece, out) : member->receive(piece, out);
  };
  for (const auto& bucket : own.buckets) bring(0, bucket);
  bring(1, own.buckets[0]);
  bring(2, own.buckets[1]);
  CHECK((member->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
  bring(2, own.buckets[0]);
  CHECK(out.answers.size() == 1);
  CHECK(out.answers.front().piece.first == 64);
  CHECK(out.answers.front().total == 176);
  CHECK((member->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
}

}  // namespace buckets_test

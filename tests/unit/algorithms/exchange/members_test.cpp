// Stars and all-reduces as state machines: any order of messages gives the same answer, and the traffic is as planned.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_by_hand.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace members_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

models::flat_layout layout() {
  return three_parameters();
}

/// Returns the planned edges of a wiring, bucket by bucket.
std::vector<planned_edge> edges_of(const wiring& wired, std::uint32_t world_size) {
  std::vector<planned_edge> all;
  for (const auto& bucket : wired.buckets.empty() ? std::vector<range>{{0, 176}} : wired.buckets)
    for (const auto& edge :
         find_exchange(wired.kind)->edges(world_size, layout_of_bucket(layout(), bucket), wired.settings))
      all.push_back(edge);
  return all;
}

/// Returns the mean, folded from rank `first` on in circular order.
at::Tensor mean_from(std::uint32_t first, std::uint32_t world_size, std::uint64_t step) {
  models::buffer_pool pool;
  std::vector<rules::weighted> summands;
  for (std::uint32_t i = 0; i < world_size; ++i) {
    const auto rank = (first + i) % world_size;
    summands.push_back({contribution(rank, step), static_cast<double>(1 + rank)});
  }
  return rules::mean_in_order(summands, pool);
}

/// Returns the mean, folded in rank order, except for the ring: there segment j is folded from rank j on.
at::Tensor expected(const wiring& wired, std::uint32_t world_size, std::uint64_t step) {
  const auto route = wired.settings.find("route");
  if (route == wired.settings.end() || std::get<std::string>(route->second) != "ring")
    return mean_from(0, world_size, step);
  auto result = at::empty({176});
  for (const auto& bucket : wired.buckets.empty() ? std::vector<range>{{0, 176}} : wired.buckets) {
    std::uint32_t first = 0;
    for (const auto& segment : rules::even_ranges(bucket.count, world_size, 16)) {
      const auto mean = mean_from(first++, world_size, step);
      const auto begin = bucket.first + segment.first;
      result.narrow(0, begin, segment.count).copy_(mean.narrow(0, begin, segment.count));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("every order of messages and every chunk size gives every member the fold in rank order, or the ring's own") {
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U, 16U}) {
      CAPTURE(n);
      std::uint64_t early = 0;
      for (std::uint64_t seed = 1; seed < 6; ++seed) {
        exchange_by_hand exchange{wired, n, seed};
        exchange.run(3);
        early += exchange.early();
        for (std::uint64_t step = 0; step < 3; ++step) {
          const auto mean = expected(wired, n, step);
          for (std::uint32_t rank = 0; rank < n; ++rank) {
            REQUIRE(exchange.complete(rank, step));
            CHECK(exchange.answer(rank, step).equal(mean));
          }
        }
      }
      if (n > 2) CHECK(early > 0);  // steps interleave
    }
  }
}

TEST_CASE("the plan knows how many bytes go from whom to whom, and how many messages, uncut") {
  for (const auto& wired : wirings) {
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U, 16U}) {
      CAPTURE(wired.label);
      CAPTURE(n);
      exchange_by_hand exchange{wired, n, 1};
      exchange.run(1);
      std::map<ends, std::uint64_t> messages, bytes;
      for (const auto& edge : edges_of(wired, n)) {
        messages[{edge.from, edge.to}] += edge.messages;
        bytes[{edge.from, edge.to}] += edge.bytes;
      }
      CHECK(exchange.bytes() == bytes);
      if (wired.chunk_elements == 0) CHECK(exchange.messages() == messages);
    }
  }
}

TEST_CASE("what travels is no larger than a chunk") {
  for (const auto* route : {"direct", "chain", "ring"}) {
    exchange_by_hand exchange{all_reduce(route, 48), 2, 1};
    exchange.run(1);
    for (const auto& given : exchange.log())
      if (!given.own) CHECK(given.piece.piece.values.numel() <= 48);
  }
}

TEST_CASE("a direct all-reduce gives every owner work at once, from the next rank on") {
  struct listing final : outbox {
    std::vector<std::pair<std::uint32_t, std::int64_t>> sent;  // receiver, first element
    void send(rank_id to, part piece) override { sent.emplace_back(static_cast<std::uint32_t>(to), piece.piece.first); }
    void answer(const part&) override {}
  } out;
  make_member(all_reduce("direct", 32), 1, 3)->contribute(contribution_of(1, 0), out);
  // Shards 0, 64 and 128, of 64, 64 and 48 elements; each two chunks.
  CHECK(out.sent == std::vector<std::pair<std::uint32_t, std::int64_t>>{{2, 128}, {0, 0}, {2, 160}, {0, 32}});
}

TEST_CASE("auto sends a small gradient whole in one hop, a larger one as direct does") {
  // 16 Ki elements among 4 workers: 4 · 3 messages; with a few more elements: 2 · 4 · 3.
  for (const auto& [elements, messages] : {std::pair{16 * 1024, 12U}, std::pair{17 * 1024, 24U}}) {
    auto large = layout();
    large.parameter_end = elements;
    std::uint64_t planned = 0;
    for (const auto& edge : find_exchange("all_reduce")->edges(4, large, {{"route", std::string{"auto"}}}))
      planned += edge.messages;
    CHECK(planned == messages);
  }
}

TEST_CASE("a ring and a direct all-reduce send 2(n-1)/n of the gradient for each worker") {
  for (const auto* route : {"ring", "direct"}) {
    std::uint64_t bytes = 0;
    models::flat_layout even = layout();
    even.parameter_end = 4 * 64;
    for (const auto& edge : find_exchange("all_reduce")->edges(4, even, {{"route", std::string{route}}}))
      bytes += edge.bytes;
    CHECK(bytes == 4 * (2 * 3 * 64 * sizeof(float)));
  }
}

}  // namespace members_test

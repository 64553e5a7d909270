// The cost of messages, and the route of all_reduce that is chosen by it. Expected times are worked out by hand.
#include "troupe/algorithms/rules/message_costs.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/all_reduce/automatic_route.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace message_costs_test {

namespace {

using namespace troupe;
using namespace troupe::rules;

/// Every member has an interface of 1,000 bytes per second, with a latency of one second.
message_way slow(std::uint32_t from, std::uint32_t to) {
  return {.out = 2 * from, .in = 2 * to + 1, .out_rate = 1000, .in_rate = 1000, .latency = 1};
}

/// Members 0 and 1 share a process and an interface, and so do members 2 and 3.
message_way in_pairs(std::uint32_t from, std::uint32_t to) {
  return from / 2 == to / 2 ? way_in_process() : slow(from / 2, to / 2);
}

std::vector<std::string> names_of(const std::vector<candidate>& routes) {
  std::vector<std::string> names;
  for (const auto& each : routes) names.push_back(each.value);
  return names;
}

/// Returns the route chosen for so many elements among members with this bandwidth and latency.
std::string chosen(std::uint32_t members, std::int64_t elements, double bytes_per_second, double latency,
                   encoding how = encoding::float32) {
  const auto costs = costs_of(members, [&](std::uint32_t from, std::uint32_t to) {
    return message_way{.out = 2 * from,
                       .in = 2 * to + 1,
                       .out_rate = bytes_per_second,
                       .in_rate = bytes_per_second,
                       .latency = latency};
  });
  return all_reduce::automatic_routes({.members = members, .how = how, .costs = &costs}, elements).front().value;
}

}  // namespace

TEST_CASE("messages to everyone leave an interface one after the other") {
  // Three messages of half a second each, plus the latency.
  CHECK(seconds_to_all(costs_of(4, slow), 500) == doctest::Approx(2.5));
  // The interface of two members sends two messages of each member to the others.
  CHECK(seconds_to_all(costs_of(4, in_pairs), 500) == doctest::Approx(3));
  CHECK(costs_of(4, in_pairs).together == 2);
}

TEST_CASE("the slowest pair of members counts") {
  const auto costs = costs_of(3, [](std::uint32_t from, std::uint32_t to) {
    auto way = slow(from, to);
    if (from == 2) way.out_rate = 100;
    if (from == 0 && to == 1) way.latency = 8;
    return way;
  });
  CHECK(seconds_to_all(costs, 100) == doctest::Approx(8.2));  // 0.2 s on the wire and 8 s of latency
  CHECK(seconds_to_all(costs, 1000) == doctest::Approx(21));  // 20 s on the slow interface and 1 s of latency
}

TEST_CASE("a sum travels up and the mean back, and chunks follow each other") {
  const auto costs = costs_of(4, slow);
  CHECK(seconds_up_and_back(costs, 500, 0) == doctest::Approx(6 * 1.5).epsilon(1e-4));
  // Chunks of 100 bytes: an interface in the middle sends the sum and the mean of each chunk.
  CHECK(seconds_up_and_back(costs, 500, 100) == doctest::Approx(6 * 1.1 + 4 * 0.2).epsilon(1e-4));
  // Only two of the six hops use interfaces, one in each direction.
  CHECK(seconds_up_and_back(costs_of(4, in_pairs), 500, 100) == doctest::Approx(2 * 1.1 + 4 * 0.1).epsilon(1e-3));
}

TEST_CASE("losses and jitter count as the worst of all messages") {
  const auto with = [](double jitter, double loss) {
    return costs_of(2, [=](std::uint32_t from, std::uint32_t to) {
      auto way = slow(from, to);
      way.jitter = jitter;
      way.loss = loss;
      return way;
    });
  };
  CHECK(seconds_to_all(with(3, 0), 0) == doctest::Approx(1 + 2));  // the larger of two jitters
  // The larger loss of two messages is Σ 1 - F(k)² packets, where F is the Poisson distribution with mean ½.
  CHECK(seconds_to_all(with(0, 0.5), 1000) == doctest::Approx(1 + 1 + 2 * 0.83683).epsilon(1e-5));
  CHECK(seconds_up_and_back(with(0, 0.5), 1000, 0) == doctest::Approx(2 * (1 + 1) + 2 * 2 * 0.5).epsilon(1e-4));
}

TEST_CASE("the chosen route depends on latency, rate, size and members") {
  constexpr std::int64_t small = 1024, large = 1 << 20;
  CHECK(chosen(8, small, 125e6, 0.05) == "all_gather");  // one hop instead of two
  CHECK(chosen(64, large, 12.5e6, 0.02) == "direct");    // two hops instead of 126
  CHECK(chosen(64, small, 125e6, 0.02) == "all_gather");
  CHECK(chosen(2, large, 12.5e6, 0) != "all_gather");
}

TEST_CASE("workers of nodes with a slow link between them form a chain") {
  const auto costs = costs_of(16, [](std::uint32_t from, std::uint32_t to) {
    if (from / 8 == to / 8) return way_in_process();
    return message_way{.out = from / 8, .out_rate = 2.5e6, .latency = 30e-6};
  });
  CHECK(all_reduce::automatic_routes({.members = 16, .chunk_elements = 1 << 18, .costs = &costs}, 1 << 20)
            .front()
            .value == "chain");
}

TEST_CASE("in one process, few workers send small tensors to everyone, and many form a chain") {
  const auto chosen = [](std::uint32_t n, std::int64_t elements) {
    return all_reduce::automatic_routes({.members = n}, elements).front().value;
  };
  CHECK(chosen(4, 16 << 10) == "all_gather");
  CHECK(chosen(4, 17 << 10) == "direct");
  CHECK(chosen(4, 10 << 20) == "direct");
  CHECK(chosen(100, 16 << 10) == "chain");
}

TEST_CASE("encoded messages never form a chain, unless there are too many members to list all pairs") {
  for (const std::uint32_t n : {1, 2, 17, 100})
    for (const std::int64_t elements : {16, 1 << 20}) {
      const auto names = names_of(all_reduce::automatic_routes({.members = n, .how = encoding::bfloat16}, elements));
      CHECK(names.size() == 2);
      CHECK(std::find(names.begin(), names.end(), "chain") == names.end());
    }
  const auto all = names_of(all_reduce::automatic_routes({.members = 4}, 16));
  CHECK(std::find(all.begin(), all.end(), "chain") != all.end());
  for (const auto how : {encoding::float32, encoding::bfloat16})
    CHECK(names_of(all_reduce::automatic_routes({.members = members_of_pairs + 1, .how = how}, 16)) ==
          std::vector<std::string>{"chain"});
}

}  // namespace message_costs_test

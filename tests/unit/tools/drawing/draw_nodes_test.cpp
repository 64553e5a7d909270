// Drawings of plans with servers, groups of workers and nodes.
#include "tests/support/doctest.hpp"
#include "tests/support/drawings.hpp"

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace plan_draw_nodes_test {

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Returns the frames of the nodes; x and y are their centres.
std::vector<box> frames_of(const std::string& dot) {
  static const std::regex pattern("bb=\"([-.0-9]+),([-.0-9]+),([-.0-9]+),([-.0-9]+)\", style=");
  std::vector<box> frames;
  for (auto at = std::sregex_iterator(dot.begin(), dot.end(), pattern); at != std::sregex_iterator(); ++at) {
    const auto left = std::stod((*at)[1]), low = std::stod((*at)[2]), right = std::stod((*at)[3]),
               high = std::stod((*at)[4]);
    frames.push_back({(left + right) / 2, (low + high) / 2, right - left, high - low});
  }
  return frames;
}

bool within(const box& inner, const box& outer) {
  return std::abs(inner.x - outer.x) + inner.width / 2 < outer.width / 2 &&
         std::abs(inner.y - outer.y) + inner.height / 2 < outer.height / 2;
}

}  // namespace

TEST_CASE("servers are boxes of their own, and overlap no worker") {
  for (const auto workers : {1u, 2u, 3u, 4u, 5u, 6u, 12u, 15u})
    for (const auto servers : {1u, 2u, 3u, 8u}) {
      CAPTURE(workers);
      CAPTURE(servers);
      const auto dot = to_dot(served(workers, servers));
      auto boxes = boxes_of(dot);
      CHECK(boxes.size() == workers);
      const auto others = boxes_of(dot, "exchange s\\d+");
      CHECK(others.size() == servers);
      boxes.insert(boxes.end(), others.begin(), others.end());
      for (std::size_t i = 0; i < boxes.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) CHECK(apart(boxes[i], boxes[j], 20));
      CHECK(count(dot, " -> ") == 2 * workers * servers);
    }
}

TEST_CASE("a single server stands in the middle of its workers and says what it holds") {
  const auto dot = to_dot(served(4, 1));
  const auto server = boxes_of(dot, "exchange s0");
  REQUIRE(server.size() == 1);
  CHECK(server[0].x == 0);
  CHECK(server[0].y == 0);
  CHECK(dot.find(">s0<") != std::string::npos);
  CHECK(dot.find(">holds 1.0 KiB<") != std::string::npos);
  CHECK(dot.find("of the gradient, answered with the parameters<") != std::string::npos);
  CHECK(count(to_dot(served(4, 3)), ">holds 1.0 KiB<") == 3);
}

TEST_CASE("two exchanges with servers name them apart") {
  auto plan = served(2, 1);
  plan.exchanges.push_back(plan.exchanges.front());
  plan.exchanges[1].name = "second";
  plan.exchanges[1].first_server = 3;
  plan.exchanges[1].place = 1;
  plan.traffic.push_back({.edges = {{0, 3, 1, 64}, {3, 0, 1, 64}}});
  const auto dot = to_dot(plan);
  CHECK(dot.find(">exchange s0<") != std::string::npos);
  CHECK(dot.find(">second s0<") != std::string::npos);
}

TEST_CASE("servers stand in the frame of the first node") {
  for (const auto servers : {1u, 2u, 3u}) {
    const auto dot = to_dot(on_nodes(served(5, servers), {2, 3}));
    const auto frames = frames_of(dot);
    const auto boxes = boxes_of(dot, "exchange s\\d+");
    REQUIRE(frames.size() == 2);
    REQUIRE(boxes.size() == servers);
    for (const auto& box : boxes) {
      CHECK(within(box, frames[0]));
      CHECK(apart(box, frames[1], 10));
    }
  }
}

TEST_CASE("a group has a frame, which holds its workers and no others") {
  for (const auto groups : {2u, 3u, 4u, 8u}) {
    CAPTURE(groups);
    const auto dot = to_dot(pairs(groups));
    const auto frames = frames_of(dot);
    const auto boxes = boxes_of(dot);
    REQUIRE(frames.size() == groups);
    REQUIRE(boxes.size() == 2 * groups);
    for (std::uint32_t rank = 0; rank < boxes.size(); ++rank)
      for (std::uint32_t group = 0; group < groups; ++group)
        CHECK((rank / 2 == group ? within(boxes[rank], frames[group]) : apart(boxes[rank], frames[group], 10)));
    CHECK(dot.find(">pair 1<") != std::string::npos);
    CHECK(dot.find("\"recorder\" [pos=") != std::string::npos);
  }
  const auto on_two = to_dot(on_nodes(pairs(2), {2, 2}));
  CHECK(frames_of(on_two).size() == 2);
  CHECK(on_two.find(">in pair 1<") != std::string::npos);
}

TEST_CASE("servers of groups stand outside the groups") {
  for (const auto& [groups, servers] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {3, 3}, {5, 8}}) {
    CAPTURE(groups);
    CAPTURE(servers);
    auto plan = pairs(groups);
    auto& exchange = plan.exchanges[0];
    exchange.nature.servers = servers;
    for (std::uint32_t i = 0; i < servers; ++i)
      plan.traffic[0].edges.push_back({.from = plan.workers + i, .messages = 1, .bytes = 1024, .elements = 256});
    const auto dot = to_dot(plan);
    const auto frames = frames_of(dot);
    const auto boxes = boxes_of(dot, "exchange s\\d+");
    CHECK(frames.size() == groups);
    REQUIRE(boxes.size() == servers);
    for (const auto& box : boxes)
      for (const auto& frame : frames) CHECK(apart(box, frame, 20));
  }
}

TEST_CASE("a member of one worker in an exchange of groups has no frame") {
  auto plan = pairs(2);
  plan.exchanges[0].members[1] = {.name = "w2", .ranks = {2}};
  plan.exchanges[0].members.push_back({.name = "w3", .ranks = {3}});
  CHECK(frames_of(to_dot(plan)).size() == 1);
}

TEST_CASE("a node's frame holds its own workers and touches no other") {
  const std::vector<std::vector<std::uint32_t>> cases = {
      {1, 1}, {2, 2}, {1, 1, 1, 1}, {7, 1}, {1, 7}, {3, 1, 2}, {4, 4, 4, 4}, {1, 2, 3, 4, 5}, {2, 2, 2, 2, 2, 2, 2, 2}};
  for (const auto& workers : cases) {
    std::uint32_t all = 0;
    for (const auto each : workers) all += each;
    CAPTURE(all);
    CAPTURE(workers.size());
    const auto plan = on_nodes(mesh(all), workers);
    const auto dot = to_dot(plan);
    const auto boxes = boxes_of(dot);
    const auto frames = frames_of(dot);
    REQUIRE(boxes.size() == all);
    REQUIRE(frames.size() == workers.size());
    for (std::uint32_t rank = 0; rank < all; ++rank)
      for (std::uint32_t node = 0; node < frames.size(); ++node)
        CHECK((plan.node_of(rank) == node ? within(boxes[rank], frames[node]) : apart(boxes[rank], frames[node], 10)));
    for (std::size_t i = 0; i < frames.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) CHECK(apart(frames[i], frames[j], 20));
  }
}

TEST_CASE("a drawing of nodes names them and says what crosses") {
  const auto dot = to_dot(on_nodes(star(4), {2, 2}));
  CHECK(dot.find("node-1") != std::string::npos);
  CHECK(dot.find("127.0.0.1:4710") != std::string::npos);
  CHECK(dot.find("6 messages and 6.0 KiB per step, 4.0 KiB of it between nodes") != std::string::npos);
  CHECK(to_dot(on_nodes(ring(4), {1, 1, 1, 1})).find("8.0 KiB per step, all of it between nodes") != std::string::npos);
  CHECK(to_svg(on_nodes(star(4), {2, 2})).find("127.0.0.1:4710") != std::string::npos);
}

TEST_CASE("over 64 actors a drawing has a box for each node, as long as they can be told apart") {
  const auto dot = to_dot(on_nodes(mesh(24), {8, 8, 8}));
  CHECK(boxes_of(dot).empty());
  CHECK(frames_of(dot).size() == 3);
  CHECK(dot.find("w16 to w23") != std::string::npos);
  CHECK(count(dot, "dir=both") == 3);
  CHECK(count(dot, ">32.0 KiB<") == 3);  // 8 · 8 · 512 B each way
  const auto many = to_dot(on_nodes(mesh(42), std::vector<std::uint32_t>(21, 2)));
  CHECK(frames_of(many).empty());
  CHECK(many.find("on 21 nodes") != std::string::npos);
  const auto with_servers = to_dot(on_nodes(served(24, 2), {8, 8, 8}));
  CHECK(with_servers.find(">2 servers<") != std::string::npos);
  CHECK(boxes_of(with_servers, "servers").size() == 1);
  CHECK(count(with_servers, "dir=both") == 3);
}

TEST_CASE("a port that is chosen at start is not shown as one") {
  auto plan = on_nodes(star(4), {2, 2});
  plan.nodes[1].address.port = 0;
  CHECK(to_dot(plan).find(">127.0.0.1, port chosen at start<") != std::string::npos);
  plan.nodes[0].address.port = 0;
  const auto dot = to_dot(plan);
  CHECK(dot.find("2 nodes on 127.0.0.1, ports chosen at start<") != std::string::npos);
  CHECK(dot.find(":0<") == std::string::npos);
}

}  // namespace plan_draw_nodes_test

#include "tests/support/doctest.hpp"

#include "troupe/runtime/plan/plan.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

/// A kind without settings: the edges are each test's own.
exchange_kind kind_of(const std::string& name) {
  exchange_kind kind;
  kind.name = name;
  return kind;
}

/// A plan of `workers` workers of a small model; `edges` between them.
plan plan_of(std::uint32_t workers, std::vector<planned_edge> edges) {
  static const auto kind = kind_of("test_exchange");
  static const models::network_kind model{"convnet", "", nullptr};
  static const data::dataset_kind data{.name = "mnist",
                                       .explanation = "",
                                       .folder = "",
                                       .sample_shape = {1, 28, 28},
                                       .classes = 10,
                                       .published = {},
                                       .load = nullptr};
  plan plan;
  plan.file.file = "topologies/a & b.toml";
  plan.file.workers.loop = {"gradient", "exchange", "apply"};
  plan.model = &model;
  plan.data = &data;
  plan.sampling.batch_size = 16;
  plan.layout.parameter_count = 21'840;
  plan.workers = workers;
  plan.exchanges = {{.name = "exchange", .kind = &kind, .first_server = workers, .edges = std::move(edges)}};
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    plan.exchanges[0].members.push_back({.name = "w" + std::to_string(rank), .ranks = {rank}});
  plan.actors.resize(3 * workers + 3);
  return plan;
}

plan ring(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 0; rank < workers; ++rank) edges.push_back({rank, (rank + 1) % workers, 2, 2048});
  return plan_of(workers, edges);
}

plan star(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 1; rank < workers; ++rank) {
    edges.push_back({rank, 0, 1, 1024});
    edges.push_back({0, rank, 1, 1024});
  }
  return plan_of(workers, edges);
}

plan mesh(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t from = 0; from < workers; ++from)
    for (std::uint32_t to = 0; to < workers; ++to)
      if (from != to) edges.push_back({from, to, 2, 512});
  return plan_of(workers, edges);
}

/// All workers with each of so many servers, 1 KiB each way.
plan served(std::uint32_t workers, std::uint32_t servers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    for (std::uint32_t i = 0; i < servers; ++i) {
      edges.push_back({rank, workers + i, 1, 1024});
      edges.push_back({workers + i, rank, 1, 1024});
    }
  auto plan = plan_of(workers, edges);
  plan.exchanges[0].nature.servers = servers;
  plan.exchanges[0].carries.answers = slot::parameters;
  plan.actors.resize(plan.actors.size() + servers);
  return plan;
}

/// Each worker with its four neighbours on a grid that wraps around.
plan torus(std::uint32_t rows, std::uint32_t columns) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> tied;
  for (std::uint32_t i = 0; i < rows * columns; ++i)
    for (const auto j : {i / columns * columns + (i + 1) % columns, (i + columns) % (rows * columns)}) {
      tied.emplace(i, j);
      tied.emplace(j, i);
    }
  std::vector<planned_edge> edges;
  for (const auto& [from, to] : tied) edges.push_back({from, to, 1, 1024});
  return plan_of(rows * columns, edges);
}

/// Worker i hears i − 1, i − 2, i − 4, …
plan exponential(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t to = 0; to < workers; ++to)
    for (std::uint32_t hop = 1; hop < workers; hop *= 2) edges.push_back({(to + workers - hop) % workers, to, 1, 1024});
  return plan_of(workers, edges);
}

/// Pairs of workers that reduce among themselves, and meet as groups over their leaders.
plan pairs(std::uint32_t groups) {
  std::vector<planned_edge> edges;
  for (std::uint32_t group = 0; group < groups; ++group) {
    const auto leader = 2 * group;
    edges.push_back({leader + 1, leader, 1, 1024});
    edges.push_back({leader, leader + 1, 1, 1024});
    edges.push_back({leader, (leader + 2) % (2 * groups), 1, 1024});
  }
  auto plan = plan_of(2 * groups, edges);
  plan.exchanges[0].members.clear();
  for (std::uint32_t group = 0; group < groups; ++group)
    plan.exchanges[0].members.push_back({.name = "pair " + std::to_string(group), .ranks = {2 * group, 2 * group + 1}});
  return plan;
}

/// The same plan on nodes of so many workers each.
plan on_nodes(plan plan, const std::vector<std::uint32_t>& workers) {
  plan.nodes.clear();
  std::uint32_t placed = 0;
  for (const auto count : workers) {
    const auto port = static_cast<std::uint16_t>(4700 + 10 * plan.nodes.size());
    const topology::endpoint address{.host = "127.0.0.1", .port = port};
    plan.nodes.push_back({.name = "node-" + std::to_string(plan.nodes.size()),
                          .address = address,
                          .listen = address,
                          .first_rank = placed,
                          .workers = count});
    placed += count;
  }
  return plan;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

struct box {
  double x, y, width, height;
};

/// The boxes of a drawing whose name is this (a regular expression).
std::vector<box> boxes_of(const std::string& dot, const std::string& name = "w\\d+") {
  const std::regex pattern("\"" + name + "\" \\[pos=\"([-.0-9]+),([-.0-9]+)\", width=([.0-9]+), height=([.0-9]+)");
  std::vector<box> boxes;
  for (auto at = std::sregex_iterator(dot.begin(), dot.end(), pattern); at != std::sregex_iterator(); ++at)
    boxes.push_back({std::stod((*at)[1]), std::stod((*at)[2]), 72 * std::stod((*at)[3]), 72 * std::stod((*at)[4])});
  return boxes;
}

/// The frames of the nodes, x and y being their middles.
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

bool apart(const box& a, const box& b, double gap) {
  return std::abs(a.x - b.x) > (a.width + b.width) / 2 + gap || std::abs(a.y - b.y) > (a.height + b.height) / 2 + gap;
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
  plan.exchanges[1].edges = {{0, 3, 1, 64}, {3, 0, 1, 64}};
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
    for (std::uint32_t i = 0; i < servers; ++i) exchange.edges.push_back({plan.workers + i, 0, 1, 1024});
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

TEST_CASE("the caption of an exchange that is not due each step says when it is") {
  auto plan = star(4);
  plan.exchanges[0].due.every = 8;
  const auto dot = to_dot(plan);
  CHECK(dot.find("of the gradient, every 8 steps<") != std::string::npos);
  CHECK(dot.find(">6 messages and 6.0 KiB per exchange<") != std::string::npos);
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
  CHECK(to_svg(dot).find("127.0.0.1:4710") != std::string::npos);
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

TEST_CASE("no two workers of a drawing overlap") {
  for (const auto workers : {1u, 2u, 3u, 4u, 8u, 13u, 20u})
    for (const auto& plan : {ring(workers), star(workers), mesh(workers)}) {
      const auto boxes = boxes_of(to_dot(plan));
      CAPTURE(workers);
      REQUIRE(boxes.size() == workers);
      for (std::size_t i = 0; i < boxes.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) CHECK(apart(boxes[i], boxes[j], 20));
    }
}

TEST_CASE("traffic both ways is one line, traffic one way an arrow") {
  CHECK(count(to_dot(ring(4)), "dir=forward") == 4);
  CHECK(count(to_dot(ring(4)), ">2.0 KiB<") == 4);
  CHECK(count(to_dot(ring(2)), "dir=both") == 1);
  CHECK(count(to_dot(star(4)), "dir=both") == 3);
  CHECK(count(to_dot(mesh(4)), "dir=both") == 6);
  CHECK(count(to_dot(mesh(6)), ", 512 B per arrow") == 1);
  CHECK(count(to_dot(ring(16)), ", 2.0 KiB per arrow") == 1);
  CHECK(count(to_dot(mesh(1)), " -> ") == 0);
}

TEST_CASE("the DOT text has an edge for each of the plan, however it is drawn") {
  for (const auto& plan : {ring(4), ring(16), star(9), mesh(4), mesh(7), mesh(20), served(12, 4), torus(3, 4), pairs(3),
                           on_nodes(mesh(12), {4, 4, 4}), exponential(16)}) {
    const auto dot = to_dot(plan);
    CAPTURE(plan.workers);
    CHECK(count(dot, " -> ") == plan.exchanges[0].edges.size());
    for (const auto& edge : plan.exchanges[0].edges) {
      const auto name = [&](std::uint32_t id) {
        return id < plan.workers ? "w" + std::to_string(id) : "exchange s" + std::to_string(id - plan.workers);
      };
      CHECK(count(dot, "\"" + name(edge.from) + "\" -> \"" + name(edge.to) + "\" [") == 1);
    }
    CHECK(count(dot, ", bytes=" + std::to_string(plan.exchanges[0].edges[0].bytes) + "]") > 0);
  }
}

TEST_CASE("over six workers that all exchange with each other are bundled at a hub") {
  CHECK(count(to_dot(mesh(6)), "style=invis") == 15);  // the way back of each line
  const auto dot = to_dot(mesh(12));
  CHECK(count(dot, "style=invis") == 132);
  CHECK(count(dot, ">each of the 12 with every other<") == 1);
  CHECK(count(dot, ">132 edges of 512 B<") == 1);
  CHECK(count(dot, " per arrow") == 0);
  const auto on_three = to_dot(on_nodes(mesh(12), {4, 4, 4}));
  CHECK(count(on_three, ">132 edges of 512 B<") == 1);
  auto incomplete = mesh(12);
  incomplete.exchanges[0].edges.pop_back();
  CHECK(count(to_dot(incomplete), "with every other") == 0);
}

TEST_CASE("workers that all exchange with all servers are joined by a bus") {
  CHECK(count(to_dot(served(6, 2)), "dir=both") == 12);
  const auto dot = to_dot(served(12, 4));
  CHECK(count(dot, "dir=both") == 0);
  CHECK(dot.find("; every worker exchanges") != std::string::npos);
}

TEST_CASE("a torus is drawn as a grid") {
  const auto boxes = boxes_of(to_dot(torus(3, 4)));
  REQUIRE(boxes.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(boxes[i].x == boxes[i % 4].x);
    CHECK(boxes[i].y == boxes[i / 4 * 4].y);
    if (i % 4 > 0) CHECK(boxes[i].x > boxes[i - 1].x);
    if (i >= 4) CHECK(boxes[i].y < boxes[i - 4].y);
  }
  auto broken = torus(3, 4);
  std::erase_if(broken.exchanges[0].edges, [](const auto& edge) { return edge.from + edge.to == 21; });  // 10 and 11
  CHECK(boxes_of(to_dot(broken))[1].x != boxes_of(to_dot(broken))[5].x);
}

TEST_CASE("of many lines only those of one worker are drawn in full") {
  const auto dot = to_dot(exponential(16));
  CHECK(count(dot, "color=\"#2b6cb038\"") == 56 - 7);  // w0 hears four, and four hear it, one of which it hears too
  CHECK(count(dot, "dir=forward") == 6);
  CHECK(count(dot, "dir=both") == 1);
  CHECK(dot.find("faint: all but the arrows of w0") != std::string::npos);
}

TEST_CASE("a graph that changes is dashed, and says so") {
  for (const auto workers : {4u, 12u}) {
    auto plan = mesh(workers);
    for (auto& edge : plan.exchanges[0].edges) edge.used = 1.0 / (workers - 1);
    const auto dot = to_dot(plan);
    CHECK(dot.find("; drawn anew at each exchange<") != std::string::npos);
    CHECK(dot.find(std::to_string(2 * workers) + " messages and ") != std::string::npos);
    CHECK((count(dot, "style=dashed") > 0 || count(dot, "6 -dashed") > 12));
    CHECK(count(dot, " in use<") == 1);
  }
}

TEST_CASE("a random graph says its seed") {
  static auto kind = kind_of("test_exchange");
  for (const auto* name : {"graph", "degree", "graph_seed"}) {
    setting row;
    row.name = name;
    kind.settings.push_back(row);
  }
  auto plan = ring(4);
  plan.exchanges[0].kind = &kind;
  plan.exchanges[0].settings = {{"graph", std::string("random_regular")}, {"degree", std::int64_t{2}}};
  CHECK(to_dot(plan).find(" (degree = 2) of the gradient; random graph, seed 0<") != std::string::npos);
  plan.exchanges[0].settings.emplace("graph_seed", std::int64_t{7});
  CHECK(to_dot(plan).find(" (degree = 2) of the gradient; random graph, seed 7<") != std::string::npos);
}

TEST_CASE("a caption names the settings that are not as usual") {
  static auto kind = kind_of("test_exchange");
  const auto add = [](const std::string& name, const std::string& usual) {
    setting row;
    row.name = name;
    row.default_text = usual;
    kind.settings.push_back(row);
  };
  add("send", "whole"), add("bucket_mb", "25.0"), add("alpha", "0.50"), add("lock", "false");
  auto plan = ring(4);
  auto& exchange = plan.exchanges[0];
  exchange.kind = &kind;
  exchange.settings = {{"send", std::string("whole")}, {"bucket_mb", 25.0}, {"alpha", 0.5}, {"lock", false}};
  CHECK(to_dot(plan).find(">exchange: test_exchange of the gradient<") != std::string::npos);
  exchange.settings["bucket_mb"] = 3.0;  // without effect
  exchange.settings["lock"] = true;
  CHECK(to_dot(plan).find(">exchange: test_exchange (lock = true) of the gradient<") != std::string::npos);
  exchange.settings = {{"send", std::string("bucket")}, {"bucket_mb", 25.0}};
  CHECK(to_dot(plan).find("test_exchange (send = bucket, bucket_mb = 25) of") != std::string::npos);
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

TEST_CASE("a drawing can be read at the width of a README") {
  const std::regex shown("graph \\[layout=nop2, bb=\"([-.0-9]+),[-.0-9]+,([-.0-9]+),"),
      size("point-size=\"([.0-9]+)\"");
  for (const auto& plan :
       {ring(4), ring(20), star(20), mesh(20), served(12, 4), served(20, 1), torus(2, 10), torus(10, 2), pairs(4),
        on_nodes(mesh(12), {4, 4, 4}), on_nodes(mesh(12), std::vector<std::uint32_t>(12, 1)), exponential(20)}) {
    const auto dot = to_dot(plan);
    CAPTURE(plan.workers);
    CAPTURE(plan.nodes.size());
    std::smatch found;
    REQUIRE(std::regex_search(dot, found, shown));
    const auto width = (std::stod(found[2]) - std::stod(found[1]) + 36) * 4 / 3;  // with its padding, in pixels
    double smallest = 100;
    for (auto at = std::sregex_iterator(dot.begin(), dot.end(), size); at != std::sregex_iterator(); ++at)
      smallest = std::min(smallest, std::stod((*at)[1]));
    CHECK(smallest * 4 / 3 * std::min(1.0, 830 / width) >= 11.99);
  }
}

TEST_CASE("over 64 actors a drawing is a summary") {
  CHECK(boxes_of(to_dot(mesh(20))).size() == 20);  // 63 actors
  const auto summary = to_dot(mesh(21));
  CHECK(boxes_of(summary).empty());
  CHECK(summary.find("21 workers") != std::string::npos);
  CHECK(summary.find("840 messages") != std::string::npos);
  const auto with_servers = to_dot(served(100, 3));
  CHECK(with_servers.find(">100 workers<") != std::string::npos);
  CHECK(with_servers.find(">3 servers<") != std::string::npos);
  CHECK(with_servers.find(">hold 3.0 KiB in total<") != std::string::npos);
  CHECK(count(with_servers, ">300 KiB<") == 1);
}

TEST_CASE("a drawing renders to the same SVG every time") {
  const auto dot = to_dot(mesh(4));
  const auto svg = to_svg(dot);
  CHECK(svg == to_svg(to_dot(mesh(4))));
  CHECK(svg.starts_with("<?xml"));
  CHECK(svg.find("a &amp; b.toml") != std::string::npos);
  CHECK(svg.find(">w3<") != std::string::npos);
  CHECK(svg.find("topologies") == std::string::npos);  // no paths
}

TEST_CASE("each colour of a drawing has a counterpart on a dark page") {
  for (const auto& plan : {mesh(4), mesh(12), star(4), served(4, 2), on_nodes(pairs(2), {2, 2}), pairs(3)}) {
    const auto svg = to_svg(to_dot(plan));
    const auto styles = svg.substr(0, svg.find("</style>"));
    CHECK(styles.find("@media (prefers-color-scheme: dark)") != std::string::npos);
    const auto drawn = svg.substr(styles.size());
    static const std::regex colour("(fill|stroke)=\"([^\"]*)\"");
    for (auto at = std::sregex_iterator(drawn.begin(), drawn.end(), colour); at != std::sregex_iterator(); ++at) {
      const auto name = (*at)[2].str();
      if (name == "none" || name == "transparent" || name == "black") continue;
      CAPTURE(name);
      CHECK(styles.find("[" + (*at)[1].str() + "=\"" + name + "\"]") != std::string::npos);
    }
  }
}

TEST_CASE("what is no drawing is refused") {
  CHECK_THROWS_AS(to_svg("digraph {"), std::runtime_error);
}

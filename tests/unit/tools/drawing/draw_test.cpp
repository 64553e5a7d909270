// Drawings of plans: lines, captions and colours.
#include "tests/support/doctest.hpp"
#include "tests/support/drawings.hpp"

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plan_draw_test {

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Connects each worker with its four neighbours on a grid that wraps around.
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

}  // namespace

TEST_CASE("the caption of an exchange that is not due each step says when it is") {
  auto plan = star(4);
  plan.exchanges[0].due.every = 8;
  const auto dot = to_dot(plan);
  CHECK(dot.find("of the gradient, every 8 steps<") != std::string::npos);
  CHECK(dot.find(">6 messages and 6.0 KiB per exchange<") != std::string::npos);
}

TEST_CASE("the wiring alone has no title and none of the actors that do not compute") {
  auto plan = star(4);
  for (const auto* name : {"evaluator", "coordinator", "recorder", "title"}) {
    const auto quoted = '"' + std::string(name) + '"';
    CHECK(to_dot(plan).find(quoted) != std::string::npos);
    CHECK(to_dot(plan, drawn_parts::wiring).find(quoted) == std::string::npos);
  }
  CHECK(count(to_dot(plan, drawn_parts::wiring), "dir=both") == 3);
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
    CHECK(count(dot, " -> ") == plan.traffic[0].edges.size());
    for (const auto& edge : plan.traffic[0].edges) {
      const auto name = [&](std::uint32_t id) {
        return id < plan.workers ? "w" + std::to_string(id) : "exchange s" + std::to_string(id - plan.workers);
      };
      CHECK(count(dot, "\"" + name(edge.from) + "\" -> \"" + name(edge.to) + "\" [") == 1);
    }
    CHECK(count(dot, ", bytes=" + std::to_string(plan.traffic[0].edges[0].bytes) + "]") > 0);
  }
}

TEST_CASE("over six workers that all exchange with each other are bundled at a hub") {
  CHECK(count(to_dot(mesh(6)), "style=invis") == 15);  // the reverse edge of each line
  const auto dot = to_dot(mesh(12));
  CHECK(count(dot, "style=invis") == 132);
  CHECK(count(dot, ">each of the 12 with every other<") == 1);
  CHECK(count(dot, ">132 edges of 512 B<") == 1);
  CHECK(count(dot, " per arrow") == 0);
  const auto on_three = to_dot(on_nodes(mesh(12), {4, 4, 4}));
  CHECK(count(on_three, ">132 edges of 512 B<") == 1);
  auto incomplete = mesh(12);
  incomplete.traffic[0].edges.pop_back();
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
  std::erase_if(broken.traffic[0].edges, [](const auto& edge) { return edge.from + edge.to == 21; });  // 10 and 11
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
    for (auto& edge : plan.traffic[0].edges) edge.used = 1.0 / (workers - 1);
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
  exchange.settings["bucket_mb"] = 3.0;  // has no effect
  exchange.settings["lock"] = true;
  CHECK(to_dot(plan).find(">exchange: test_exchange (lock = true) of the gradient<") != std::string::npos);
  exchange.settings = {{"send", std::string("bucket")}, {"bucket_mb", 25.0}};
  CHECK(to_dot(plan).find("test_exchange (send = bucket, bucket_mb = 25) of") != std::string::npos);
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
  const auto svg = to_svg(mesh(4));
  CHECK(svg == to_svg(mesh(4)));
  CHECK(svg.starts_with("<?xml"));
  CHECK(svg.find("a &amp; b.toml") != std::string::npos);
  CHECK(svg.find(">w3<") != std::string::npos);
  CHECK(svg.find("topologies") == std::string::npos);  // without paths
}

TEST_CASE("each colour of a drawing has a counterpart on a dark page") {
  for (const auto& plan : {mesh(4), mesh(12), star(4), served(4, 2), on_nodes(pairs(2), {2, 2}), pairs(3)}) {
    const auto svg = to_svg(plan);
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

}  // namespace plan_draw_test

// The responses that `troupe top` reads, from servers of any kind, and the traffic of edges and links.
#include "tests/support/doctest.hpp"
#include "tests/support/records.hpp"

#include "troupe/tools/watching/exposition.hpp"
#include "troupe/tools/watching/http_client.hpp"
#include "troupe/tools/watching/page.hpp"
#include "troupe/tools/watching/seen_run.hpp"
#include "troupe/tools/watching/traffic.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace watching_top_test {

using namespace troupe;
using namespace troupe::watching;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using time_point = std::chrono::steady_clock::time_point;

run_facts asynchronous() {
  run_facts facts;
  facts.title = "asgd.toml";
  facts.model = "lenet";
  facts.data = "digits";
  facts.steps = 100;
  facts.samples_per_step = 8;
  facts.edges = {{.name = "exchange s0->w0", .from = 1, .to = 0, .bytes = 1000},
                 {.name = "w0->exchange s0", .from = 0, .to = 1, .bytes = 1000}};
  return facts;
}

/// Returns the traffic `seconds` after the beginning.
void carried(traffic_point& now, int seconds) {
  const auto bytes = static_cast<std::uint64_t>(1000 * seconds);
  now.edges = {{.from = 0, .to = 1, .messages = bytes / 100, .bytes = bytes, .staleness = 3, .wire = "w0"}};
  now.wires = {{.name = "w0",
                .sends = true,
                .messages = bytes / 100,
                .bytes = static_cast<std::int64_t>(bytes),
                .busy = seconds * 400ms,
                .waited = seconds * 62500us,
                .longest_wait = 70ms}};
}

/// A run that is watched for twenty seconds.
history_state twenty_seconds() {
  time_point now{};
  int seconds = 0;
  history run(
      true, [&] { return now; }, [&](traffic_point& point) { carried(point, seconds); });
  run.write(of_event("start"));
  for (; seconds < 20; ++seconds, now += 1s) run.progress(static_cast<std::uint64_t>(seconds));
  return run.state();
}

}  // namespace

TEST_CASE("an edge has the rate of the last seconds, and the queue of the interface on which it is sent") {
  const auto edges = edges_of(asynchronous(), twenty_seconds());
  REQUIRE(edges.size() == 2);
  CHECK_FALSE(edges[0].measured);
  const auto& edge = edges[1];
  CHECK(edge.measured);
  CHECK(edge.bytes == 20'000);
  CHECK(edge.messages == 200);
  CHECK(edge.rate == doctest::Approx(1000));
  CHECK(edge.staleness == 3);
  CHECK(edge.queue.value() == doctest::Approx(0.0625));
  CHECK(edge.wait_mean.value() == doctest::Approx(0.00625));
  const auto links = links_of(twenty_seconds());
  REQUIRE(links.size() == 1);
  CHECK(links[0].name == "w0 sends");
  CHECK(links[0].busy == doctest::Approx(0.4));
  CHECK(links[0].wait_max == doctest::Approx(0.07));
}

TEST_CASE("the traffic of a run that has ended is that of the whole run") {
  int seconds = 0;
  history run(false, std::chrono::steady_clock::now, [&](traffic_point& point) { carried(point, seconds); });
  run.write(of_event("start"));
  seconds = 8;
  run.write(of_event("end", 100, 16));
  CHECK(edges_of(asynchronous(), run.state())[1].rate == doctest::Approx(500));
  CHECK(links_of(run.state())[0].busy == doctest::Approx(0.2));
}

TEST_CASE("the traffic is in the metrics, in the JSON and in the CSV file of the wiring") {
  const auto state = twenty_seconds();
  const auto text = exposition_of(asynchronous(), state);
  CHECK(text.find("\ntroupe_edge_bytes_total{edge=\"w0->exchange s0\"} 20000\n") != std::string::npos);
  CHECK(text.find("edge=\"exchange s0->w0\"") == std::string::npos);
  CHECK(text.find("\ntroupe_link_wait_seconds_total{link=\"w0\",direction=\"send\"} 1.25\n") != std::string::npos);
  CHECK(csv_of(edges_of(asynchronous(), state)) ==
        "edge,planned_bytes_per_step,messages,bytes,bytes_per_second,queue,wait_mean_seconds,staleness\n"
        "exchange s0->w0,1000.0,,,1000.0,,,\n"
        "w0->exchange s0,1000.0,200,20000,1000.0,0.0625,0.00625,3\n");
  const auto seen = parse_seen_run(json_of(asynchronous(), state));
  REQUIRE(seen);
  CHECK(seen->title == "asgd.toml");
  CHECK(seen->status == "training");
  CHECK(seen->seconds_left.value() == doctest::Approx(81));
  REQUIRE(seen->links.size() == 1);
  CHECK(seen->links[0].busy.value() == doctest::Approx(0.4));
  REQUIRE(seen->edges.size() == 2);
  CHECK(seen->edges[1].staleness == 3);
}

TEST_CASE("events are separated wherever their bytes are cut") {
  const std::string bytes = ": still there\n\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nevent: x\n\ndata: thr";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    event_reader reader(100);
    auto found = reader.read(bytes.substr(0, cut));
    for (auto& each : reader.read(bytes.substr(cut))) found.push_back(each);
    CHECK(found == std::vector<std::string>{"one", "two\nlines"});
  }
  event_reader reader(100);
  CHECK_THROWS_AS(reader.read("data: " + std::string(200, 'x')), std::length_error);
}

TEST_CASE("the address of a dashboard is a host and a port, or the URL that a run has printed") {
  const auto with_token = parse_dashboard_address("http://10.0.0.1:8265/?token=0aF-_");
  REQUIRE(with_token);
  CHECK(with_token->where.host == "10.0.0.1");
  CHECK(with_token->token == "0aF-_");
  for (const auto* text : {"localhost:1", "http://localhost:1", "localhost:1/", "http://[::1]:1/"}) {
    const auto where = parse_dashboard_address(text);
    REQUIRE(where);
    CHECK(where->where.port == 1);
    CHECK(where->token.empty());
  }
  for (const auto* text : {"", "localhost", "localhost:0", "https://localhost:1", "localhost:1/metrics",
                           "localhost:1/?token=a b", "localhost:1/?token=a\r\nX: y", "localhost:1//", "http://"})
    CHECK_FALSE(parse_dashboard_address(text));
}

TEST_CASE("no text that a server sends does more than be refused or give short, printable names") {
  const auto good = json_of(asynchronous(), twenty_seconds());
  std::mt19937_64 random(20'262);  // NOLINT: the same texts each time
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const std::vector<std::string> pieces{"\"",
                                        "[",
                                        "{",
                                        "}",
                                        "]",
                                        ",",
                                        ":",
                                        "null",
                                        "-1",
                                        "1e999",
                                        "\\u001b[2J",
                                        "\x1b",
                                        "\xff",
                                        std::string(5'000, '['),
                                        std::string(3'000, 'x')};
  int accepted = 0;
  for (int i = 0; i < 5'000; ++i) {
    auto text = good;
    for (auto changes = 1 + below(4); changes > 0; --changes) {
      const auto at = below(text.size());
      if (below(2) == 0)
        text.insert(at, pieces[below(pieces.size())]);
      else
        text.erase(at, 1 + below(10));
    }
    const auto seen = parse_seen_run(text);
    const auto clean = clean_json(text);
    CHECK(std::all_of(clean.begin(), clean.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
    if (!seen) continue;
    ++accepted;
    for (const auto* name : {&seen->title, &seen->model, &seen->data, &seen->status, &seen->waiting}) {
      CHECK(name->size() <= 500);
      const auto controls = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
      CHECK(std::none_of(name->begin(), name->end(), controls));
    }
  }
  CHECK(accepted > 100);
  for (const auto* text : {"", "{}", "[]", "7", "{\"status\":1}", "{\"status\":\"done\",\"workers\":[],\"step\":-1}"})
    CHECK_FALSE(parse_seen_run(text));
}

}  // namespace watching_top_test

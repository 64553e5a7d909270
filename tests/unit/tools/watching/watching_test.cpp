// The views of a running run: the history, the page, the metrics, and the answers to requests of any kind.
#include "tests/support/doctest.hpp"
#include "tests/support/records.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/tools/watching/exposition.hpp"
#include "troupe/tools/watching/history.hpp"
#include "troupe/tools/watching/http_text.hpp"
#include "troupe/tools/watching/page.hpp"
#include "troupe/tools/watching/site.hpp"
#include "troupe/tools/watching/summary.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace watching_test {

using namespace troupe;
using namespace troupe::watching;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using time_point = std::chrono::steady_clock::time_point;

run_facts four_workers() {
  return {.title = "ring.toml",
          .subtitle = "lenet on digits, 4 workers",
          .model = "lenet",
          .data = "digits",
          .workers = 4,
          .steps = 100,
          .steps_per_epoch = 50,
          .samples_per_step = 64,
          .topology = "[run]\nseed = 1\n"};
}

record with_workers(record line, std::uint64_t steps) {
  for (int rank = 0; rank < 4; ++rank)
    line.workers.push_back({.steps = steps,
                            .samples = 800,
                            .bytes_sent = 1u << 20u,
                            .busy = rank == 3 ? 9.5 : 5.0,
                            .data_wait = 0.5,
                            .exchange_wait = rank == 3 ? 0.1 : 4.5});
  line.train_loss_workers = {0.5, 0.6, std::numeric_limits<double>::quiet_NaN(), 0.7};
  return line;
}

/// A history of two epochs. At their end, worker 3 turns out to be slow.
std::shared_ptr<history> two_epochs() {
  auto made = std::make_shared<history>(false);
  made->write(of_event("start"));
  made->progress_by_worker({50, 50, 50, 50});
  made->progress(50);
  made->write(with_workers(epoch_record(1, 50, 5, 0.8, 0.75), 50));
  made->progress_by_worker({100, 101, 102, 100});
  made->progress(100);
  auto last = with_workers(epoch_record(2, 100, 10.25, 0.4, 0.9), 100);
  last.staleness_counts = {10, 5, 1};
  last.staleness_mean = 0.4;
  made->write(last);
  return made;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

site loopback_site(std::shared_ptr<const history> run = two_epochs(), const std::string& token = "") {
  return site({.facts = four_workers(), .run = std::move(run), .token = token});
}

std::string get(const std::string& target, const std::string& host = "127.0.0.1:8265") {
  return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

}  // namespace

TEST_CASE("a history of any length has a bounded number of lines, the first and the last among them") {
  history run(false);
  run.write(of_event("start"));
  for (std::uint64_t step = 1; step <= 10'000; ++step)
    run.write(evaluation_record(0, step, static_cast<double>(step), 0.5));
  const auto state = run.state();
  CHECK(state.lines.size() <= history::lines_max);
  CHECK(state.lines.size() >= history::lines_max / 2);
  CHECK(state.lines.front().step == 1);
  CHECK(state.lines.back().step == 10'000);
  CHECK(state.latest->step == 10'000);
}

TEST_CASE("progress is kept at most twice per second, and thinned out when it is long") {
  time_point now{};
  history run(true, [&] { return now; });
  run.write(of_event("start"));
  for (std::uint64_t step = 1; step <= 100; ++step) run.progress(step);
  CHECK(run.state().progress.size() == 1);
  for (std::uint64_t step = 101; step <= 5'000; ++step) {
    now += 250ms;
    run.progress(step);
  }
  const auto points = run.state().progress;
  CHECK(points.size() <= history::points_max + 1);
  CHECK(points.front().steps == 1);
  CHECK(points.back().steps > 4'900);
  CHECK(run.state().steps_per_second().value() == doctest::Approx(4));
}

TEST_CASE("the epoch line of an evaluated step takes the place of the evaluation") {
  history run(false);
  run.write(evaluation_record(1, 50, 5, 0.75));
  run.write(epoch_record(1, 50, 5, 0.8));
  const auto state = run.state();
  REQUIRE(state.lines.size() == 1);
  CHECK(state.lines[0].val_accuracy == 0.75);
  CHECK(state.lines[0].epoch_train_loss == 0.8);
}

TEST_CASE("a line of metrics.jsonl is read back, and text of another kind is not") {
  auto line = epoch_record(3, 150, 7.5, 0.25, 0.5);
  line.train_loss_workers = {0.5, std::numeric_limits<double>::quiet_NaN()};
  line.bytes_sent = 77;
  const auto read = telemetry::record_of(telemetry::json_line(line));
  REQUIRE(read);
  CHECK(read->event == "epoch");
  CHECK(read->epoch == 3);
  CHECK(read->step == 150);
  CHECK(read->seconds == 7.5);
  CHECK(read->train_loss == 0.25);
  CHECK(read->val_accuracy == 0.5);
  CHECK(read->bytes_sent == 77);
  REQUIRE(read->train_loss_workers.size() == 2);
  CHECK(std::isnan(read->train_loss_workers[1]));
  CHECK_FALSE(read->consensus_distance);
  for (const auto* text : {"", "[]", "{", "null", "\xff"}) CHECK_FALSE(telemetry::record_of(text));
  CHECK(telemetry::record_of(R"({"step":"7","seconds":null,"val_accuracy_workers":3})"));
}

TEST_CASE("the summary names the worker that the others wait for") {
  const auto shares = shares_of(two_epochs()->state());
  REQUIRE(shares.size() == 4);
  CHECK(shares[0].compute == doctest::Approx(0.45));
  CHECK(shares[0].data == doctest::Approx(0.05));
  CHECK(shares[0].exchange == doctest::Approx(0.45));
  CHECK(waiting_text(two_epochs()->state()).value_or("") ==
        "The other workers wait for worker 3: it waits for exchanges 1 % of the time, worker 2 45 %.");
  CHECK_FALSE(waiting_text(history(false).state()));
}

TEST_CASE("the metrics have a help, a type and a value each, and series by rank") {
  const auto text = exposition_of(four_workers(), two_epochs()->state());
  CHECK(contains(text, "# TYPE troupe_steps_total counter\ntroupe_steps_total 100\n"));
  CHECK(contains(text, "\ntroupe_samples_total 6448\n"));  // 64 · (100 + 101 + 102 + 100) / 4
  CHECK(contains(text, "\ntroupe_validation_accuracy 0.9\n"));
  CHECK(contains(text, "\ntroupe_worker_steps_total{rank=\"2\"} 102\n"));
  CHECK(contains(text, "\ntroupe_worker_train_loss{rank=\"3\"} 0.7\n"));
  CHECK_FALSE(contains(text, "troupe_worker_train_loss{rank=\"2\"}"));
  CHECK(contains(text, "\ntroupe_gradient_staleness_bucket{le=\"0\"} 10\n"));
  CHECK(contains(text, "\ntroupe_gradient_staleness_bucket{le=\"+Inf\"} 16\n"));
  CHECK(contains(text, "\ntroupe_gradient_staleness_sum 7\n"));
  auto hostile = four_workers();
  hostile.title = "a\"b\\c\nd\xe9";  // Prometheus refuses all metrics if a label is not UTF-8
  CHECK(contains(exposition_of(hostile, {}), R"(topology="a\"b\\c\\x0ad\\xe9")"));
}

TEST_CASE("the report loads nothing, and names cannot leave their place in it") {
  auto facts = four_workers();
  facts.title = facts.subtitle = facts.topology = "</script><script>alert(1)</script>\"'&";
  facts.warnings = {facts.title};
  facts.exchanges = {{.name = facts.title, .kind = facts.title, .edges = 4, .bytes = 4096}};
  const auto state = two_epochs()->state();
  for (const auto& text : {report_of(facts, state, "<svg>" + facts.title + "</svg>"), live_page_of(facts, state),
                           nlohmann::json::parse(update_of(facts, state, true))["html"].get<std::string>()}) {
    CHECK_FALSE(contains(text, "<script>alert"));
    CHECK_FALSE(contains(text, "{{"));
    CHECK_FALSE(contains(text, "src=\"http"));
  }
  CHECK(report_of(facts, state, "") == report_of(facts, state, ""));
  CHECK_FALSE(contains(report_of(facts, state, ""), "EventSource"));
  CHECK_FALSE(contains(update_of(facts, state, true), "\n"));
}

TEST_CASE("a page can be made of a run that has not begun, and of one without workers, losses or results") {
  const history none(false);
  CHECK(contains(live_page_of(four_workers(), none.state()), "not started yet"));
  history bare(false);
  bare.write(of_event("start"));
  bare.write(of_event("end"));
  auto facts = four_workers();
  facts.steps = facts.samples_per_step = 0;
  CHECK(contains(report_of(facts, bare.state(), ""), "badge done"));
  CHECK_FALSE(contains(exposition_of(facts, bare.state()), "nan"));
}

TEST_CASE("a request gets what is at its address, and nothing else is at any") {
  auto pages = loopback_site();
  const auto page = answer_to(get("/"), pages);
  CHECK(status_of(page) == 200);
  CHECK(contains(page, "\r\nContent-Security-Policy: default-src 'none'"));
  CHECK(contains(page, "\r\nX-Content-Type-Options: nosniff\r\n"));
  CHECK(contains(page, "ring.toml"));
  CHECK(contains(answer_to(get("/metrics"), pages), "\r\nContent-Type: text/plain; version=0.0.4"));
  CHECK(contains(answer_to(get("/data.json"), pages), "\"val_accuracy\":0.9"));
  CHECK(contains(answer_to(get("/events"), pages), "\r\n\r\ndata: {"));
  CHECK(contains(answer_to(get("/events.json"), pages), "\r\n\r\ndata: {\"title\":\"ring.toml\""));
  CHECK(contains(answer_to(get("/figures.json"), pages),
                 "series,seconds,accuracy,lowest,highest,epochs,steps,samples,bytes_sent\\n"
                 "validation,5,0.75,,,1,50,3200,"));
  CHECK(answer_to(get("/healthz"), pages).ends_with("\r\n\r\nok\n"));
  const auto head = answer_to("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", pages);
  CHECK(status_of(head) == 200);
  CHECK(head.ends_with("\r\n\r\n"));
  for (const auto* target :
       {"/index.html", "/../../etc/passwd", "/%2e%2e/metrics.jsonl", "//metrics", "/metrics/",
        "http://127.0.0.1/metrics", "*", "/healthz/..", "/events.json/", "/figures.json/loss.csv", "/figures"})
    CHECK(status_of(answer_to(get(target), pages)) == 404);
}

TEST_CASE("requests with other methods, with bodies, too long or broken are refused") {
  auto pages = loopback_site();
  const std::string host = "Host: localhost\r\n";
  CHECK(status_of(answer_to("POST / HTTP/1.1\r\n" + host + "\r\n", pages)) == 405);
  CHECK(status_of(answer_to("POST /events.json HTTP/1.1\r\n" + host + "\r\n", pages)) == 405);
  CHECK(status_of(answer_to("DELETE /metrics HTTP/1.1\r\n" + host + "\r\n", pages)) == 405);
  CHECK(status_of(answer_to("GET / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", pages)) == 413);
  CHECK(status_of(answer_to("GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", pages)) == 413);
  CHECK(status_of(answer_to("GET /" + std::string(10'000, 'a') + " HTTP/1.1\r\n" + host + "\r\n", pages)) == 431);
  CHECK(status_of(answer_to("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'a'), pages)) == 431);
  CHECK(status_of(answer_to("hello\r\n\r\n", pages)) == 400);
  CHECK(status_of(answer_to(std::string("\x16\x03\x01\x02\x00\x01\x00", 7), pages)) == 400);
  CHECK(status_of(answer_to("GET / HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n", pages)) == 400);
  CHECK(answer_to("GET / HTTP/1.1\r\nHost: loc", pages).empty());
}

TEST_CASE(
    "without a token, only the names of this host are accepted, so that no other name can be made to point here") {
  auto pages = loopback_site();
  for (const auto* host :
       {"localhost", "localhost:8265", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:8265", "LOCALHOST"})
    CHECK(status_of(answer_to(get("/metrics", host), pages)) == 200);
  for (const auto* host : {"evil.example", "evil.example:8265", "localhost.evil.example", "127.0.0.1.evil.example",
                           "10.0.0.1", "", "[::2]", "::1", "127.1", "localhost:x", "localhost@evil"})
    CHECK(status_of(answer_to(get("/metrics", host), pages)) == 421);
  CHECK(status_of(answer_to("GET /metrics HTTP/1.1\r\n\r\n", pages)) == 421);
  CHECK(status_of(answer_to("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", pages)) >= 400);
}

TEST_CASE("with a token, nothing is shown without it") {
  auto pages = loopback_site(two_epochs(), "s3cret");
  CHECK(status_of(answer_to(get("/?token=s3cret", "trainer.example:8265"), pages)) == 200);
  CHECK(status_of(answer_to(get("/metrics?a=b&token=s3cret"), pages)) == 200);
  CHECK(status_of(answer_to("GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\n\r\n", pages)) == 200);
  for (const auto* target :
       {"/", "/metrics", "/data.json", "/events", "/events.json", "/figures.json", "/wiring.svg", "/nothing",
        "/?token=", "/?token=s3cre", "/?token=s3cret1", "/?nottoken=s3cret", "/?token"})
    CHECK(status_of(answer_to(get(target), pages)) == 401);
  CHECK(status_of(answer_to(get("/healthz"), pages)) == 200);
}

TEST_CASE("the drawing is served once the run has written it") {
  const scratch here;
  auto facts = four_workers();
  facts.folder = here.path();
  site pages({.facts = facts, .run = two_epochs(), .token = ""});
  CHECK(status_of(answer_to(get("/wiring.svg"), pages)) == 404);
  here.write("graph.svg", "<svg/>");
  CHECK(answer_to(get("/wiring.svg"), pages).ends_with("\r\n\r\n<svg/>"));
}

TEST_CASE("what is costly is made at most twice per second, and rarely if it takes long") {
  time_point now{};
  auto run = std::make_shared<history>(false);
  site pages({.facts = four_workers(), .run = run, .token = ""}, [&] { return std::exchange(now, now + 20ms); });
  run->write(of_event("start"));
  const auto first = answer_to(get("/metrics"), pages);  // takes 20 ms on this clock, so it is kept for 2 s
  run->progress(7);
  now += 1s;
  CHECK(answer_to(get("/metrics"), pages) == first);
  now += 2s;
  CHECK(contains(answer_to(get("/metrics"), pages), "troupe_steps_total 7\n"));
  run->progress(8);
  CHECK(contains(pages.last_update(feed::page), "8 of 100"));
}

TEST_CASE("no bytes that anybody sends do more than get one of the known answers") {
  auto pages = loopback_site(two_epochs(), "");
  const std::vector<std::string> seeds{
      get("/"),
      get("/metrics"),
      get("/events?token=a"),
      get("/events.json"),
      get("/figures.json"),
      get("/data.json", "[::1]:8265"),
      "HEAD /healthz HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer abc\r\n\r\n",
      "GET /wiring.svg HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"};
  const std::vector<std::string> pieces{"\r\n",
                                        "\r",
                                        "\n",
                                        ":",
                                        " ",
                                        "\t",
                                        "/",
                                        "?",
                                        "&",
                                        "=",
                                        "%",
                                        "..",
                                        "[",
                                        "]",
                                        std::string(1, '\0'),
                                        "\xff",
                                        "\x80",
                                        "Host:",
                                        "Content-Length: 99999999999999999999",
                                        "Transfer-Encoding: gzip, chunked",
                                        "HTTP/9.9",
                                        "GET ",
                                        std::string(9'000, 'x')};
  const std::set<int> known{0, 200, 400, 401, 404, 405, 413, 421, 431};
  std::mt19937_64 random(20'261);  // NOLINT: the same requests each time
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = seeds[below(seeds.size())];
    for (auto changes = 1 + below(6); changes > 0; --changes) {
      const auto at = below(bytes.size() + 1);
      switch (below(4)) {
        case 0:
          if (at < bytes.size()) bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.insert(at, pieces[below(pieces.size())]);
          break;
        case 2:
          bytes.erase(at, 1 + below(8));
          break;
        default:
          bytes.insert(at, seeds[below(seeds.size())].substr(below(20)));
      }
    }
    const auto status = status_of(answer_to(bytes, pages));
    if (known.contains(status)) continue;
    CAPTURE(bytes);
    CHECK(status == 0);
  }
}

}  // namespace watching_test

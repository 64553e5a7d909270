// Emulated links: when messages leave and arrive. Expected times are worked out by hand.
#include "troupe/runtime/emulation/network.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/links.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace emulation_network_test {

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using emulation::network;
using emulation::sender;

/// A rate in bytes per second.
topology::byte_rate rate(int bytes) {
  return *topology::parse_rate(std::to_string(bytes) + "B/s");
}

/// Four workers, two on node alpha and two on node beta, with these links.
plan with(std::vector<topology::link_settings> links, const std::string& exchange = "kind = \"all_reduce\"") {
  const auto text = "[data]\nname = \"mnist\"\n[workers]\ndevice = \"cpu\"\n[exchange]\n" + exchange +
                    "\n[[node]]\nname = \"alpha\"\nworkers = 2\n[[node]]\nname = \"beta\"\nworkers = 2\n";
  auto file = topology::parse(text, "four.toml");
  file.links = std::move(links);
  return make_plan(file, 60'000);
}

/// Links on which messages are sent at given times.
struct lines {
  explicit lines(const plan& of, std::uint64_t seed = 1) : all(of, seed) {}

  /// Sends a message at `now` over the route from `from` to `to`; returns when its last byte arrives. Messages must be
  /// sent in the order in which their first bytes arrive.
  emulation::time pass(std::uint32_t from, std::uint32_t to, std::int64_t bytes, emulation::time now) {
    const auto over = all.between(from, to);
    auto& by = senders.try_emplace({from, to}, over, all.seed()).first->second;
    return emulation::receive(over, bytes, by.send(bytes, now));
  }

  network all;
  std::map<std::pair<std::uint32_t, std::uint32_t>, sender> senders;
};

std::string refusal(std::vector<topology::link_settings> links) {
  try {
    with(std::move(links));
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a message takes its length and the latency") {
  lines on{with({testing::at("*", {.bandwidth = rate(1000), .latency = 1s})})};
  CHECK(on.pass(0, 1, 500, 0s) == 1500ms);
  CHECK(on.pass(0, 1, 500, 0s) == 2s);         // waits for the previous one
  CHECK(on.pass(0, 2, 500, 100ms) == 2500ms);  // also uses that interface
  CHECK(on.pass(0, 1, 500, 10s) == 11500ms);
}

TEST_CASE("what arrives at once is received one after the other") {
  lines on{with({testing::at("*", {.bandwidth = rate(1000), .latency = 1s})})};
  CHECK(on.pass(0, 3, 500, 0s) == 1500ms);
  CHECK(on.pass(1, 3, 500, 0s) == 2s);
  CHECK(on.pass(2, 3, 500, 0s) == 2500ms);
  CHECK(on.pass(3, 0, 500, 0s) == 1500ms);  // the other direction is free
}

TEST_CASE("a fast interface receives no faster than the sender sends") {
  lines on{
      with({testing::at("*", {.bandwidth = rate(1000), .latency = 1s}), testing::at("w0", {.bandwidth = rate(100)})})};
  CHECK(on.pass(0, 1, 500, 0s) == 6s);     // 5 s to send, then the latency of the last byte
  CHECK(on.pass(1, 0, 500, 0s) == 6s);     // the first byte arrives after 1 s, and receiving takes 5 s
  CHECK(on.pass(2, 1, 500, 500ms) == 2s);  // the first message occupies the interface of w1 only from 1 s to 1.5 s
}

TEST_CASE("the last link that applies wins, key by key") {
  lines on{
      with({testing::at("*", {.bandwidth = rate(1000), .latency = 1s}), testing::between("w0", "w1", {.latency = 5s}),
            testing::between("w3", "w2", {.bandwidth = rate(500)})})};
  CHECK(on.pass(2, 3, 500, 0s) == 2s);
  CHECK(on.pass(2, 1, 500, 0s) == 1500ms);  // the link to w3 is a different wire
  CHECK(on.pass(0, 1, 500, 0s) == 5500ms);
  CHECK(on.pass(1, 0, 500, 0s) == 5500ms);
}

TEST_CASE("workers of a node share its interface, and need none among themselves") {
  lines on{with({testing::at("alpha", {.bandwidth = rate(1000), .latency = 1s})})};
  CHECK(on.pass(0, 1, 500, 0s) == 0s);
  CHECK(on.pass(0, 2, 500, 0s) == 1500ms);
  CHECK(on.pass(1, 3, 500, 0s) == 2s);
  CHECK(on.pass(2, 3, 500, 0s) == 0s);
  CHECK(on.pass(2, 0, 500, 0s) == 1500ms);

  lines between{with({testing::between("alpha", "beta", {.bandwidth = rate(1000)})})};
  CHECK(between.pass(0, 2, 500, 0s) == 500ms);
  CHECK(between.pass(1, 3, 500, 0s) == 1s);
  CHECK(between.pass(3, 1, 500, 0s) == 500ms);
  CHECK(between.pass(0, 1, 500, 0s) == 0s);
}

TEST_CASE("servers have interfaces of their own") {
  lines on{with({testing::at("s0", {.latency = 3s})}, "kind = \"parameter_server\"\napply = \"all\"")};
  CHECK(on.pass(0, 4, 500, 0s) == 3s);
  CHECK(on.pass(4, 3, 500, 0s) == 3s);
  CHECK(!on.all.between(0, 1).is_emulated());
}

TEST_CASE("a wire counts what it carries, and how long it makes messages wait") {
  lines on{with({testing::at("*", {.bandwidth = rate(1000), .latency = 1s}),
                 testing::between("w2", "w3", {.bandwidth = rate(500)})})};
  on.pass(0, 1, 500, 0s);
  on.pass(0, 1, 1000, 0s);    // waits 500 ms to be sent, but not to be received
  on.pass(3, 1, 500, 200ms);  // received after both others
  on.pass(2, 3, 250, 0s);
  on.all.between(1, 2);  // carries nothing
  const auto all = on.all.usage();
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "w0");
  CHECK(all[0].sends);
  CHECK(all[0].messages == 2);
  CHECK(all[0].bytes == 1500);
  CHECK(all[0].busy == 1500ms);
  CHECK(all[0].waited == 500ms);
  CHECK(all[0].longest_wait == 500ms);
  CHECK(all[1].name == "w1");
  CHECK(!all[1].sends);
  CHECK(all[1].messages == 3);
  CHECK(all[1].busy == 2s);
  CHECK(all[1].waited == 1300ms);  // its first byte arrives at 1.2 s, and w1 is free at 2.5 s
  CHECK(all[2].name == "w3");
  CHECK(all[3].name == "w2 to w3");
  CHECK(all[3].busy == 500ms);
}

TEST_CASE("jitter is drawn from the seed and the message, and nothing is overtaken") {
  const auto plan = with({testing::at("*", {.latency = 10ms, .jitter = 10ms})});
  const auto times = [&](std::uint64_t seed) {
    lines on{plan, seed};
    std::vector<emulation::time> all;
    for (int i = 0; i < 100; ++i) all.push_back(on.pass(0, 1, 1, i * 1ms));
    return all;
  };
  const auto first = times(1);
  CHECK(first == times(1));
  CHECK(first != times(2));
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto sent = static_cast<std::int64_t>(i) * 1ms;
    CHECK(first[i] >= sent + 10ms);
    CHECK(first[i] < sent + 20ms);
    if (i > 0) CHECK(first[i] >= first[i - 1]);
  }
}

TEST_CASE("a small message does not overtake a large one that is delayed longer") {
  const auto plan = with({testing::between("w0", "w1", {.bandwidth = rate(1'000'000), .jitter = 50ms})});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    lines on{plan, seed};
    const auto large = on.pass(0, 1, 10'000, 0s);
    CHECK(on.pass(0, 1, 1'000, 10ms) >= large);
  }
}

TEST_CASE("two exchanges between the same workers share the order and the jitter of the messages") {
  network all{with({testing::at("*", {.latency = 10ms, .jitter = 10ms})}), 1};
  const auto over = all.between(0, 1);
  sender of_first{over, all.seed()}, of_second{all.between(0, 1), all.seed()};
  std::vector<emulation::time> delays;
  emulation::time last{0};
  for (int i = 0; i < 100; ++i) {
    const auto sent = i * 1ms;
    const auto first = (i % 2 == 0 ? of_first : of_second).send(1, sent);
    CHECK(first >= last);
    last = first;
  }
  for (int i = 0; i < 4; ++i) {
    const auto sent = (i + 1) * 1s;  // so far apart that none waits for another
    delays.push_back((i % 2 == 0 ? of_first : of_second).send(1, sent) - sent);
  }
  CHECK(delays[0] != delays[1]);
  CHECK(delays[2] != delays[3]);
}

TEST_CASE("each lost packet costs two latencies, and as many are lost as the probability says") {
  lines on{with({testing::at("*", {.latency = 1ms, .loss = 0.01})})};
  constexpr int messages = 1000, packets = 10;
  double lost = 0;
  for (int i = 0; i < messages; ++i) {
    const auto sent = i * 1s;  // so far apart that none waits for another
    const auto took = on.pass(0, 1, packets * 1500, sent) - sent;
    CHECK(took % 2ms == 1ms);
    lost += static_cast<double>((took - 1ms) / 2ms);
  }
  CHECK(lost == doctest::Approx(messages * packets * 0.01).epsilon(0.3));
}

TEST_CASE("no rate, delay, loss or size makes a time overflow") {
  const auto slow = *topology::parse_rate("0.000001bit/s"), fast = *topology::parse_rate("1000000TB/s");
  constexpr std::int64_t bytes = 4'000'000'000;
  for (const auto& bandwidth : {slow, fast})
    for (const double loss : {0.0, 1e-300, 0.999999}) {
      lines on{with({testing::at("*", {.bandwidth = bandwidth, .latency = 10'000h, .jitter = 10'000h, .loss = loss})})};
      emulation::time before{0};
      for (int i = 0; i < 12; ++i) {
        const auto arrived = on.pass(0, 1, i % 2 == 0 ? 1 : bytes, 0s);
        if (before < 24h * 36'525) CHECK(arrived >= before);  // no simulation lasts longer
        CHECK(arrived >= 10'000h);
        before = arrived;
      }
      for (const auto& one : on.all.usage()) {
        CHECK(one.busy >= 0s);
        CHECK(one.waited >= one.longest_wait);
      }
    }
}

TEST_CASE("names that the plan does not have are refused") {
  CHECK(refusal({testing::at("w4")}).find(R"(link.0.at (the place of the [[link]]) names "w4"; expected a worker)") !=
        std::string::npos);
  CHECK(refusal({testing::at("*"), testing::between("w0", "gamma")})
            .find(R"(link.1.between (the two ends of a [[link]]; the first one is link.0) names "gamma")") !=
        std::string::npos);
  CHECK(refusal({testing::at("s0")}) != "accepted");
  CHECK(refusal({testing::at("beta")}) == "accepted");
}

TEST_CASE("delays and rates have one grammar") {
  CHECK(topology::parse_delay("0s") == 0us);
  CHECK(topology::parse_delay("50us") == 50us);
  CHECK(topology::parse_delay("1.5ms") == 1500us);
  CHECK(topology::parse_delay("2 min") == 120s);
  for (const char* text : {"", "0", "-1s", "0.5us", "1 day", "nans"}) {
    CAPTURE(text);
    CHECK(!topology::parse_delay(text));
  }
  for (const auto delay : {0us, 1us, 1500us, 2000us, 3'000'000us})
    CHECK(topology::parse_delay(topology::print_delay(delay)) == delay);
  const auto bytes = [](const char* text) { return topology::parse_rate(text)->bytes_per_second; };
  CHECK(bytes("100Mbit/s") == 12.5e6);
  CHECK(bytes("8GB/s") == 8e9);
  CHECK(bytes("1KiB/s") == 1024);
  CHECK(bytes("1.5 kB/s") == 1500);
  CHECK(bytes("1bit/s") == 0.125);
  for (const char* text : {"", "100", "100Mbit", "0B/s", "-1B/s", "100mbit/s", "1e3B/s", "1 XB/s", "infB/s"}) {
    CAPTURE(text);
    CHECK(!topology::parse_rate(text));
  }
}

TEST_CASE("links that are real delay a simulation, and no run") {
  auto real = testing::at("*", {.bandwidth = rate(1000), .latency = 1s});
  real.real = true;
  const auto slow = testing::between("w0", "w1", {.latency = 5s});
  const auto both = with({real, slow});
  network in_simulation{both, 1};
  CHECK(in_simulation.between(0, 1).latency == 5s);
  CHECK(in_simulation.between(0, 1).sending);
  CHECK(in_simulation.between(0, 2).is_emulated());
  network in_run{both, 1, nullptr, emulation::realm::run};
  CHECK(in_run.between(0, 1).latency == 5s);
  CHECK_FALSE(in_run.between(0, 1).sending);
  CHECK_FALSE(in_run.between(0, 2).is_emulated());
  CHECK(has_emulated(both.links));
  CHECK_FALSE(has_emulated(with({real}).links));
  CHECK(describe(both.links[0]).ends_with("latency 1s (real: a run delays nothing)"));
}

TEST_CASE("a plan says which route is the fastest, by which links") {
  const auto choice_with = [](std::vector<topology::link_settings> links) {
    const auto plan = with(std::move(links));
    const auto& traffic = plan.traffic.front();
    REQUIRE(traffic.choices.size() == 1);
    return std::pair{traffic.choices.front(), traffic.assumed_links};
  };
  using texts = std::vector<std::string>;
  const auto [near, assumed] = choice_with({});
  CHECK(near.candidates.front().value == std::get<std::string>(near.settings.at("route")));
  CHECK(assumed == texts{"18 GB/s of memory in a process", "3 GB/s and 30 us between processes of a host"});
  auto real = testing::at("*", {.bandwidth = rate(1'000'000'000), .latency = 1s});
  real.real = true;
  const auto [far, by] = choice_with({real});
  CHECK(std::get<std::string>(far.settings.at("route")) == "all_gather");  // one hop of a second instead of two
  CHECK(far.candidates.front().seconds == doctest::Approx(1).epsilon(0.01));
  CHECK(by == texts{"each interface: 1000000000B/s, latency 1s (real: a run delays nothing)"});
}

}  // namespace emulation_network_test

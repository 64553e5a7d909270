// The contract of every implementation of control links and of tensor links: over TCP, in the memory of a process, and
// in the simulated network.
#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"
#include "tests/support/memory_links.hpp"

#include "troupe/runtime/simulation/simulated_network.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace transport_contract_test {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// The links of all nodes of a run, in one implementation.
struct network {
  std::string name;
  std::vector<links> nodes{};
  std::function<void()> pass_time{[] { std::this_thread::sleep_for(1ms); }};
};

std::vector<control::node_ranks> one_rank_each(std::uint32_t nodes) {
  std::vector<control::node_ranks> ranks;
  for (std::uint32_t i = 0; i < nodes; ++i) ranks.push_back({i, 1});
  return ranks;
}

network over(control_carrier control, std::uint32_t nodes) {
  network made{.name = control == control_carrier::caf ? "tcp with CAF" : "tcp"};
  const auto where = addresses(nodes);
  for (std::uint32_t me = 0; me < nodes; ++me)
    made.nodes.push_back(make_tcp_links({.me = me,
                                         .listen = where[me],
                                         .addresses = where,
                                         .ranks = one_rank_each(nodes),
                                         .control = control,
                                         .session = our_session,
                                         .limits = limits_of(me, nodes),
                                         .pool = {}}));
  return made;
}

network over_tcp(std::uint32_t nodes) {
  return over(control_carrier::frames, nodes);
}

network over_caf(std::uint32_t nodes) {
  return over(control_carrier::caf, nodes);
}

network in_memory(std::uint32_t nodes) {
  network made{.name = "memory"};
  const auto all = std::make_shared<memory_links::shared>(nodes);
  for (std::uint32_t me = 0; me < nodes; ++me)
    made.nodes.push_back(
        {.control = nullptr, .tensors = std::make_shared<memory_links>(me, one_rank_each(nodes), all)});
  return made;
}

network in_simulation(std::uint32_t nodes) {
  network made{.name = "simulated"};
  simulated_network_options options;
  options.ranks = one_rank_each(nodes);
  for (std::uint32_t me = 0; me < nodes; ++me) options.limits.push_back(limits_of(me, nodes));
  const auto simulated = std::make_shared<simulated_network>(options);
  for (std::uint32_t me = 0; me < nodes; ++me) made.nodes.push_back(simulated->links_of(me));
  made.pass_time = [simulated, now = std::make_shared<std::chrono::nanoseconds>(0)] {
    *now += 1ms;
    while (simulated->deliverable(*now) > 0) simulated->deliver(0, *now);
  };
  return made;
}

using maker = network (*)(std::uint32_t nodes);
constexpr maker control_networks[]{over_tcp, over_caf, in_simulation};
constexpr maker tensor_networks[]{over_tcp, over_caf, in_memory, in_simulation};

/// The events that the listeners of a node have received.
struct notes {
  std::mutex mutex;
  std::vector<std::pair<std::uint32_t, control::message>> heard;
  std::vector<std::uint32_t> parted, lost;
  std::vector<frame> frames;
  int linked{0}, inside{0}, inside_control{0};
  bool overlaps{false};
  std::atomic<bool> refuses{false};

  template <class What>
  void note(int notes::*counter, What what) {
    const std::lock_guard lock{mutex};
    overlaps = overlaps || ++(this->*counter) > 1;
    what();
    --(this->*counter);
  }
};

/// A run of nodes on some network, and the events that they have received.
struct run {
  network on;
  std::vector<std::unique_ptr<notes>> of;

  explicit run(network made) : on(std::move(made)) {
    for (std::size_t i = 0; i < on.nodes.size(); ++i) of.push_back(std::make_unique<notes>());
  }
  ~run() { on.nodes.clear(); }

  /// Keeps the notes as they are until the result is destroyed.
  std::vector<std::unique_lock<std::mutex>> hold() const {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (const auto& each : of) locks.emplace_back(each->mutex);
    return locks;
  }

  bool wait(const std::function<bool()>& holds) {
    for (int i = 0; i < 5'000; ++i) {
      {
        const auto still = hold();
        if (holds()) return true;
      }
      on.pass_time();
    }
    return false;
  }
  void pass_some_time() {
    for (int i = 0; i < 20; ++i) on.pass_time();
  }

  void open_control(std::uint32_t node) {
    auto* to = of[node].get();
    auto* own = on.nodes[node].control.get();
    own->open({.visited =
                   [to, own](visitor_id visitor, control::introduction&& who) {
                     if (to->refuses) return own->refuse(visitor, {"no"});
                     const auto index = static_cast<std::uint32_t>(std::stoul(who.node));
                     if (own->admit(visitor, index)) own->tell(index, control::welcome{});
                   },
               .reached_first = [own, node] { own->tell(0, control::introduction{.node = std::to_string(node)}); },
               .foreign_first = [] {},
               .heard =
                   [to](std::uint32_t from, control::message&& what) {
                     to->note(&notes::inside_control, [&] { to->heard.emplace_back(from, std::move(what)); });
                   },
               .parted =
                   [to](std::uint32_t from, const std::string& why) {
                     to->note(&notes::inside_control, [&] { to->parted.push_back(from); });
                     CHECK_FALSE(why.empty());
                   }});
  }

  void join_all() {
    for (std::uint32_t node = 0; node < on.nodes.size(); ++node) open_control(node);
    REQUIRE(wait([&] {
      for (std::size_t node = 1; node < of.size(); ++node)
        if (of[node]->heard.empty()) return false;
      return true;
    }));
  }

  void link(std::uint32_t node) {
    auto* to = of[node].get();
    on.nodes[node].tensors->open(
        {.linked = [to] { to->note(&notes::inside, [&] { ++to->linked; }); },
         .lost = [to](std::uint32_t lost,
                      const std::string&) { to->note(&notes::inside, [&] { to->lost.push_back(lost); }); },
         .arrived =
             [to](frame&& came, const std::shared_ptr<const void>&) {
               if (to->refuses) throw frame_error("no");
               to->note(&notes::inside, [&] { to->frames.push_back(std::move(came)); });
             }});
  }

  void link_all() {
    if (on.nodes.front().control) join_all();
    for (std::uint32_t node = 0; node < on.nodes.size(); ++node) link(node);
    REQUIRE(wait([&] {
      for (const auto& each : of)
        if (each->linked != 1) return false;
      return true;
    }));
  }
};

}  // namespace

TEST_CASE("control links: nodes join, and messages arrive as they were, in order, and one at a time") {
  for (const auto make : control_networks) {
    run nodes{make(3)};
    CAPTURE(nodes.on.name);
    nodes.join_all();
    for (std::uint64_t step = 0; step < 200; ++step)
      for (std::uint32_t node : {1u, 2u}) {
        nodes.on.nodes[0].control->tell(node, control::proceed{rank_id{node}, step});
        nodes.on.nodes[node].control->tell(0, control::progress{rank_id{node}, step});
      }
    REQUIRE(nodes.wait([&] {
      return nodes.of[0]->heard.size() == 400 && nodes.of[1]->heard.size() == 201 && nodes.of[2]->heard.size() == 201;
    }));
    const auto still = nodes.hold();
    std::vector<std::uint64_t> next(3, 0);
    for (const auto& [from, what] : nodes.of[0]->heard)
      CHECK(std::get<control::progress>(what).steps == next.at(from)++);
    CHECK(std::holds_alternative<control::welcome>(nodes.of[1]->heard[0].second));
    for (std::uint64_t step = 0; step < 200; ++step)
      CHECK(std::get<control::proceed>(nodes.of[1]->heard[step + 1].second).steps == step);
    for (const auto& each : nodes.of) CHECK_FALSE(each->overlaps);
  }
}

TEST_CASE("control links: a visitor that is refused hears why, and is told nothing else") {
  for (const auto make : control_networks) {
    run nodes{make(2)};
    CAPTURE(nodes.on.name);
    nodes.of[0]->refuses = true;
    nodes.open_control(0);
    nodes.open_control(1);
    REQUIRE(nodes.wait([&] { return !nodes.of[1]->heard.empty(); }));
    nodes.on.nodes[0].control->tell(1, control::end{});  // is dropped
    nodes.pass_some_time();
    const auto still = nodes.hold();
    CHECK(std::get<control::refusal>(nodes.of[1]->heard[0].second).reason == "no");
    CHECK(nodes.of[1]->heard.size() == 1);
    CHECK(nodes.of[0]->heard.empty());
  }
}

TEST_CASE("control links: a node that ends is told to the first one, once, and hears nothing more") {
  for (const auto make : control_networks) {
    run nodes{make(3)};
    CAPTURE(nodes.on.name);
    nodes.join_all();
    nodes.on.nodes[2] = {};
    REQUIRE(nodes.wait([&] { return !nodes.of[0]->parted.empty(); }));
    nodes.on.nodes[0].control->tell(2, control::end{});  // is dropped
    nodes.pass_some_time();
    const auto still = nodes.hold();
    CHECK(nodes.of[0]->parted == std::vector<std::uint32_t>{2});
    CHECK(nodes.of[1]->parted.empty());
  }
}

TEST_CASE("control links: a message that a node may not send loses its link") {
  for (const auto make : control_networks) {
    run nodes{make(2)};
    CAPTURE(nodes.on.name);
    nodes.join_all();
    nodes.on.nodes[1].control->tell(0, control::progress{rank_id{0}, 1});  // about a rank of another node
    REQUIRE(nodes.wait([&] { return !nodes.of[0]->parted.empty() && !nodes.of[1]->parted.empty(); }));
    const auto still = nodes.hold();
    CHECK(nodes.of[0]->heard.empty());
  }
}

TEST_CASE("tensor links: frames arrive as they were, in order, and one at a time") {
  for (const auto make : tensor_networks) {
    run nodes{make(3)};
    CAPTURE(nodes.on.name);
    nodes.link_all();
    const std::vector<std::int64_t> sizes{1, 16, 100'000, 16, 1};
    for (std::uint32_t from = 0; from < 3; ++from)
      for (std::uint32_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          nodes.on.nodes[from].tensors->send(
              to, to, piece_of(from, i, at::full({sizes[i]}, static_cast<float>(10 * from + i))));
        nodes.on.nodes[from].tensors->send(
            to, snapshot{{.run = run_id{4}, .sender = rank_id{from}, .step = 9}, at::full({million}, 0.5F)});
      }
    REQUIRE(nodes.wait([&] {
      for (const auto& each : nodes.of)
        if (each->frames.size() != 2 * (sizes.size() + 1)) return false;
      return true;
    }));
    const auto still = nodes.hold();
    for (const auto& each : nodes.of) {
      CHECK_FALSE(each->overlaps);
      CHECK(each->linked == 1);
      std::vector<std::size_t> next(3, 0);
      for (const auto& came : each->frames) {
        const auto from = static_cast<std::uint32_t>(came.header.origin.sender);
        const auto i = next.at(from)++;
        if (i == sizes.size()) {
          CHECK(came.as_snapshot().origin.step == 9);
          continue;
        }
        const auto piece = came.as_part();
        CHECK(piece.origin.step == i);
        CHECK(piece.which.part == 6);
        CHECK(at::equal(piece.piece.values, at::full({sizes[i]}, static_cast<float>(10 * from + i))));
      }
    }
  }
}

TEST_CASE("tensor links: nothing arrives, and nobody is linked, before all are open") {
  for (const auto make : tensor_networks) {
    run nodes{make(3)};
    CAPTURE(nodes.on.name);
    if (nodes.on.nodes[0].control) nodes.join_all();
    nodes.link(0);
    nodes.link(1);
    nodes.on.nodes[2].tensors->send(0, 0, piece_of(2, 0, at::ones({1})));  // not open: is dropped
    nodes.pass_some_time();
    {
      const auto still = nodes.hold();
      for (const auto& each : nodes.of) CHECK(each->linked == 0);
      CHECK(nodes.of[0]->frames.empty());
    }
    nodes.link(2);
    CHECK(nodes.wait([&] { return nodes.of[0]->linked + nodes.of[1]->linked + nodes.of[2]->linked == 3; }));
  }
}

TEST_CASE("tensor links: a node that ends is lost to all others, once, and they stay linked") {
  for (const auto make : tensor_networks) {
    run nodes{make(3)};
    CAPTURE(nodes.on.name);
    nodes.link_all();
    nodes.on.nodes[2] = {};
    REQUIRE(nodes.wait([&] { return !nodes.of[0]->lost.empty() && !nodes.of[1]->lost.empty(); }));
    nodes.on.nodes[0].tensors->send(2, 2, piece_of(0, 0, at::ones({1})));  // is dropped
    nodes.on.nodes[0].tensors->send(1, 1, piece_of(0, 1, at::ones({1})));
    REQUIRE(nodes.wait([&] { return nodes.of[1]->frames.size() == 1; }));
    nodes.pass_some_time();
    const auto still = nodes.hold();
    for (std::uint32_t node : {0u, 1u}) CHECK(nodes.of[node]->lost == std::vector<std::uint32_t>{2});
  }
}

TEST_CASE("tensor links: a frame that is refused, or that its sender may not send, loses the link on both sides") {
  for (const auto make : tensor_networks)
    for (const bool by_listener : {false, true}) {
      run nodes{make(3)};
      CAPTURE(nodes.on.name);
      CAPTURE(by_listener);
      nodes.link_all();
      nodes.of[1]->refuses = by_listener;
      nodes.on.nodes[0].tensors->send(1, 1, piece_of(by_listener ? 0 : 2, 0, at::ones({1})));
      REQUIRE(nodes.wait([&] { return !nodes.of[0]->lost.empty() && !nodes.of[1]->lost.empty(); }));
      const auto still = nodes.hold();
      CHECK(nodes.of[1]->frames.empty());
      CHECK(nodes.of[1]->lost == std::vector<std::uint32_t>{0});
      CHECK(nodes.of[0]->lost == std::vector<std::uint32_t>{1});
      CHECK(nodes.of[2]->lost.empty());
    }
}

}  // namespace transport_contract_test

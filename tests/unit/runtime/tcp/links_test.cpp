// Links over loopback, several nodes in one process: what arrives, which buffers are bounded, which nodes are lost.
#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/tcp/free_ports.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace transport_links_test {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

std::string refusal(const endpoint& listen) {
  try {
    make_tcp_links({.listen = listen, .addresses = {listen}, .ranks = {{0, 1}}, .limits = {}, .pool = {}});
  } catch (const input_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what two and three nodes send each other arrives as it was, in order") {
  for (const std::uint32_t count : {2u, 3u}) {
    CAPTURE(count);
    const auto where = addresses(count);
    std::vector<std::unique_ptr<node>> nodes;
    for (std::uint32_t i = 0; i < count; ++i) nodes.push_back(std::make_unique<node>(i, where));
    for (const auto& one : nodes) one->link();
    for (const auto& one : nodes) REQUIRE(one->wait_linked());

    const std::vector<std::int64_t> sizes{1, 16, million, 16, 1};
    for (std::uint32_t from = 0; from < count; ++from)
      for (std::uint32_t to = 0; to < count; ++to) {
        if (from == to) continue;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          nodes[from]->links.tensors->send(to, to,
                                           piece_of(from, i, at::full({sizes[i]}, static_cast<float>(10 * from + i))));
        nodes[from]->links.tensors->send(
            to, snapshot{{.run = run_id{4}, .sender = rank_id{from}, .step = 9}, at::full({million}, 0.5f)});
      }
    for (std::uint32_t to = 0; to < count; ++to) {
      auto& receiver = *nodes[to];
      REQUIRE(receiver.wait_frames((count - 1) * (sizes.size() + 1)));
      std::vector<std::size_t> next(count, 0);
      for (const auto& came : receiver.frames) {
        const auto from = static_cast<std::uint32_t>(came.header.origin.sender);
        const auto i = next.at(from)++;
        CHECK(reinterpret_cast<std::uintptr_t>(came.values.const_data_ptr()) % 64 == 0);
        if (i == sizes.size()) {
          REQUIRE(came.header.kind == frame_kind::snapshot);
          CHECK(came.as_snapshot().origin.step == 9);
          CHECK(at::equal(came.values, at::full({million}, 0.5f)));
          continue;
        }
        REQUIRE(came.header.kind == frame_kind::part);
        const auto piece = came.as_part();
        CHECK(came.header.to == to);
        CHECK(piece.origin.run == run_id{4});
        CHECK(piece.origin.generation == 2);
        CHECK(piece.origin.step == i);
        CHECK(piece.origin.version == 3);
        CHECK(piece.which.part == 6);
        CHECK(piece.at == stage::partial);
        CHECK(piece.sample_count == 8);
        CHECK(at::equal(piece.piece.values, at::full({sizes[i]}, static_cast<float>(10 * from + i))));
      }
      for (std::uint32_t from = 0; from < count; ++from) CHECK(next[from] == (from == to ? 0 : sizes.size() + 1));
    }
  }
}

TEST_CASE("a node that is there later is dialled until it is") {
  const auto where = addresses(2);
  node b{1, where};
  b.link();
  std::this_thread::sleep_for(50ms);
  node a{0, where};
  a.link();
  CHECK(a.wait_linked());
  CHECK(b.wait_linked());
}

TEST_CASE("no more than the window is under way while the receiver holds receipts, and all arrives afterwards") {
  pair_of_nodes both{{.holds = true}};
  const auto values = at::ones({million});
  for (std::uint64_t step = 0; step < 12; ++step)
    both.a.links.tensors->send(1, 1, piece_of(0, step, values));  // 48 MiB
  REQUIRE(both.b.wait_frames(4));
  std::this_thread::sleep_for(30ms);
  CHECK(both.b.count() == 4);  // 16 MiB
  CHECK(both.b.pool.allocated() <= 4);
  both.b.links.tensors->send(0, 0, piece_of(1, 0, values));  // the other direction is open
  CHECK(both.a.wait_frames(1));
  both.b.take_receipts().clear();
  REQUIRE(both.b.wait_frames(12));
  for (std::uint64_t step = 0; step < 12; ++step) CHECK(both.b.frames[step].header.origin.step == step);
}

TEST_CASE("a frame larger than the window goes alone, once little else is under way") {
  pair_of_nodes both{{.holds = true, .window_bytes = million}};
  const auto large = at::ones({million}), small = at::ones({16});
  for (std::uint64_t step = 0; step < 3; ++step) {
    both.a.links.tensors->send(1, 1, piece_of(0, 2 * step, small));
    both.a.links.tensors->send(1, 1, piece_of(0, 2 * step + 1, large));
  }
  REQUIRE(both.b.wait_frames(2));
  std::this_thread::sleep_for(20ms);
  CHECK(both.b.count() == 2);
  both.b.take_receipts().clear();
  REQUIRE(both.b.wait_frames(6));
  for (std::uint64_t step = 0; step < 6; ++step) CHECK(both.b.frames[step].header.origin.step == step);
  CHECK(both.b.losses().empty());
}

TEST_CASE("however small the payloads are, the window bounds the memory that is taken for them") {
  pair_of_nodes both{{.holds = true}};
  constexpr std::size_t most = window / 4096;
  const auto values = at::ones({1});
  for (std::uint64_t step = 0; step < most + 100; ++step) both.a.links.tensors->send(1, 1, piece_of(0, step, values));
  REQUIRE(both.b.wait_frames(most));
  std::this_thread::sleep_for(20ms);
  CHECK(both.b.count() == most);
  CHECK(both.b.pool.allocated() == most);
  both.b.take_receipts().clear();
  CHECK(both.b.wait_frames(most + 100));
}

TEST_CASE("a receipt that is let go after its links does no harm") {
  pair_of_nodes both{{.holds = true}};
  for (std::uint64_t step = 0; step < 4; ++step)
    both.a.links.tensors->send(1, 1, piece_of(0, step, at::ones({million})));
  REQUIRE(both.b.wait_frames(4));
  both.b.leave();
  both.b.receipts.clear();
  CHECK(at::equal(both.b.frames[3].values, at::ones({million})));
}

TEST_CASE("receipts that are let go while their links end do no harm") {
  const auto values = at::ones({100'000});
  for (int round = 0; round < 5; ++round) {
    pair_of_nodes both{{.holds = true}};
    for (std::uint64_t step = 0; step < 50; ++step) both.a.links.tensors->send(1, 1, piece_of(0, step, values));
    REQUIRE(both.b.wait_frames(10));
    auto receipts = both.b.take_receipts();
    std::thread taker{[&] { receipts.clear(); }};
    std::thread sender{[&] {
      for (std::uint64_t step = 50; step < 100; ++step) both.a.links.tensors->send(1, 1, piece_of(0, step, values));
    }};
    both.b.leave();
    taker.join();
    sender.join();
  }
}

TEST_CASE("a node that goes away is lost to the others, once") {
  pair_of_nodes both{{.timeout = 100ms}};
  both.b.leave();
  REQUIRE(both.a.wait([&] { return !both.a.lost.empty(); }));
  std::this_thread::sleep_for(120ms);  // longer than the time limit for links
  REQUIRE(both.a.losses().size() == 1);
  CHECK(both.a.losses()[0].first == 1);
  CHECK_FALSE(both.a.losses()[0].second.empty());
  both.a.links.tensors->send(1, 1, piece_of(0, 1, at::ones({16})));  // is dropped
  CHECK(both.a.times_linked() == 1);
}

TEST_CASE("a node that is dialled and never answers is lost when the time is over") {
  const auto where = addresses(2);
  node a{0, where};  // listens but does not link: the kernel accepts the connection
  node b{1, where, {.timeout = 100ms}};
  b.link();
  REQUIRE(b.wait([&] { return !b.lost.empty(); }));
  CHECK(b.losses()[0].first == 0);
}

TEST_CASE("an address that cannot be listened on is refused with what to do") {
  const auto where = addresses(1);
  const auto first =
      make_tcp_links({.listen = where[0], .addresses = where, .ranks = {{0, 1}}, .limits = {}, .pool = {}});
  const auto taken = refusal(where[0]);
  CHECK(taken.find(":" + std::to_string(where[0].port)) != std::string::npos);
  CHECK(taken.find("expected a free port") != std::string::npos);
  CHECK(refusal({"192.0.2.1", where[0].port}).find("of an address of this host") != std::string::npos);
  CHECK(refusal({"no-such-host.invalid", where[0].port}).find("expected") != std::string::npos);
}

TEST_CASE("free ports are not given twice, and can be listened on afterwards") {
  std::vector<std::uint16_t> ports;
  {
    free_ports one, other;
    for (int i = 0; i < 8; ++i) {
      ports.push_back(one.next("127.0.0.1"));
      ports.push_back(other.next("127.0.0.1"));
    }
    CHECK(refusal({"127.0.0.1", ports[0]}) != "");
  }
  std::sort(ports.begin(), ports.end());
  for (std::size_t i = 1; i < ports.size(); ++i) CHECK(ports[i] > ports[i - 1]);
  CHECK(refusal({"127.0.0.1", ports[0]}) == "");
}

}  // namespace transport_links_test

// Which connections a node rejects: those of strangers, of lost nodes, and of peers that break the rules.
#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"
#include "tests/support/sealed.hpp"
#include "tests/support/stranger.hpp"

#include "troupe/runtime/transport/frame.hpp"

#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace transport_strangers_test {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::testing;
using namespace std::chrono_literals;

TEST_CASE("a node lost before all links are made is lost once, and a late one of the same name is not let in") {
  const auto where = addresses(3);
  node a{0, where, {.timeout = 150ms}};
  a.link();
  auto b = std::make_unique<node>(1, where);
  b->link();
  // Node 2 never connects, so `linked` is not reported. Node 1 is linked as soon as it can send.
  for (int i = 0; i < 1000 && a.count() == 0; ++i) {
    b->links.tensors->send(0, 0, piece_of(1, 0, at::ones({1})));
    std::this_thread::sleep_for(2ms);
  }
  REQUIRE(a.count() > 0);
  b.reset();
  REQUIRE(a.wait([&] { return a.lost.size() == 2; }));
  stranger again{where[0]};
  again.greet(our_session, 1);
  CHECK(again.is_left());
  std::this_thread::sleep_for(50ms);
  REQUIRE(a.losses().size() == 2);
  CHECK(a.losses()[0].first == 1);
  CHECK(a.losses()[1].first == 2);
  CHECK(a.losses()[1].second == "it was not established within 150 ms");
  CHECK(a.times_linked() == 0);
}

TEST_CASE("a stranger who speaks something else is left at once, and disturbs nobody") {
  pair_of_nodes both;
  const auto& where = both.nodes[0];
  const auto hello = encode({.kind = frame_kind::hello, .to = 1, .total = window, .payload_bytes = 16});
  const auto is_left_after = [&](const std::function<void(stranger&)>& what) {
    stranger one{where};
    what(one);
    return one.is_left();
  };
  CHECK(is_left_after([](auto& one) { one.say(std::string(1000, 'x')); }));
  CHECK(is_left_after([](auto& one) { one.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); }));
  CHECK(is_left_after([](auto& one) { one.greet(session_id{std::byte{'o'}}, 1); }));  // another session
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 1); }));                 // a node that is linked already
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 0); }));                 // this node itself
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 2); }));                 // a node that does not exist
  CHECK(is_left_after([](auto& one) { one.greet(our_session, ~0u); }));
  CHECK(is_left_after([&](auto& one) {  // a damaged hello
    one.say(hello);
    one.say(std::string(16, 'x'));
  }));
  CHECK(is_left_after([](auto& one) { one.say(encode({.kind = frame_kind::credit, .total = 1})); }));
  CHECK(is_left_after([](auto& one) { one.say(encode(header_of(0, piece_of(1, 0, at::ones({million}))))); }));
  CHECK(both.a.pool.allocated() == 0);
  both.check_alive();
}

TEST_CASE("a stranger who says nothing, half a word, or a byte now and then is left when patience is over") {
  pair_of_nodes both{{.patience = 150ms}};
  const auto hello = encode({.kind = frame_kind::hello, .to = 1, .total = window, .payload_bytes = 16});
  stranger silent{both.nodes[0]}, half{both.nodes[0]}, slow{both.nodes[0]}, gone{both.nodes[0]};
  half.say(std::span{hello}.first(60));
  std::size_t said = 0;
  while (said < 100 && !slow.is_left(10ms)) slow.say(std::span{hello}.subspan(said++, 1));
  CHECK(said < 100);
  CHECK(silent.is_left());
  CHECK(half.is_left());
  both.check_alive();
}

TEST_CASE("a hundred strangers at once are not all listened to, and disturb nobody") {
  pair_of_nodes both;
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<stranger>(both.nodes[0]));
  CHECK(crowd[0]->is_left());
  CHECK(crowd[35]->is_left());
  CHECK_FALSE(crowd[36]->is_left(0ms));
  CHECK_FALSE(crowd[99]->is_left(0ms));
  both.check_alive();
}

TEST_CASE("a hundred strangers before the links are made keep nobody out") {
  const auto where = addresses(3);
  node b{1, where};
  b.link();
  node a{0, where};  // accepts the connection of node 1, and sends nothing yet
  std::this_thread::sleep_for(50ms);
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<stranger>(where[1]));
  CHECK(crowd[0]->is_left());
  node c{2, where};
  a.link();
  c.link();
  CHECK(a.wait_linked());
  CHECK(b.wait_linked());
  CHECK(c.wait_linked());
}

TEST_CASE("a peer that breaks the rules is dropped, and it is said why") {
  const auto where = addresses(2);
  node a{0, where, {.holds = true}};
  a.link();
  stranger peer{where[0]};
  peer.greet(our_session, 1);
  REQUIRE(a.wait_linked());
  std::string why;
  SUBCASE("a second hello") {
    peer.greet(our_session, 1);
    why = "received a second hello";
  }
  SUBCASE("more than its credit") {
    const auto values = at::ones({million});
    const auto header = encode(sealed(header_of(0, piece_of(1, 0, values)), values));
    const std::span payload{static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
    for (int i = 0; i < 5; ++i) {
      peer.say(header);
      if (i < 4) peer.say(payload);
    }
    why = "received a frame that exceeds the granted credit";
  }
  SUBCASE("a credit for what was never sent") {
    peer.say(encode({.kind = frame_kind::credit, .total = 1}));
    why = "received a credit for more bytes than were sent";
  }
  SUBCASE("a damaged payload") {
    peer.say(encode(header_of(0, piece_of(1, 0, at::ones({2})))));
    peer.say("12345678");
    why = "received a frame whose payload was damaged in transit";
  }
  REQUIRE(a.wait([&] { return !a.lost.empty(); }));
  CHECK(a.losses().size() == 1);
  CHECK(a.losses()[0].first == 1);
  CHECK(a.losses()[0].second == why);
  CHECK(peer.is_left());
  CHECK(a.pool.allocated() <= 4);
}

TEST_CASE("without descriptors nobody is let in, and with them the waiting are") {
  pair_of_nodes both;
  stranger waiting;
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  waiting.dial(both.nodes[0]);
  waiting.say("not a frame");
  const bool left = waiting.is_left(60ms);
  both.check_alive();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK_FALSE(left);
  CHECK(waiting.is_left());
  both.check_alive();
}

}  // namespace transport_strangers_test

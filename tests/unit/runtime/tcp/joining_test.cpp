// Control links over loopback: how nodes join, which messages they send afterwards, and how silence is noticed.
#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"
#include "tests/support/stranger.hpp"

#include "troupe/runtime/transport/control.hpp"

#include <ATen/ops/ones.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <variant>

namespace transport_joining_test {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// A first node and one that has joined it.
struct joined_nodes {
  explicit joined_nodes(node::options with = {}) : nodes(addresses(2)), a(0, nodes, with), b(1, nodes, with) {
    a.open();
    b.open();
    REQUIRE(b.wait([this] { return !b.heard.empty(); }));
  }
  std::vector<endpoint> nodes;
  node a, b;
};

std::string reason_of_loss(node& who) {
  REQUIRE(who.wait([&] { return !who.parted.empty(); }));
  return who.parted.front().second;
}

}  // namespace

TEST_CASE("a node joins whichever is there first, and both hear each other in order") {
  const auto where = addresses(2);
  node b{1, where};
  b.open();
  std::this_thread::sleep_for(50ms);
  node a{0, where};
  a.open();
  REQUIRE(b.wait([&] { return b.heard.size() == 1; }));
  CHECK(b.heard[0].first == 0);
  CHECK(std::holds_alternative<control::welcome>(b.heard[0].second));
  for (std::uint64_t step = 0; step < 1000; ++step) {
    a.links.control->tell(1, control::proceed{rank_id{1}, step});
    b.links.control->tell(0, control::progress{rank_id{1}, step});
  }
  REQUIRE(a.wait([&] { return a.heard.size() == 1000; }));
  REQUIRE(b.wait([&] { return b.heard.size() == 1001; }));
  for (std::uint64_t step = 0; step < 1000; ++step) {
    CHECK(std::get<control::progress>(a.heard[step].second).steps == step);
    CHECK(std::get<control::proceed>(b.heard[step + 1].second).steps == step);
  }
}

TEST_CASE("a visitor that is refused hears why") {
  const auto where = addresses(2);
  node a{0, where}, b{1, where};
  a.refuses = true;
  a.open();
  b.open();
  REQUIRE(b.wait([&] { return !b.heard.empty(); }));
  CHECK(std::get<control::refusal>(b.heard[0].second).reason == "no");
}

TEST_CASE("a visitor can do nothing but introduce itself") {
  const auto where = addresses(2);
  node a{0, where};
  a.refuses = true;
  a.open();
  for (const auto& what : {control::message{control::failed{"it"}}, control::message{control::end{}}}) {
    stranger visitor{where[0]};
    visitor.greet({}, 1, plane::control);
    visitor.tell(what);
    CHECK(visitor.is_left());
  }
  {
    stranger twice{where[0]};
    twice.introduce(1);
    twice.tell(control::introduction{.node = "1"});
    CHECK(twice.is_left());
  }
  CHECK(a.heard.empty());
  CHECK(a.parted.empty());
}

TEST_CASE("a visitor that introduces itself and is not admitted is left when patience is over") {
  const auto where = addresses(2);
  node a{0, where, {.patience = 100ms}};
  a.refuses = true;
  a.open();
  stranger visitor{where[0]};
  visitor.introduce(1);
  CHECK(visitor.is_left());
}

TEST_CASE("only the first node takes visitors") {
  const auto where = addresses(3);
  node b{1, where};
  b.link();
  stranger visitor{where[1]};
  visitor.greet({}, 2, plane::control);
  CHECK(visitor.is_left());
}

TEST_CASE("a node that says what it may not is lost, and it is said why") {
  const auto where = addresses(2);
  node a{0, where};
  a.open();
  stranger peer{where[0]};
  peer.introduce(1);
  peer.wait_for_words();
  SUBCASE("about a rank of another node") {
    peer.tell(control::progress{rank_id{0}, 1});
    CHECK(reason_of_loss(a) == "received the control message progress about a rank of another node");
  }
  SUBCASE("what only the first node says") {
    peer.tell(control::end{.status = 1, .failure = ""});
    CHECK(reason_of_loss(a) == "received the control message end from a node that may not send it");
  }
  SUBCASE("a tensor") {
    peer.say(encode(header_of(0, piece_of(1, 0, at::ones({2})))));
    CHECK(reason_of_loss(a) == "received a frame that belongs to the other plane");
  }
  SUBCASE("an unreadable message") {
    peer.tell_bytes("nonsense");
    CHECK(reason_of_loss(a).find("received a control message") == 0);
  }
  CHECK(peer.is_left());
  CHECK(a.heard.empty());
}

TEST_CASE("a node of another version learns it from the answer, and a visitor of another version is answered") {
  const auto where = addresses(2);
  node a{0, where};
  a.open();
  stranger visitor{where[0]};
  auto hello = encode({.kind = frame_kind::hello, .to = 1, .total = window, .payload_bytes = 16});
  hello[4] = std::byte{250};
  visitor.say(hello);
  const auto answer = visitor.hear(header_bytes);
  CHECK(answer[4] == static_cast<std::byte>(protocol_version));

  const auto elsewhere = addresses(2);
  listener first{elsewhere[0]};
  node b{1, elsewhere};
  b.open();
  stranger as_first{first.accept()};
  as_first.say(hello);
  CHECK(b.wait([&] { return b.foreign == 1; }));
}

TEST_CASE("a node that says nothing for longer than the silence allowed is lost, and one that beats is not") {
  joined_nodes both{{.silence = 200ms}};
  std::this_thread::sleep_for(500ms);
  CHECK(both.a.parted.empty());
  CHECK(both.b.parted.empty());

  const auto where = addresses(2);
  node a{0, where, {.silence = 200ms}};
  a.open();
  stranger peer{where[0]};
  peer.introduce(1);
  CHECK(reason_of_loss(a) == "it was silent for 200 ms (run.silence)");
}

TEST_CASE("a node that goes away is lost to the first one, and the first one to it") {
  SUBCASE("the second") {
    joined_nodes both;
    both.b.leave();
    CHECK(reason_of_loss(both.a) == "it was killed or disconnected");
  }
  SUBCASE("the first") {
    joined_nodes both;
    both.a.leave();
    CHECK(reason_of_loss(both.b) == "it was killed or disconnected");
  }
}

}  // namespace transport_joining_test

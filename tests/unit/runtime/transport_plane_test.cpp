// Tensor planes on loopback, several in one process: what arrives, what is bounded, and which connections are rejected.
#include "tests/support/doctest.hpp"

#include "troupe/actors/support/crc32c.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/transport/free_ports.hpp"
#include "troupe/runtime/transport/tensor_plane.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>

using namespace troupe;
using namespace troupe::transport;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t million = 1 << 20;
constexpr std::int64_t window = 16 << 20;
constexpr session_id our_session{std::byte{'o'}, std::byte{'u'}, std::byte{'r'}};

std::vector<topology::endpoint> addresses(std::size_t count) {
  free_ports free;
  std::vector<topology::endpoint> result;
  while (result.size() < count) result.push_back({"127.0.0.1", free.next("127.0.0.1")});
  return result;
}

/// Limits of node `node`, which has rank `node`; of models whose largest payload is 4 MiB.
frame_limits limits_of(std::uint32_t node, std::uint32_t nodes) {
  return {.world_size = nodes, .first_rank = node, .exchanged = {million}, .total = million};
}

/// A plane and what it has heard.
class node {
 public:
  struct options {
    std::chrono::milliseconds timeout{20'000}, patience{20'000};
    bool holds{false};  ///< Receipts.
    std::int64_t window_bytes{window};
  };

  node(std::uint32_t me, const std::vector<topology::endpoint>& nodes) : node(me, nodes, options{}) {}
  node(std::uint32_t me, const std::vector<topology::endpoint>& nodes, options with)
      : me_(me), nodes_(nodes), holds_(with.holds) {
    plane = std::make_unique<tensor_plane>(
        tensor_plane_options{.listen = nodes.at(me),
                             .limits = limits_of(me, static_cast<std::uint32_t>(nodes.size())),
                             .pool = pool,
                             .window_bytes = with.window_bytes,
                             .timeout = with.timeout,
                             .patience = with.patience});
  }

  ~node() { plane.reset(); }  // while there is somebody to tell

  void link(const session_id& session = our_session) {
    plane->link(
        session, me_, nodes_,
        {.linked = [this] { change([this] { ++linked; }); },
         .lost = [this](std::uint32_t node, const std::string& why) { change([&] {
                                                                        lost.push_back({node, why});
                                                                      }); },
         .arrived =
             [this](frame&& came, std::shared_ptr<const void> receipt) {
               change([&] {
                 frames.push_back(std::move(came));
                 if (holds_) receipts.push_back(std::move(receipt));
               });
             }});
  }

  /// Waits until `condition` holds, for some seconds; returns whether it does.
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 10s, condition);
  }
  bool wait_linked() {
    return wait([this] { return linked == 1; });
  }
  bool wait_frames(std::size_t count) {
    return wait([this, count] { return frames.size() >= count; });
  }

  /// Returns all receipts; no more are held.
  std::vector<std::shared_ptr<const void>> take_receipts() {
    const std::lock_guard lock{mutex_};
    holds_ = false;
    return std::exchange(receipts, {});
  }

  std::size_t count() {
    const std::lock_guard lock{mutex_};
    return frames.size();
  }
  int links() {
    const std::lock_guard lock{mutex_};
    return linked;
  }
  std::vector<std::pair<std::uint32_t, std::string>> losses() {
    const std::lock_guard lock{mutex_};
    return lost;
  }

  models::buffer_pool pool;
  std::unique_ptr<tensor_plane> plane;
  int linked{0};
  std::vector<std::pair<std::uint32_t, std::string>> lost;
  std::vector<frame> frames;
  std::vector<std::shared_ptr<const void>> receipts;

 private:
  template <class Change>
  void change(Change what) {
    {
      const std::lock_guard lock{mutex_};
      what();
    }
    changed_.notify_all();
  }

  std::uint32_t me_;
  std::vector<topology::endpoint> nodes_;
  bool holds_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

part piece_of(std::uint32_t sender, std::uint64_t step, at::Tensor values) {
  return {.origin = {.run = run_id{4}, .sender = rank_id{sender}, .generation = 2, .step = step, .version = 3},
          .which = {.place = 0, .part = 6},
          .what = slot::gradient,
          .at = stage::partial,
          .piece = {0, std::move(values)},
          .total = million,
          .sample_count = 8};
}

/// Two linked planes; node 1 has dialled node 0.
struct pair_of_nodes {
  explicit pair_of_nodes(node::options with = {}) : nodes(addresses(2)), a(0, nodes, with), b(1, nodes, with) {
    a.link();
    b.link();
    REQUIRE(a.wait_linked());
    REQUIRE(b.wait_linked());
  }

  /// Something goes each way, and nobody is lost.
  void check_alive() {
    const auto before_a = a.count(), before_b = b.count();
    a.plane->send(1, 1, piece_of(0, 1, at::ones({16})));
    b.plane->send(0, 0, piece_of(1, 1, at::ones({16})));
    CHECK(a.wait_frames(before_a + 1));
    CHECK(b.wait_frames(before_b + 1));
    CHECK(a.losses().empty());
    CHECK(b.losses().empty());
  }

  std::vector<topology::endpoint> nodes;
  node a, b;
};

/// Somebody with a plain socket.
class stranger {
 public:
  explicit stranger(const topology::endpoint& whom) : stranger() { dial(whom); }
  stranger() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { REQUIRE(socket_ >= 0); }
  ~stranger() { ::close(socket_); }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  void dial(const topology::endpoint& whom) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(whom.port + 1));
    ::inet_pton(AF_INET, whom.host.c_str(), &address.sin_addr);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  }

  void say(std::string_view words) { ::send(socket_, words.data(), words.size(), MSG_NOSIGNAL); }
  void say(std::span<const std::byte> bytes) { say({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }
  void greet(const session_id& session, std::uint32_t node) {
    say(encode({.kind = frame_kind::hello,
                .to = node,
                .total = window,
                .payload_bytes = session.size(),
                .payload_crc = crc32c(session)}));
    say(session);
  }

  /// Returns whether the other side closes within `patience`; what it says meanwhile is thrown away.
  bool is_left(std::chrono::milliseconds patience = 10s) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      pollfd waiting{socket_, POLLIN, 0};
      if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
      char ignored[4096];
      if (::recv(socket_, ignored, sizeof(ignored), 0) <= 0) return true;
    }
  }

 private:
  int socket_;
};

std::string refusal(const topology::endpoint& listen) {
  try {
    const tensor_plane plane{{.listen = listen, .limits = {}, .pool = {}}};
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
          nodes[from]->plane->send(to, to, piece_of(from, i, at::full({sizes[i]}, static_cast<float>(10 * from + i))));
        nodes[from]->plane->send(to, snapshot{{.sender = rank_id{from}, .step = 9}, at::full({million}, 0.5f)});
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
  for (std::uint64_t step = 0; step < 12; ++step) both.a.plane->send(1, 1, piece_of(0, step, values));  // 48 MiB
  REQUIRE(both.b.wait_frames(4));
  std::this_thread::sleep_for(30ms);
  CHECK(both.b.count() == 4);  // 16 MiB
  CHECK(both.b.pool.allocated() <= 4);
  both.b.plane->send(0, 0, piece_of(1, 0, values));  // the other way is open
  CHECK(both.a.wait_frames(1));
  both.b.take_receipts().clear();
  REQUIRE(both.b.wait_frames(12));
  for (std::uint64_t step = 0; step < 12; ++step) CHECK(both.b.frames[step].header.origin.step == step);
}

TEST_CASE("a frame larger than the window goes alone, once little else is under way") {
  pair_of_nodes both{{.holds = true, .window_bytes = million}};
  const auto large = at::ones({million}), small = at::ones({16});
  for (std::uint64_t step = 0; step < 3; ++step) {
    both.a.plane->send(1, 1, piece_of(0, 2 * step, small));
    both.a.plane->send(1, 1, piece_of(0, 2 * step + 1, large));
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
  for (std::uint64_t step = 0; step < most + 100; ++step) both.a.plane->send(1, 1, piece_of(0, step, values));
  REQUIRE(both.b.wait_frames(most));
  std::this_thread::sleep_for(20ms);
  CHECK(both.b.count() == most);
  CHECK(both.b.pool.allocated() == most);
  both.b.take_receipts().clear();
  CHECK(both.b.wait_frames(most + 100));
}

TEST_CASE("a receipt that is let go after its plane does no harm") {
  pair_of_nodes both{{.holds = true}};
  for (std::uint64_t step = 0; step < 4; ++step) both.a.plane->send(1, 1, piece_of(0, step, at::ones({million})));
  REQUIRE(both.b.wait_frames(4));
  both.b.plane.reset();
  both.b.receipts.clear();
  CHECK(at::equal(both.b.frames[3].values, at::ones({million})));
}

TEST_CASE("receipts that are let go while their plane ends do no harm") {
  const auto values = at::ones({100'000});
  for (int round = 0; round < 5; ++round) {
    pair_of_nodes both{{.holds = true}};
    for (std::uint64_t step = 0; step < 50; ++step) both.a.plane->send(1, 1, piece_of(0, step, values));
    REQUIRE(both.b.wait_frames(10));
    auto receipts = both.b.take_receipts();
    std::thread taker{[&] { receipts.clear(); }};
    std::thread sender{[&] {
      for (std::uint64_t step = 50; step < 100; ++step) both.a.plane->send(1, 1, piece_of(0, step, values));
    }};
    both.b.plane.reset();
    taker.join();
    sender.join();
  }
}

TEST_CASE("a node that goes away is lost to the others, once") {
  pair_of_nodes both{{.timeout = 100ms}};
  both.b.plane.reset();
  REQUIRE(both.a.wait([&] { return !both.a.lost.empty(); }));
  std::this_thread::sleep_for(120ms);  // beyond the time for links
  REQUIRE(both.a.losses().size() == 1);
  CHECK(both.a.losses()[0].first == 1);
  CHECK_FALSE(both.a.losses()[0].second.empty());
  both.a.plane->send(1, 1, piece_of(0, 1, at::ones({16})));  // goes nowhere
  CHECK(both.a.links() == 1);
}

TEST_CASE("a node lost before all links are made is lost once, and a late one of the same name is not let in") {
  const auto where = addresses(3);
  node a{0, where, {.timeout = 150ms}};
  a.link();
  auto b = std::make_unique<node>(1, where);
  b->link();
  // Node 2 is never there, so that nobody hears of links. Node 1 is linked once it can send.
  for (int i = 0; i < 1000 && a.count() == 0; ++i) {
    b->plane->send(0, 0, piece_of(1, 0, at::ones({1})));
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
  CHECK(a.links() == 0);
}

TEST_CASE("a node that is dialled and never answers is lost when the time is over") {
  const auto where = addresses(2);
  node a{0, where};  // listens, and is never told to link: the kernel takes the connection
  node b{1, where, {.timeout = 100ms}};
  b.link();
  REQUIRE(b.wait([&] { return !b.lost.empty(); }));
  CHECK(b.losses()[0].first == 0);
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
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 1); }));                 // is linked already
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 0); }));                 // us
  CHECK(is_left_after([](auto& one) { one.greet(our_session, 2); }));                 // nobody
  CHECK(is_left_after([](auto& one) { one.greet(our_session, ~0u); }));
  CHECK(is_left_after([&](auto& one) {  // a hello that was damaged
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
  node a{0, where};  // takes the connection of node 1, and says nothing yet
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
    const auto header = encode(header_of(0, piece_of(1, 0, values)));
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

TEST_CASE("an address that cannot be listened on is refused with what to do") {
  const auto where = addresses(1);
  const tensor_plane first{{.listen = where[0], .limits = {}, .pool = {}}};
  const auto taken = refusal(where[0]);
  CHECK(taken.find(":" + std::to_string(where[0].port + 1)) != std::string::npos);
  CHECK(taken.find("expected a free port after the one in the node's address") != std::string::npos);
  for (const auto* host : {"0.0.0.0", "::", "192.0.2.1"}) {
    CAPTURE(host);
    CHECK(refusal({host, where[0].port}).find("is not a loopback address") != std::string::npos);
  }
  CHECK(refusal({"no-such-host.invalid", where[0].port}).find("expected") != std::string::npos);
}

TEST_CASE("free ports are neighbours, are not given twice, and can be listened on afterwards") {
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
  for (std::size_t i = 1; i < ports.size(); ++i) CHECK(ports[i] >= ports[i - 1] + 2);
  CHECK(refusal({"127.0.0.1", ports[0]}) == "");
}

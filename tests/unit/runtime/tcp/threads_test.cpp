// The work of a connection on the thread of its caller. Links that end while a connection is being established.
#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"

#include "troupe/files/crc32c.hpp"
#include "troupe/net/channels/channel.hpp"
#include "troupe/runtime/tcp/connection.hpp"

#include <ATen/ops/ones.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <poll.h>
#include <span>
#include <unistd.h>
#include <utility>
#include <vector>

namespace transport_threads_test {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// A channel that may refuse to send before it has received something, like TLS in the middle of one of its own
/// messages.
struct hungry_channel final : channel {
  struct state {
    bool hungry{false};
    int refused{0};
  };
  static constexpr int patience = 1000;  ///< Afterwards it sends nevertheless, so that this test ends.

  std::unique_ptr<channel> inner;
  state& now;

  hungry_channel(int socket, state& shared) : inner(plain_channels()->accepted(socket)), now(shared) {}
  std::ptrdiff_t read(std::span<std::byte> room) override {
    const auto count = inner->read(room);
    if (count > 0) now.hungry = false;
    return count;
  }
  std::ptrdiff_t write(std::span<const std::byte> header, std::span<const std::byte> payload) override {
    if (!now.hungry || now.refused == patience) return inner->write(header, payload);
    now.refused += 1;
    errno = EAGAIN;
    return -1;
  }
  bool needs_input() const override { return now.hungry; }
};

/// A connection whose io thread is this test, which runs it with poll(), and the other end of its socket.
struct connection_by_hand {
  using make_channel = std::function<std::unique_ptr<channel>(int socket)>;

  std::shared_ptr<boost::asio::io_context> io = std::make_shared<boost::asio::io_context>(1);
  std::array<int, 2> ends{};
  std::shared_ptr<connection> subject;

  explicit connection_by_hand(const make_channel& make = [](int socket) {
    return plain_channels()->accepted(socket);
  }) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    boost::asio::ip::tcp::socket socket{*io};
    socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
    subject = std::make_shared<connection>(
        connection_options{.io = io, .limits = limits_of(1, 2), .pool = {}, .window = window}, std::move(socket),
        make(ends[0]),
        connection::listener{.greeted = [](const auto&, const frame&) { return true; },
                             .foreign = [](const auto&) { return false; },
                             .arrived = [](const auto&, frame&&, const std::shared_ptr<const void>&) {},
                             .closed = [](const auto&, const connection_loss&) {}});
    subject->start(1h);
    const session_id session{};
    const frame_header hello{
        .kind = frame_kind::hello, .total = window, .payload_bytes = session.size(), .payload_crc = crc32c(session)};
    const auto bytes = encode(hello);
    REQUIRE(::send(ends[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    REQUIRE(::send(ends[1], session.data(), session.size(), 0) == static_cast<ssize_t>(session.size()));
    poll();
  }
  ~connection_by_hand() {
    subject->close();
    poll();
    ::close(ends[1]);
  }

  void poll() {
    io->restart();
    io->poll();
  }

  /// Returns the number of bytes that have been sent so far.
  std::size_t sent() {
    std::vector<std::byte> room(1 << 20);
    std::size_t total = 0;
    for (;;) {
      const auto count = ::recv(ends[1], room.data(), room.size(), MSG_DONTWAIT);
      if (count <= 0) return total;
      total += static_cast<std::size_t>(count);
    }
  }

  void send(std::int64_t elements) {
    const auto values = at::ones({elements});
    subject->send({.kind = frame_kind::part,
                   .origin = {.run = run_id{4}},
                   .total = elements,
                   .sample_count = 1,
                   .elements = static_cast<std::uint64_t>(elements),
                   .payload_bytes = values.nbytes()},
                  values);
  }
};

/// Listens on loopback without accepting, so that the kernel soon stops answering further connections.
struct silent_port {
  int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  std::vector<int> waiting{};
  sockaddr_in where{};

  silent_port() {
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&where);
    REQUIRE(::bind(listener, address, sizeof(where)) == 0);
    REQUIRE(::listen(listener, 0) == 0);
    socklen_t size = sizeof(where);
    ::getsockname(listener, address, &size);
    for (int i = 0; i < 4; ++i) {
      waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      ::connect(waiting.back(), address, size);
    }
  }
  ~silent_port() {
    for (const int one : waiting) ::close(one);
    ::close(listener);
  }
};

}  // namespace

TEST_CASE("a small frame leaves on the thread of its sender, and a large one only on the io thread") {
  connection_by_hand one;
  one.sent();
  one.send(16);
  CHECK(one.sent() == header_bytes + 16 * sizeof(float));
  one.send(100'000);
  one.send(16);  // not before the frame that waits
  CHECK(one.sent() == 0);
  std::size_t total = 0;
  for (int i = 0; i < 1000 && total < 2 * header_bytes + 100'016 * sizeof(float); ++i) {
    one.poll();
    total += one.sent();
  }
  CHECK(total == 2 * header_bytes + 100'016 * sizeof(float));
}

TEST_CASE("a channel that needs input to send is tried again when there is some, and not before") {
  hungry_channel::state now;
  connection_by_hand one{[&](int socket) { return std::make_unique<hungry_channel>(socket, now); }};
  one.sent();
  now.hungry = true;
  one.send(16);
  one.poll();
  CHECK(now.refused <= 2);  // once on this thread, and once on the io thread
  CHECK(one.sent() == 0);
  const auto beat = encode(frame_header{.kind = frame_kind::beat});
  REQUIRE(::send(one.ends[1], beat.data(), beat.size(), 0) == static_cast<ssize_t>(beat.size()));
  one.poll();
  CHECK(one.sent() == header_bytes + 16 * sizeof(float));
}

TEST_CASE("links end at once while a node that they dial does not answer") {
  silent_port nobody;
  auto where = addresses(2);
  where[0].port = ntohs(nobody.where.sin_port);
  auto dials = std::make_unique<node>(1, where, node::options{.patience = 8s});
  dials->open();
  pollfd none{-1, 0, 0};
  ::poll(&none, 1, 100);  // time to begin; if it is too short, the test covers less
  const auto begin = std::chrono::steady_clock::now();
  dials.reset();
  CHECK(std::chrono::steady_clock::now() - begin < 4s);
}

}  // namespace transport_threads_test

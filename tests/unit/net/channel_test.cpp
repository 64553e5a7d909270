// Channels over a pair of sockets: which handshakes succeed, and what arrives afterwards.
#include "troupe/net/channels/channel.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/net/channels/tls.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/runtime/security/authority.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace transport_channel_test {

namespace {

using namespace troupe;
using namespace troupe::transport;

/// Two connected sockets that do not block.
struct wire {
  int ends[2]{-1, -1};
  wire() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0); }
  ~wire() {
    hang_up(0);
    hang_up(1);
  }
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;
  void hang_up(int which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
};

/// Continues a handshake. Returns whether it is done; `problem` is why it failed.
bool step(channel& side, std::string& problem) {
  if (!problem.empty()) return false;
  try {
    return side.shake_hands() == channel::progress::done;
  } catch (const handshake_error& error) {
    problem = error.what();
    return false;
  }
}

/// Two ends, one of which has dialled node "alpha" for control messages.
struct meeting {
  wire between;
  std::unique_ptr<channel> dialled, accepted;
  std::string of_dialled, of_accepted;  ///< Why the handshake failed.

  meeting(const channel_factory& dialling, const channel_factory& accepting, const std::string& node = "alpha")
      : dialled(dialling.dialled(between.ends[0], node, plane::control)),
        accepted(accepting.accepted(between.ends[1])) {}

  /// Returns whether both handshakes succeed.
  bool succeeds() {
    bool first = false, second = false;
    constexpr int enough = 20;
    for (int i = 0; i < enough && !(first && second); ++i) {
      if (!first) first = step(*dialled, of_dialled);
      if (!of_dialled.empty()) between.hang_up(0);
      if (!second) second = step(*accepted, of_accepted);
      if (!of_accepted.empty()) return false;
    }
    return first && second;
  }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Sends a frame of this size and returns what arrives.
std::string carried(channel& from, channel& to, std::string_view header, const std::string& payload) {
  std::string arrived;
  std::array<char, 5000> room{};
  std::size_t sent = 0;
  while (arrived.size() < header.size() + payload.size()) {
    if (sent < header.size() + payload.size()) {
      const auto of_header = std::min(sent, header.size());
      const auto count =
          from.write(bytes_of(header.substr(of_header)), bytes_of(std::string_view(payload).substr(sent - of_header)));
      REQUIRE((count > 0 || errno == EAGAIN));
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
    const auto count = to.read(std::as_writable_bytes(std::span(room)));
    REQUIRE((count > 0 || errno == EAGAIN));
    if (count > 0) arrived.append(room.data(), static_cast<std::size_t>(count));
  }
  return arrived;
}

security::shared_secret secret_of(unsigned char what) {
  security::shared_secret made{};
  made.fill(std::byte{what});
  return made;
}

/// Certificates of alpha and beta in a temporary folder.
struct authority {
  testing::scratch folder;
  explicit authority(int days = 1) {
    security::make_certificates({.folder = folder.path(), .nodes = {"alpha", "beta"}, .days = days});
  }
  std::shared_ptr<const channel_factory> of(const std::string& node) const {
    return tls_channels(security::files_in(folder.path(), node));
  }
};

}  // namespace

TEST_CASE("what is sent through a channel arrives") {
  const authority all;
  std::signal(SIGPIPE, SIG_IGN);
  std::string payload(300'000, ' ');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i % 251);
  const auto check = [&](const channel_factory& dialling, const channel_factory& accepting) {
    meeting both{dialling, accepting};
    REQUIRE(both.succeeds());
    both.accepted->check("beta", plane::control);
    both.dialled->check("alpha", plane::control);
    for (const auto size :
         {std::size_t{0}, std::size_t{1}, std::size_t{16'384 - 4}, std::size_t{40'000}, payload.size()}) {
      const auto part = payload.substr(0, size);
      CHECK(carried(*both.dialled, *both.accepted, "head", part) == "head" + part);
      CHECK(carried(*both.accepted, *both.dialled, "head", part) == "head" + part);
    }
    both.between.hang_up(0);
    std::array<std::byte, 1> room{};
    CHECK(both.accepted->read(room) == 0);
  };
  SUBCASE("plain") {
    check(*plain_channels(), *plain_channels());
  }
  SUBCASE("with a secret") {
    check(*secret_channels({.of_nodes = secret_of(1)}), *secret_channels({.of_nodes = secret_of(1)}));
  }
  SUBCASE("with certificates") {
    check(*all.of("beta"), *all.of("alpha"));
  }
}

TEST_CASE("a handshake fails where the secrets differ") {
  meeting both{*secret_channels({.of_nodes = secret_of(1)}), *secret_channels({.of_nodes = secret_of(2)})};
  CHECK(!both.succeeds());
  CHECK(both.of_dialled == "it has another secret");
  CHECK(both.of_accepted == "it closed the connection without a proof that it knows the secret");
}

TEST_CASE("nobody gets in who does not know the secret") {
  const auto accepted = [](const std::string& said) {
    wire between;
    const auto side = secret_channels({.of_nodes = secret_of(1)})->accepted(between.ends[1]);
    REQUIRE(write(between.ends[0], said.data(), said.size()) == static_cast<ssize_t>(said.size()));
    std::string problem;
    step(*side, problem);
    between.hang_up(0);
    CHECK(!step(*side, problem));
    return problem;
  };
  const std::string magic = "TROUPE\r\n";
  CHECK(accepted("GET / HTTP/1.1\r\n\r\n") == "it is not a node of Troupe, or one without a secret");
  CHECK(accepted("\x16\x03\x01") == "it uses TLS, but this node has no certificate ([security])");
  CHECK(accepted(magic + std::string(32, 'd') + std::string(32, 'p')) == "it has another secret");
  CHECK(accepted(magic + std::string(31, 'd')) == "it closed the connection without a proof that it knows the secret");
}

TEST_CASE("no byte of a proof may change") {
  constexpr std::size_t proof_of_dialled = 40, bytes = 72;
  for (std::size_t at = proof_of_dialled; at < bytes; ++at) {
    wire first, second;  // with a man in the middle
    const auto dialled = secret_channels({.of_nodes = secret_of(1)})->dialled(first.ends[0], "alpha", plane::control);
    const auto accepted = secret_channels({.of_nodes = secret_of(1)})->accepted(second.ends[1]);
    std::string problem, of_dialled, from_dialled;
    std::array<char, 200> room{};
    for (int i = 0; i < 5; ++i) {
      step(*dialled, of_dialled);
      if (const auto count = read(first.ends[1], room.data(), room.size()); count > 0) {
        auto said = std::string(room.data(), static_cast<std::size_t>(count));
        if (from_dialled.size() <= at && at < from_dialled.size() + said.size()) said[at - from_dialled.size()] ^= 1;
        from_dialled += said;
        REQUIRE(write(second.ends[0], said.data(), said.size()) == count);
      }
      CHECK(!(step(*accepted, problem) && from_dialled.size() == bytes));
      if (const auto count = read(second.ends[0], room.data(), room.size()); count > 0)
        REQUIRE(write(first.ends[1], room.data(), static_cast<std::size_t>(count)) == count);
    }
    CHECK(problem == "it has another secret");
  }
}

TEST_CASE("certificates decide who gets in") {
  std::signal(SIGPIPE, SIG_IGN);
  const authority ours, others;
  SUBCASE("another authority") {
    meeting both{*others.of("beta"), *ours.of("alpha")};
    CHECK(!both.succeeds());
    CHECK(both.of_dialled == "its certificate is from another authority than that of this node");
  }
  SUBCASE("an expired certificate") {
    security::make_certificates({.folder = ours.folder.path(), .nodes = {"beta"}, .days = -1, .overwrite = true});
    meeting both{*ours.of("beta"), *ours.of("alpha")};
    CHECK(!both.succeeds());
    CHECK(both.of_accepted.starts_with("its certificate expired on 20"));
  }
  SUBCASE("another node than was dialled") {
    meeting both{*ours.of("beta"), *ours.of("alpha"), "gamma"};
    CHECK(!both.succeeds());
    CHECK(both.of_dialled == "its certificate is for alpha, not for node gamma");
  }
  SUBCASE("another node, or plane, than it says") {
    meeting both{*ours.of("beta"), *ours.of("alpha")};
    REQUIRE(both.succeeds());
    CHECK_THROWS_WITH_AS(both.accepted->check("gamma", plane::control),
                         "its certificate is for beta, not for node gamma", handshake_error);
    CHECK_THROWS_WITH_AS(both.accepted->check("beta", plane::tensors),
                         "it has connected for another purpose than its hello says", handshake_error);
  }
  SUBCASE("plain text") {
    meeting both{*plain_channels(), *ours.of("alpha")};
    REQUIRE(write(both.between.ends[0], "GET / HTTP/1.1\r\n\r\n", 18) == 18);
    CHECK(!both.succeeds());
    CHECK(both.of_accepted == "it does not use TLS 1.3");
  }
}

}  // namespace transport_channel_test

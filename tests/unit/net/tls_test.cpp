// TLS sessions after the handshake: a link that stops in the middle of a record, a peer that ends its session, and new
// keys.
#include "troupe/net/channels/tls.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/stranger.hpp"

#include "troupe/net/security/credentials.hpp"
#include "troupe/runtime/security/authority.hpp"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace transport_tls_test {

namespace {

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::transport;

/// Certificates of nodes 0 and 1.
struct authority {
  scratch folder;
  authority() {
    std::signal(SIGPIPE, SIG_IGN);
    security::make_certificates({.folder = folder.path(), .nodes = {"0", "1"}});
  }
  security::credential_files files(const std::string& node) const { return security::files_in(folder.path(), node); }
};

/// Forwards two connections, one for control and one for tensors, until it is told to stop.
class relay {
 public:
  relay(const endpoint& where, endpoint to) : door_(where), to_(std::move(to)) {
    thread_ = std::thread{[this] { work(); }};
  }
  ~relay() {
    over_ = true;
    thread_.join();
  }

  /// Forwards `bytes` more bytes from the dialling side, and then nothing in either direction.
  void stop_after(std::int64_t bytes) { left_ = bytes; }

 private:
  int dial() const {
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto address = address_of(to_);
    const auto failed = ::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0;
    CHECK_FALSE(failed);
    return made;
  }

  void pass_on(int from, int to, bool forth) {
    std::array<char, 4096> room{};
    auto most = static_cast<std::int64_t>(room.size());
    if (forth && left_ >= 0) most = std::min<std::int64_t>(most, left_);
    const auto count = most > 0 ? ::recv(from, room.data(), static_cast<std::size_t>(most), MSG_DONTWAIT) : 0;
    if (count <= 0) return;
    ::send(to, room.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL);
    if (forth && left_ > 0) left_ -= count;
  }

  void work() {
    std::array<int, 4> ends{};  // each end that has dialled, followed by the end that it has reached
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      ends.at(i) = door_.accept();
      ends.at(i + 1) = dial();
    }
    while (!over_) {
      std::array<pollfd, 4> waiting{};
      for (std::size_t i = 0; i < ends.size(); ++i) waiting.at(i) = {ends.at(i), POLLIN, 0};
      constexpr int look_again_ms = 10;
      if (::poll(waiting.data(), left_ == 0 ? 0 : waiting.size(), look_again_ms) <= 0) continue;
      for (std::size_t i = 0; i < ends.size(); ++i)
        if (waiting.at(i).revents != 0 && left_ != 0) pass_on(ends.at(i), ends.at(i ^ 1), i % 2 == 0);
    }
    for (const int end : ends) ::close(end);
  }

  listener door_;
  endpoint to_;
  std::atomic<std::int64_t> left_{-1};  ///< Negative: everything is forwarded.
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Two connected sockets that do not block.
struct wire {
  int ends[2]{-1, -1};
  wire() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0); }
  ~wire() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;
};

/// A visitor with a certificate that uses OpenSSL directly.
struct visitor {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> session{nullptr, SSL_free};

  visitor(const security::credential_files& files, int socket) {
    SSL_CTX_use_certificate_file(context.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
    session.reset(SSL_new(context.get()));
    SSL_set_fd(session.get(), socket);
    SSL_set_connect_state(session.get());
  }

  void meet(channel& other) {
    bool done = false;
    constexpr int enough = 20;
    for (int i = 0; i < enough && !done; ++i) {
      const auto mine = SSL_do_handshake(session.get()) == 1;
      done = other.shake_hands() == channel::progress::done && mine;
    }
    REQUIRE(done);
  }
};

/// An accepting side that uses OpenSSL directly. Its bytes reach the other side only when the test forwards them.
struct host {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> session{nullptr, SSL_free};
  int socket;
  std::string held{};  ///< Bytes that it has sent and that have not been forwarded.

  host(const security::credential_files& files, int end) : socket(end) {
    SSL_CTX_use_certificate_file(context.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_load_verify_file(context.get(), files.authority.c_str());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);  // a ticket then has the client's certificate
    SSL_CTX_set_session_id_context(context.get(), reinterpret_cast<const unsigned char*>("host"), 4);
    SSL_CTX_set_num_tickets(context.get(), 1);
    SSL_CTX_set_max_send_fragment(context.get(), 512);
    SSL_CTX_set_alpn_select_cb(
        context.get(),
        [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered, unsigned, void*) {
          *chosen = offered + 1;
          *size = *offered;
          return SSL_TLSEXT_ERR_OK;
        },
        nullptr);
    session.reset(SSL_new(context.get()));
    SSL_set_bio(session.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(session.get());
  }

  /// Processes the bytes from the other side, and holds the bytes of this side.
  void turn() {
    std::array<char, 4096> room{};
    for (;;) {
      const auto count = ::recv(socket, room.data(), room.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      BIO_write(SSL_get_rbio(session.get()), room.data(), static_cast<int>(count));
    }
    SSL_do_handshake(session.get());
    for (;;) {
      const auto count = BIO_read(SSL_get_wbio(session.get()), room.data(), static_cast<int>(room.size()));
      if (count <= 0) break;
      held.append(room.data(), static_cast<std::size_t>(count));
    }
  }

  void pass_on(std::size_t bytes) {
    REQUIRE(::send(socket, held.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
    held.erase(0, bytes);
  }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a node that stops in the middle of a record is noticed by its silence") {
  const authority all;
  const auto where = addresses(3);
  relay between{where[2], where[0]};
  auto with = node::options{.silence = std::chrono::milliseconds{400}};
  with.channels = tls_channels(all.files("0"));
  node a{0, {where[0], where[1]}, with};
  with.channels = tls_channels(all.files("1"));
  // Its own address comes second; it dials node 0 through the relay.
  node b{1, {where[2], where[1]}, with};
  a.link();
  b.link();
  REQUIRE(a.wait_linked());
  REQUIRE(b.wait_linked());
  b.links.tensors->send(0, 0, piece_of(1, 1, at::ones({million})));
  CHECK(a.wait_frames(1));
  constexpr std::int64_t part_of_a_record = 5000;
  between.stop_after(part_of_a_record);
  b.links.tensors->send(0, 0, piece_of(1, 2, at::ones({million})));
  CHECK(a.wait([&] { return !a.lost.empty(); }));
  CHECK(a.losses().at(0).second == "it was silent for 400 ms (run.silence)");
}

TEST_CASE("a visitor introduces itself only under the name in its certificate, whatever carries its messages") {
  const authority all;
  for (const auto control : {control_carrier::frames, control_carrier::caf})
    for (const bool own : {true, false}) {
      CAPTURE(own);
      const auto where = addresses(2);
      node a{0, where, {.channels = tls_channels(all.files("0")), .control = control}};
      node b{1, where, {.channels = tls_channels(all.files(own ? "1" : "0")), .control = control}};
      a.open();
      b.open();
      if (own) {
        CHECK(b.wait([&] { return !b.heard.empty(); }));
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds{300});  // time enough to join
        CHECK(b.wait([&] { return b.heard.empty(); }));
      }
    }
}

TEST_CASE("to write to a peer that has ended its session is an error") {
  const authority all;
  wire between;
  const auto accepted = tls_channels(all.files("0"))->accepted(between.ends[1]);
  visitor peer{all.files("1"), between.ends[0]};
  peer.meet(*accepted);
  SSL_shutdown(peer.session.get());
  ::close(between.ends[0]);
  between.ends[0] = -1;
  std::array<std::byte, 16> room{};
  CHECK(accepted->read(room) == 0);
  const auto count = accepted->write(bytes_of("head"), bytes_of("payload"));
  CHECK(count == -1);
  CHECK(errno == EPIPE);
}

TEST_CASE("keys change as often as they should, and when the peer asks for it") {
  const authority all;
  wire between;
  constexpr std::uint64_t records_per_key = 3;
  const auto accepted = tls_channels(all.files("0"), {.records_per_key = records_per_key})->accepted(between.ends[1]);
  visitor peer{all.files("1"), between.ends[0]};
  static int updates;
  updates = 0;
  SSL_set_msg_callback(peer.session.get(), [](int written, int, int type, const void* bytes, size_t, SSL*, void*) {
    constexpr unsigned char key_update = 24;
    if (written == 0 && type == SSL3_RT_HANDSHAKE && *static_cast<const unsigned char*>(bytes) == key_update) ++updates;
  });
  peer.meet(*accepted);
  const auto carry = [&](const std::string& text) {
    REQUIRE(accepted->write(bytes_of("head"), bytes_of(text)) == static_cast<std::ptrdiff_t>(4 + text.size()));
    std::array<char, 64> room{};
    const auto count = SSL_read(peer.session.get(), room.data(), static_cast<int>(room.size()));
    REQUIRE(count > 0);
    CHECK(std::string(room.data(), static_cast<std::size_t>(count)) == "head" + text);
  };
  for (int i = 0; i < 10; ++i) carry(std::to_string(i));
  CHECK(updates == 3);
  SSL_key_update(peer.session.get(), SSL_KEY_UPDATE_REQUESTED);
  REQUIRE(SSL_write(peer.session.get(), "hello", 5) == 5);
  std::array<std::byte, 16> room{};
  CHECK(accepted->read(room) == 5);
  carry("with a new key");
  CHECK(updates == 4);
}

TEST_CASE("a record that the socket does not take at once arrives whole, also when keys change") {
  const authority all;
  wire between;
  const auto accepted = tls_channels(all.files("0"), {.records_per_key = 1})->accepted(between.ends[1]);
  visitor peer{all.files("1"), between.ends[0]};
  peer.meet(*accepted);
  std::string sent, arrived, payload(100'000, ' ');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i % 251);
  int refused = 0;
  std::array<char, 3000> room{};
  while (arrived.size() < 20 * payload.size()) {
    while (sent.size() < 20 * payload.size()) {
      const auto at = sent.size() % payload.size();
      const auto count = accepted->write({}, bytes_of(std::string_view(payload).substr(at)));
      if (count < 0) {
        REQUIRE(errno == EAGAIN);
        ++refused;
        break;
      }
      sent += payload.substr(at, static_cast<std::size_t>(count));
    }
    for (int i = 0; i < 7; ++i) {
      const auto count = SSL_read(peer.session.get(), room.data(), static_cast<int>(room.size()));
      if (count <= 0) break;
      arrived.append(room.data(), static_cast<std::size_t>(count));
    }
  }
  CHECK(refused > 0);
  CHECK((arrived == sent));
}

TEST_CASE("nothing can be sent while a message of the protocol has arrived in part, and the channel says so") {
  const authority all;
  wire between;
  const auto dialled = tls_channels(all.files("1"))->dialled(between.ends[1], "0", plane::control);
  host peer{all.files("0"), between.ends[0]};
  bool done = false;
  for (int i = 0; i < 10 && SSL_is_init_finished(peer.session.get()) == 0; ++i) {
    done = dialled->shake_hands() == channel::progress::done;
    peer.turn();
    if (SSL_is_init_finished(peer.session.get()) == 0) peer.pass_on(peer.held.size());
  }
  REQUIRE(done);
  // The held bytes are a ticket in several records, which the client does not want.
  const auto first = 5 + 256 * static_cast<std::size_t>(static_cast<unsigned char>(peer.held.at(3))) +
                     static_cast<std::size_t>(static_cast<unsigned char>(peer.held.at(4)));
  REQUIRE(first < peer.held.size());
  std::array<std::byte, 16> room{};
  peer.pass_on(first);
  CHECK(dialled->read(room) == -1);
  CHECK(errno == EAGAIN);
  CHECK(dialled->write(bytes_of("head"), bytes_of("text")) == -1);
  CHECK(errno == EAGAIN);
  CHECK(dialled->needs_input());
  peer.pass_on(peer.held.size());
  CHECK(dialled->read(room) == -1);
  CHECK(dialled->write(bytes_of("head"), bytes_of("text")) == 8);
  CHECK(!dialled->needs_input());
}

}  // namespace transport_tls_test

// A stranger: a plain socket that can send anything to a node.
#pragma once

#include "tests/support/doctest.hpp"
#include "tests/support/linked_nodes.hpp"

#include "troupe/files/crc32c.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/transport/control.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace troupe::testing {

inline sockaddr_in address_of(const endpoint& where) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(where.port);
  ::inet_pton(AF_INET, where.host.c_str(), &address.sin_addr);
  return address;
}

/// A plain socket that can send anything to a node.
class stranger {
 public:
  explicit stranger(const endpoint& whom) : stranger() { dial(whom); }
  explicit stranger(int socket) : socket_(socket) {}
  stranger() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { REQUIRE(socket_ >= 0); }
  ~stranger() { ::close(socket_); }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  void dial(const endpoint& whom) {
    const auto address = address_of(whom);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  }

  void say(std::string_view words) { ::send(socket_, words.data(), words.size(), MSG_NOSIGNAL); }
  void say(std::span<const std::byte> bytes) { say({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }
  void greet(const transport::session_id& session, std::uint32_t node,
             transport::plane where = transport::plane::tensors) {
    say(transport::encode({.kind = transport::frame_kind::hello,
                           .to = node,
                           .which = {.place = static_cast<std::uint32_t>(where)},
                           .total = window,
                           .payload_bytes = session.size(),
                           .payload_crc = crc32c(session)}));
    say(session);
  }
  /// Asks to join as the node with this index.
  void introduce(std::uint32_t node) {
    greet({}, node, transport::plane::control);
    tell(control::introduction{.node = std::to_string(node)});
  }
  void tell(const control::message& what) {
    const auto bytes = control::encode(what);
    tell_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  /// Sends bytes in place of an encoded control message.
  void tell_bytes(std::string_view words) {
    say(transport::encode({.kind = transport::frame_kind::control,
                           .payload_bytes = words.size(),
                           .payload_crc = crc32c(std::as_bytes(std::span{words}))}));
    say(words);
  }

  /// Returns the next bytes that the other side sends.
  std::vector<std::byte> hear(std::size_t count) {
    std::vector<std::byte> bytes(count);
    REQUIRE(::recv(socket_, bytes.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count));
    return bytes;
  }
  /// Waits for the hello and the welcome of a first node.
  void wait_for_words() { hear(transport::header_bytes + 16 + transport::header_bytes + 25); }

  /// Returns whether the other side closes within `patience`. Discards what it sends meanwhile.
  bool is_left(std::chrono::milliseconds patience = std::chrono::seconds{10}) {
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

/// A socket that listens in place of a node.
class listener {
 public:
  explicit listener(const endpoint& where) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = address_of(where);
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(socket_, 8) == 0);
  }
  ~listener() { ::close(socket_); }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  int accept() { return ::accept(socket_, nullptr, nullptr); }

 private:
  int socket_;
};

}  // namespace troupe::testing

#include "troupe/net/channels/channel.hpp"

#include "troupe/net/channels/plain_channel.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace troupe::transport {

void channel::check(const std::string&, plane) const {}

void keep_alive(int socket) {
  constexpr int on = 1, seconds_idle = 10, seconds_between = 5, attempts = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds_idle, sizeof(seconds_idle));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds_between, sizeof(seconds_between));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &attempts, sizeof(attempts));
}

std::ptrdiff_t plain_channel::read(std::span<std::byte> room) {
  return ::recv(socket_, room.data(), room.size(), MSG_DONTWAIT);
}

std::ptrdiff_t plain_channel::write(std::span<const std::byte> header, std::span<const std::byte> payload) {
  iovec pieces[2] = {{const_cast<std::byte*>(header.data()), header.size()},
                     {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  return ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

namespace {

struct plain_channel_factory final : channel_factory {
  std::unique_ptr<channel> accepted(int socket) const override { return std::make_unique<plain_channel>(socket); }
  std::unique_ptr<channel> dialled(int socket, const std::string&, plane) const override { return accepted(socket); }
};

}  // namespace

std::shared_ptr<const channel_factory> plain_channels() {
  return std::make_shared<plain_channel_factory>();
}

}  // namespace troupe::transport

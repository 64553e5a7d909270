// A channel that passes bytes on as they are.
#pragma once

#include "troupe/net/channels/channel.hpp"

namespace troupe::transport {

class plain_channel : public channel {
 public:
  explicit plain_channel(int socket) : socket_(socket) {}
  std::ptrdiff_t read(std::span<std::byte> room) override;
  std::ptrdiff_t write(std::span<const std::byte> header, std::span<const std::byte> payload) override;

 protected:
  int socket() const { return socket_; }

 private:
  int socket_;
};

}  // namespace troupe::transport

// A guest that has connected to a node. Only sources that use Asio include this header.
#pragma once

#include "troupe/net/channels/channel.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <string>

namespace troupe::transport {

/// The connection of a guest whose handshake is complete.
struct guest_arrival {
  std::shared_ptr<boost::asio::io_context> io;  ///< The node's, whose one thread has handed over the guest.
  boost::asio::ip::tcp::socket socket;
  std::unique_ptr<channel> bytes;
  std::string host;  ///< The address from which the guest has dialled.
};

}  // namespace troupe::transport

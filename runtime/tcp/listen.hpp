// Listening on an address. Only source files that use Asio include this header.
#pragma once

#include "troupe/net/channels/endpoint.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace troupe::transport {

/// Returns an acceptor that listens on the first address of the host. Throws input_error if it cannot.
boost::asio::ip::tcp::acceptor listen_on(boost::asio::io_context& io, const endpoint& where);

/// Returns whether a process of this host can listen on the host of this address.
bool is_of_this_host(const endpoint& where);

}  // namespace troupe::transport

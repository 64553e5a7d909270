#include "troupe/runtime/transport/listen.hpp"

#include "troupe/runtime/topology/error.hpp"

#include <string>

namespace troupe::transport {

using tcp = boost::asio::ip::tcp;

tcp::acceptor listen_on(boost::asio::io_context& io, const topology::endpoint& where) try {
  const auto found = tcp::resolver{io}.resolve(where.host, std::to_string(where.port));
  const auto endpoint = found.begin()->endpoint();
  if (!endpoint.address().is_loopback())
    throw input_error(topology::print_endpoint(where) +
                      " is not a loopback address, and connections between hosts are not encrypted yet; expected "
                      "a loopback address such as 127.0.0.1");
  return tcp::acceptor{io, endpoint};
} catch (const boost::system::system_error& problem) {
  throw input_error("cannot listen on " + topology::print_endpoint(where) + " (" + problem.code().message() +
                    "); expected a free port");
}

}  // namespace troupe::transport

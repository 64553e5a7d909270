#include "troupe/runtime/tcp/listen.hpp"

#include "troupe/files/error.hpp"

#include <string>

namespace troupe::transport {

using tcp = boost::asio::ip::tcp;

tcp::acceptor listen_on(boost::asio::io_context& io, const endpoint& where) try {
  const auto resolved = tcp::resolver{io}.resolve(where.host, std::to_string(where.port));
  const auto endpoint = resolved.begin()->endpoint();
  return tcp::acceptor{io, endpoint};
} catch (const boost::system::system_error& problem) {
  throw input_error("cannot listen on " + print_endpoint(where) + " (" + problem.code().message() +
                    "); expected a free port of an address of this host");
}

bool is_of_this_host(const endpoint& where) {
  boost::asio::io_context io;
  boost::system::error_code error;
  const auto resolved = tcp::resolver{io}.resolve(where.host, "0", error);
  if (error) return false;
  tcp::acceptor any{io};
  any.open(resolved.begin()->endpoint().protocol(), error);
  any.bind(resolved.begin()->endpoint(), error);
  return !error;
}

}  // namespace troupe::transport

#include "troupe/runtime/tcp/free_ports.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/tcp/listen.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <string>
#include <unistd.h>
#include <vector>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

// Below the ports that systems assign to outgoing connections, so that no such connection takes one of these.
constexpr int first_port = 20000, ports = 12000, tries = 400;

/// Processes that search concurrently start at different ports, because a port is only reserved while it is held.
constexpr int ports_of_a_process = 32;

}  // namespace

struct free_ports::held {
  asio::io_context io;
  std::vector<tcp::acceptor> taken;
  int next = ::getpid() * ports_of_a_process % ports;
};

free_ports::free_ports() : held_(std::make_unique<held>()) {}

free_ports::~free_ports() = default;

std::uint16_t free_ports::next(const std::string& host) {
  boost::system::error_code error;
  const auto resolved = tcp::resolver{held_->io}.resolve(host, "0", error);
  if (!error) {
    const auto address = resolved.begin()->endpoint().address();
    for (int i = 0; i < tries; ++i) {
      const auto port = static_cast<std::uint16_t>(first_port + held_->next);
      held_->next = (held_->next + 1) % ports;
      try {
        held_->taken.emplace_back(held_->io, tcp::endpoint{address, port});
        return port;
      } catch (const boost::system::system_error&) {
      }
    }
  }
  throw input_error("cannot find a free port on " + host + "; expected a port in the address of each [[node]]");
}

void check_free(const endpoint& listen) {
  asio::io_context io;
  listen_on(io, listen);
}

}  // namespace troupe::transport

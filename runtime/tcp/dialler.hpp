// Dials addresses until they answer. Everything happens on the io thread, or while it does not run.
#pragma once

#include "troupe/net/channels/endpoint.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::transport {

class dialler {
 public:
  /// Each attempt to connect is abandoned after `patience`, and another one follows.
  dialler(std::shared_ptr<boost::asio::io_context> io, std::chrono::milliseconds patience)
      : io_(std::move(io)), patience_(patience) {}

  /// Called with a connected socket.
  using connected = std::function<void(boost::asio::ip::tcp::socket)>;

  /// Dials an address after `delay`, and again until it answers or `wanted()` returns false.
  void dial(const endpoint& address, std::chrono::milliseconds delay, std::function<bool()> wanted, connected next);

  /// Ends all attempts.
  void close();

 private:
  struct attempt;
  void resolve(const std::shared_ptr<attempt>& one);
  void connect(const std::shared_ptr<attempt>& one, const std::vector<boost::asio::ip::tcp::endpoint>& found);
  void retry(const std::shared_ptr<attempt>& one, std::chrono::milliseconds delay);

  std::shared_ptr<boost::asio::io_context> io_;
  std::chrono::milliseconds patience_;
  std::vector<std::shared_ptr<attempt>> attempts_;
  bool closed_{false};
};

}  // namespace troupe::transport

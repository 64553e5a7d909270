#include "troupe/runtime/tcp/dialler.hpp"

#include "troupe/runtime/transport/links.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Returns the addresses of a host, or none if the lookup fails.
std::vector<tcp::endpoint> endpoints_of(const std::string& host, std::uint16_t port) try {
  asio::io_context own;
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : tcp::resolver{own}.resolve(host, std::to_string(port))) endpoints.push_back(entry);
  return endpoints;
} catch (const std::exception&) {
  return {};
}

}  // namespace

struct dialler::attempt {
  explicit attempt(asio::io_context& io) : socket(io), timer(io) {}
  tcp::socket socket;
  asio::steady_timer timer;  ///< Limits an attempt to connect, and then the time until the next one.
  endpoint address;
  std::function<bool()> wanted;
  connected next;
};

void dialler::dial(const endpoint& address, std::chrono::milliseconds delay, std::function<bool()> wanted,
                   connected next) {
  const auto pending = std::make_shared<attempt>(*io_);
  pending->address = address;
  pending->wanted = std::move(wanted);
  pending->next = std::move(next);
  attempts_.push_back(pending);
  if (delay.count() > 0) return retry(pending, delay);
  resolve(pending);
}

void dialler::close() {
  closed_ = true;
  error_code ignored;
  for (const auto& pending : attempts_) {
    pending->socket.close(ignored);
    pending->timer.cancel();
  }
}

void dialler::resolve(const std::shared_ptr<attempt>& one) try {
  const auto& [host, port] = one->address;
  error_code is_name;
  if (const auto address = asio::ip::make_address(host, is_name); !is_name)
    return connect(one, {tcp::endpoint{address, port}});
  // Looking up a name cannot be cancelled and may take half a minute. Nothing waits for this thread, so it uses only
  // data of its own.
  std::thread{[this, host = host, port = port, weak = std::weak_ptr(one), io = std::weak_ptr(io_)] {
    const auto endpoints = endpoints_of(host, port);
    const auto to = io.lock();
    if (!to) return;
    asio::post(*to, [this, weak, endpoints] {  // on a thread that ends before this dialler
      const auto pending = weak.lock();
      if (!pending || closed_) return;
      if (endpoints.empty()) return retry(pending, between_dials);
      connect(pending, endpoints);
    });
  }}.detach();
} catch (const std::system_error&) {  // no thread could be started
  retry(one, between_dials);
}

void dialler::connect(const std::shared_ptr<attempt>& one, const std::vector<tcp::endpoint>& found) {
  one->timer.expires_after(patience_);
  one->timer.async_wait([one](error_code cancelled) {
    error_code ignored;
    if (!cancelled) one->socket.close(ignored);
  });
  asio::async_connect(one->socket, found, [this, one](error_code failed, const tcp::endpoint&) {
    if (closed_) return;
    one->timer.cancel();
    if (failed || !one->socket.is_open()) return retry(one, between_dials);
    std::erase(attempts_, one);
    one->next(std::move(one->socket));
  });
}

void dialler::retry(const std::shared_ptr<attempt>& one, std::chrono::milliseconds delay) {
  one->timer.expires_after(delay);
  one->timer.async_wait([this, one](error_code error) {
    if (error || closed_) return;
    if (one->wanted()) return resolve(one);
    std::erase(attempts_, one);
  });
}

}  // namespace troupe::transport

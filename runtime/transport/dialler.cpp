#include "troupe/runtime/transport/dialler.hpp"

#include "troupe/runtime/transport/links.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>

#include <string>
#include <utility>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

struct dialler::attempt {
  explicit attempt(asio::io_context& io) : resolver(io), socket(io), timer(io) {}
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;  ///< Limits an attempt to connect, and then the time until the next one.
  topology::endpoint address;
  std::function<bool()> wanted;
  connected next;
};

void dialler::dial(const topology::endpoint& address, std::chrono::milliseconds delay, std::function<bool()> wanted,
                   connected next) {
  const auto one = std::make_shared<attempt>(io_);
  one->address = address;
  one->wanted = std::move(wanted);
  one->next = std::move(next);
  attempts_.push_back(one);
  if (delay.count() > 0) return retry(one, delay);
  resolve(one);
}

void dialler::close() {
  closed_ = true;
  error_code ignored;
  for (const auto& one : attempts_) {
    one->resolver.cancel();
    one->socket.close(ignored);
    one->timer.cancel();
  }
}

void dialler::resolve(const std::shared_ptr<attempt>& one) {
  one->resolver.async_resolve(one->address.host, std::to_string(one->address.port),
                              [this, one](error_code error, const tcp::resolver::results_type& found) {
                                if (closed_) return;
                                if (error) return retry(one, between_dials);
                                one->timer.expires_after(patience_);
                                one->timer.async_wait([one](error_code cancelled) {
                                  error_code ignored;
                                  if (!cancelled) one->socket.close(ignored);
                                });
                                asio::async_connect(one->socket, found,
                                                    [this, one](error_code failed, const tcp::endpoint&) {
                                                      if (closed_) return;
                                                      one->timer.cancel();
                                                      if (failed || !one->socket.is_open())
                                                        return retry(one, between_dials);
                                                      std::erase(attempts_, one);
                                                      one->next(std::move(one->socket));
                                                    });
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

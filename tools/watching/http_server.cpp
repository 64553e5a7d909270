#include "troupe/tools/watching/http_server.hpp"

#include "troupe/files/error.hpp"
#include "troupe/tools/watching/http_text.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::watching {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto between_updates = 500ms;
constexpr auto keepalive_interval = 15s;     ///< A client that has left is noticed after this time at the latest.
constexpr auto after_refusal = 5ms;          ///< Pause after a connection was closed because there were too many.
constexpr auto last_update_timeout = 300ms;  ///< Time for the last update to be sent.
constexpr auto to_close = 1s;                ///< Time for a client to close after its answer.
constexpr std::size_t ignored_bytes_max = 1u << 16u;

/// A connection: reads one request, answers it, and follows the run if that was requested.
class connection : public std::enable_shared_from_this<connection> {
 public:
  /// The part of the server that a connection needs.
  struct surroundings {
    site& served;
    const server_limits& limits;
    std::function<void(connection&)> closed, followed;
  };

  connection(tcp::socket socket, surroundings& around) : around_(around), stream_(std::move(socket)) { limit(parser_); }

  void start() {
    stream_.expires_after(around_.limits.to_ask);
    beast::http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->take_request(error); });
  }

  feed follows() const { return follows_; }
  bool is_busy() const { return busy_; }

  /// Sends text after the text that is being sent. If several texts wait, only the last one is sent.
  void send(std::string text) {
    if (closed_) return;
    if (busy_) {
      next_ = std::move(text);
      return;
    }
    busy_ = true;
    sending_ = std::move(text);
    stream_.expires_after(around_.limits.to_receive);
    asio::async_write(stream_, asio::buffer(sending_),
                      [self = shared_from_this()](const error_code& error, std::size_t) { self->take_sent(error); });
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    stream_.close();
    around_.closed(*this);
  }

 private:
  void take_request(const error_code& error) {
    static const auto& of_parser = beast::http::make_error_code(beast::http::error::bad_method).category();
    const bool has_left = error && error.category() != of_parser;  // or was too slow
    auto text = has_left || closed_ ? std::string() : answer_to(parser_, error, around_.served, follows_);
    if (text.empty()) return close();
    if (follows_ != feed::none) around_.followed(*this);
    if (!closed_) send(std::move(text));
  }

  void take_sent(const error_code& error) {
    busy_ = false;
    if (error) return close();
    sending_.clear();
    if (!next_.empty()) return send(std::exchange(next_, {}));
    if (follows_ != feed::none) return;
    // Closing with unread bytes would reset the connection, and the client might not see the answer.
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(to_close);
    ignore_rest();
  }

  void ignore_rest() {
    stream_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                              self->ignored_ += bytes;
                              if (error || self->ignored_ > ignored_bytes_max) return self->close();
                              self->ignore_rest();
                            });
  }

  surroundings& around_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{header_bytes_max};
  request_parser parser_;
  std::string sending_, next_;
  std::array<char, 1024> rest_{};
  std::size_t ignored_{0};
  feed follows_{feed::none};
  bool busy_{false}, closed_{false};
};

tcp::acceptor acceptor_at(asio::io_context& io, const endpoint& where) try {
  const auto endpoints = tcp::resolver{io}.resolve(where.host, std::to_string(where.port));
  return tcp::acceptor{io, endpoints.begin()->endpoint()};
} catch (const boost::system::system_error& problem) {
  throw input_error("--dashboard: cannot listen on " + print_endpoint(where) + " (" + problem.code().message() +
                    "); expected a free port of an address of this host, or port 0 for any free port");
}

}  // namespace

class http_server::server {
 public:
  server(const endpoint& where, site served, const server_limits& limits)
      : served_(std::move(served)),
        limits_(limits),
        acceptor_(acceptor_at(io_, where)),
        update_timer_(io_),
        pause_(io_) {
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { run(); });
  }

  ~server() {
    asio::post(io_, [this] { end(); });
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

 private:
  using connections = std::list<std::shared_ptr<connection>>;

  /// The text that was last sent to the followers of a feed, and when.
  struct sent_update {
    std::string text{};
    std::chrono::steady_clock::time_point at{};
  };

  static bool follows(const std::shared_ptr<connection>& client) { return client->follows() != feed::none; }

  void run() {
    constexpr int niceness = 10;  // training comes first
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), niceness);
    ::pthread_setname_np(::pthread_self(), "dashboard");
    io_.run();
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (ending_) return;
      if (error) return accept_later(100ms);  // no file descriptors, for example
      const bool full = open_.size() >= limits_.connections;
      if (full) close_oldest();
      open_.push_back(std::make_shared<connection>(std::move(socket), around_));
      open_.back()->start();
      if (full)
        accept_later(after_refusal);
      else
        accept();
    });
  }

  void accept_later(std::chrono::milliseconds when) {
    pause_.expires_after(when);
    pause_.async_wait([this](const error_code& error) {
      if (!error) accept();
    });
  }

  /// Closes the oldest connection that does not follow a feed, or the oldest of all if each follows one.
  void close_oldest() {
    const auto not_following = std::find_if_not(open_.begin(), open_.end(), follows);
    const auto oldest = not_following == open_.end() ? open_.front() : *not_following;
    oldest->close();
  }

  void take_closed(connection& closed) {
    open_.remove_if([&](const auto& client) { return client.get() == &closed; });
    if (ending_ && open_.empty()) io_.stop();
  }

  /// Handles a new follower, which receives updates from now on.
  void take_follower(connection& follower) {
    if (static_cast<std::size_t>(std::count_if(open_.begin(), open_.end(), follows)) > limits_.followers) {
      const auto oldest = *std::find_if(open_.begin(), open_.end(), follows);
      oldest->close();
      if (oldest.get() == &follower) return;
    }
    sent_.at(follower.follows()).at = std::chrono::steady_clock::now();
    if (!std::exchange(updating_, true)) send_updates();
  }

  /// Sends updates while a client follows. Nothing is made for feeds without followers.
  void send_updates() {
    update_timer_.expires_after(between_updates);
    update_timer_.async_wait([this](const error_code& error) {
      if (error || ending_) return;
      for (auto& [kind, sent] : sent_) {
        if (!has_followers(kind)) continue;
        const auto& update = served_.update(kind);
        if (update != sent.text)
          send_to_followers(kind, sent.text = update);
        else if (std::chrono::steady_clock::now() - sent.at > keepalive_interval)
          send_to_followers(kind, ": still there\n\n");
      }
      updating_ = std::any_of(open_.begin(), open_.end(), follows);
      if (updating_) send_updates();
    });
  }

  bool has_followers(feed of) const {
    return std::any_of(open_.begin(), open_.end(), [of](const auto& client) { return client->follows() == of; });
  }

  void send_to_followers(feed of, const std::string& text) {
    sent_.at(of).at = std::chrono::steady_clock::now();
    for (const auto& client : connections(open_))
      if (client->follows() == of) client->send(text);
  }

  /// Sends the last update to followers, closes the other connections, and ends the thread.
  void end() {
    ending_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (const auto& client : connections(open_))
      if (!follows(client)) client->close();
    if (open_.empty()) return io_.stop();
    for (const auto& [kind, sent] : sent_)
      if (has_followers(kind)) send_to_followers(kind, served_.last_update(kind));
    update_timer_.expires_after(last_update_timeout);
    update_timer_.async_wait([this](const error_code&) { io_.stop(); });
    end_when_sent();
  }

  /// Ends as soon as every follower has its last update, without waiting for the whole timeout.
  void end_when_sent() {
    const bool sending = std::any_of(open_.begin(), open_.end(), [](const auto& client) { return client->is_busy(); });
    if (!sending) return io_.stop();
    pause_.expires_after(5ms);
    pause_.async_wait([this](const error_code&) { end_when_sent(); });
  }

  site served_;
  server_limits limits_;
  asio::io_context io_{1};
  connections open_;  ///< In the order in which they were opened.
  connection::surroundings around_{served_, limits_, [this](connection& client) { take_closed(client); },
                                   [this](connection& client) { take_follower(client); }};
  tcp::acceptor acceptor_;
  asio::steady_timer update_timer_, pause_;
  std::uint16_t port_{0};
  bool updating_{false}, ending_{false};
  std::map<feed, sent_update> sent_{{feed::page, {}}, {feed::data, {}}};
  std::thread thread_;
};

http_server::http_server(const endpoint& where, site served, const server_limits& limits)
    : server_(std::make_unique<server>(where, std::move(served), limits)) {}

http_server::~http_server() = default;

std::uint16_t http_server::port() const {
  return server_->port();
}

}  // namespace troupe::watching

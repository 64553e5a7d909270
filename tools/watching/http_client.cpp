#include "troupe/tools/watching/http_client.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace troupe::watching {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t response_header_bytes_max = 8192, token_bytes_max = 256;
constexpr milliseconds between_questions{100};
constexpr auto* where_to_look = "expected the address that a run with --dashboard has printed";

/// Returns whether a token can be part of a request as it is.
bool is_plain(std::string_view token) {
  return token.size() <= token_bytes_max && std::all_of(token.begin(), token.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
         });
}

/// One request and its answer.
class exchange {
 public:
  exchange(const dashboard_address& to, const keep_on& goes_on, const client_limits& limits)
      : to_(to), goes_on_(goes_on), limits_(limits), stream_(io_) {
    parser_.header_limit(response_header_bytes_max);
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());  // bodies are limited as they are read
  }

  /// Sends the request and reads the header of the answer. Returns false if it was interrupted.
  bool ask(const std::string& path);

  /// Passes the body to `take` in pieces until it ends. Each piece must arrive within `limit`, and all of them within
  /// `in_total`. Returns false if it was interrupted.
  bool read(milliseconds limit, milliseconds in_total, const std::function<void(std::string_view)>& take);

 private:
  /// Runs an operation: `start` is given the function to call with its result. Returns false if it was interrupted.
  template <class Start>
  bool run(milliseconds limit, Start start);
  void check_status() const;

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(print_endpoint(to_.where) + ": " + what);
  }

  const dashboard_address& to_;
  const keep_on& goes_on_;
  const client_limits& limits_;
  asio::io_context io_{1};
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_{1u << 16u};
  http::response_parser<http::buffer_body> parser_;
  error_code result_;
};

template <class Start>
bool exchange::run(milliseconds limit, Start start) {
  bool done = false;
  start([&](const error_code& error) {
    result_ = error;
    done = true;
  });
  const auto close = [&] {
    stream_.close();
    io_.restart();
    io_.run();  // the operation still refers to this frame
  };
  const auto deadline = steady_clock::now() + limit;
  while (!done) {
    io_.restart();
    io_.run_one_for(between_questions);
    if (done) break;
    if (goes_on_ && !goes_on_()) return close(), false;
    if (steady_clock::now() < deadline) continue;
    close();
    fail("no answer within " + std::to_string(limit.count() / 1000) + " seconds; " + where_to_look);
  }
  return !goes_on_ || goes_on_();
}

bool exchange::ask(const std::string& path) {
  const auto& where = to_.where;
  error_code unknown;
  const auto endpoints = tcp::resolver{io_}.resolve(where.host, std::to_string(where.port), unknown);
  if (unknown) fail("there is no host of this name (" + unknown.message() + "); " + where_to_look);
  const auto connected = run(limits_.to_answer, [&](auto done) {
    asio::async_connect(stream_.socket(), endpoints,
                        [done](const error_code& error, const tcp::endpoint&) { done(error); });
  });
  if (!connected) return false;
  if (result_)
    fail("cannot connect (" + result_.message() +
         "); start a run with --dashboard, or give the address that it has printed");
  const auto text = "GET " + path + " HTTP/1.1\r\nHost: " + print_endpoint(where) +
                    "\r\nUser-Agent: troupe top\r\nConnection: close\r\n" +
                    (to_.token.empty() ? "" : "Authorization: Bearer " + to_.token + "\r\n") + "\r\n";
  const auto sent = run(limits_.to_answer, [&](auto done) {
    asio::async_write(stream_, asio::buffer(text), [done](const error_code& error, std::size_t) { done(error); });
  });
  if (!sent) return false;
  const auto answered = !result_ && run(limits_.to_answer, [&](auto done) {
    http::async_read_header(stream_, buffer_, parser_, [done](const error_code& error, std::size_t) { done(error); });
  });
  if (result_) fail("this is not the dashboard of a run (" + result_.message() + "); " + where_to_look);
  if (answered) check_status();
  return answered;
}

void exchange::check_status() const {
  switch (parser_.get().result_int()) {
    case 200:
      return;
    case 401:
      fail("the token is missing or wrong; expected the whole URL that the run has printed, in quotes");
    case 421:
      fail("this dashboard is served to its own host only; give its address as 127.0.0.1:" +
           std::to_string(to_.where.port));
    default:
      fail("this is not the dashboard of a run (status " + std::to_string(parser_.get().result_int()) + "); " +
           where_to_look);
  }
}

bool exchange::read(milliseconds limit, milliseconds in_total, const std::function<void(std::string_view)>& take) {
  const auto deadline = steady_clock::now() + in_total;
  std::array<char, 1u << 14u> piece{};
  while (!parser_.is_done()) {
    auto& body = parser_.get().body();
    body.data = piece.data();
    body.size = piece.size();
    const auto read = run(limit, [&](auto done) {
      http::async_read_some(stream_, buffer_, parser_, [done](const error_code& error, std::size_t) { done(error); });
    });
    if (!read) return false;
    take({piece.data(), piece.size() - body.size});
    if (result_ && result_ != http::error::need_buffer) return true;  // the other side is gone
    if (steady_clock::now() > deadline) fail(std::string("the answer does not end; ") + where_to_look);
  }
  return true;
}

}  // namespace

std::optional<dashboard_address> parse_dashboard_address(std::string_view text) {
  constexpr std::string_view scheme = "http://", query = "?token=";
  if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  const auto end = std::min(text.find_first_of("/?"), text.size());
  const auto where = parse_endpoint(text.substr(0, end));
  text.remove_prefix(end);
  if (text.starts_with('/')) text.remove_prefix(1);
  if (!where || where->port == 0) return {};
  if (text.empty()) return dashboard_address{.where = *where};
  if (!text.starts_with(query) || !is_plain(text.substr(query.size()))) return {};
  return dashboard_address{.where = *where, .token = std::string(text.substr(query.size()))};
}

std::optional<std::string> fetch(const dashboard_address& from, const std::string& path, const keep_on& goes_on,
                                 const client_limits& limits) {
  exchange request(from, goes_on, limits);
  std::string body;
  const auto add = [&](std::string_view piece) {
    body += piece;
    if (body.size() > limits.bytes)
      throw std::runtime_error(print_endpoint(from.where) + ": the answer is too long; " + where_to_look);
  };
  if (!request.ask(path) || !request.read(limits.to_answer, limits.to_answer, add)) return {};
  return body;
}

void follow(const dashboard_address& from, const std::string& path, const std::function<void(std::string_view)>& take,
            const keep_on& goes_on, const client_limits& limits) {
  exchange request(from, goes_on, limits);
  if (!request.ask(path)) return;
  event_reader events(limits.bytes);
  request.read(limits.silence, std::chrono::hours(24 * 365), [&](std::string_view piece) {
    try {
      for (const auto& event : events.read(piece)) take(event);
    } catch (const std::length_error&) {
      throw std::runtime_error(print_endpoint(from.where) + ": the answer is too long; " + where_to_look);
    }
  });
}

std::vector<std::string> event_reader::read(std::string_view bytes) {
  std::vector<std::string> complete;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > bytes_max_) throw std::length_error("an event is too long");
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    take_line(complete);
  }
  return complete;
}

void event_reader::take_line(std::vector<std::string>& complete) {
  constexpr std::string_view field = "data:";
  if (line_.ends_with('\r')) line_.pop_back();
  if (line_.empty() && !data_.empty()) {
    complete.push_back(std::move(data_));
    data_.clear();
  } else if (line_.starts_with(field)) {
    const auto value = std::string_view(line_).substr(field.size() + (line_.starts_with("data: ") ? 1 : 0));
    if (!data_.empty()) data_ += '\n';
    data_ += value;
  }
  line_.clear();
}

}  // namespace troupe::watching

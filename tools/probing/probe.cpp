#include "troupe/tools/probing/probe.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/tcp/listen.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

// Each side sends `greeting`. Then the one that measures sends requests of two numbers, little-endian: what, and how
// many bytes. An echo returns the request. After `send` the bytes follow, and after them, from the other side, their
// number from the first quarter on and the nanoseconds in which these arrived. After `receive` they come from the other
// side.

namespace troupe::probing {

namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::array<char, 16> greeting{'t', 'r', 'o', 'u', 'p', 'e', ' ',  'p',
                                        'r', 'o', 'b', 'e', ' ', '1', '\r', '\n'};
constexpr std::size_t block = 1u << 16u;
constexpr std::uint64_t first_transfer = 1u << 14u;
constexpr int echoes = 30;

enum class kind : std::uint64_t { echo = 1, send, receive };
using numbers = std::array<std::uint64_t, 2>;

static_assert(std::endian::native == std::endian::little, "numbers are sent as they are in memory");

/// Returns bytes that no device on the way can compress.
std::vector<std::uint64_t> noise() {
  std::vector<std::uint64_t> values(block / sizeof(std::uint64_t));
  std::mt19937_64 draws;  // NOLINT(*-msc51-cpp)
  std::generate(values.begin(), values.end(), std::ref(draws));
  return values;
}

/// What has arrived of a transfer after its first quarter, in which a connection speeds up.
struct arrival {
  std::uint64_t bytes{0};
  nanoseconds took{0};
};

/// A connection whose operations end by themselves after `silence`. They throw boost::system::system_error.
class line {
 public:
  line(asio::io_context& io, std::chrono::milliseconds silence) : io_(io), stream_(io), silence_(silence) {}

  tcp::socket& socket() { return stream_.socket(); }

  void connect(const endpoint& to) {
    const auto found = tcp::resolver{io_}.resolve(to.host, std::to_string(to.port));
    finish([&](auto done) {
      stream_.async_connect(found, [done](const error_code& error, const tcp::endpoint&) { done(error, 0); });
    });
  }

  void greet() {
    socket().set_option(tcp::no_delay(true));
    write(asio::buffer(greeting));
    auto heard = greeting;
    heard.fill(0);
    read(asio::buffer(heard));
    if (heard != greeting) throw std::runtime_error("it answers with something else");
  }

  void say(const numbers& values) { write(asio::buffer(values)); }

  numbers hear() {
    numbers values{};
    read(asio::buffer(values));
    return values;
  }

  void send(std::uint64_t bytes) {
    static const auto content = noise();
    for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, block))
      write(asio::buffer(content.data(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, block))));
  }

  arrival receive(std::uint64_t bytes) {
    std::vector<char> content(block);
    std::uint64_t arrived = 0, before = 0;
    steady_clock::time_point begin;
    while (arrived < bytes) {
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - arrived, block));
      arrived += finish([&](auto done) { stream_.async_read_some(asio::buffer(content.data(), most), done); });
      if (before == 0 && arrived >= bytes / 4) {
        before = arrived;
        begin = steady_clock::now();
      }
    }
    return {.bytes = bytes - before, .took = std::max(nanoseconds{1}, nanoseconds{steady_clock::now() - begin})};
  }

 private:
  template <class Buffers>
  void write(const Buffers& buffers) {
    finish([&](auto done) { asio::async_write(stream_, buffers, done); });
  }

  template <class Buffers>
  void read(const Buffers& buffers) {
    finish([&](auto done) { asio::async_read(stream_, buffers, done); });
  }

  /// Runs an operation: `start` is given the function to call with its result. Returns the number of bytes.
  template <class Start>
  std::size_t finish(Start start) {
    std::pair<error_code, std::size_t> result;
    stream_.expires_after(silence_);
    start([&](const error_code& error, std::size_t bytes) { result = {error, bytes}; });
    io_.restart();
    io_.run();
    if (result.first) throw boost::system::system_error(result.first);
    return result.second;
  }

  asio::io_context& io_;
  boost::beast::tcp_stream stream_;
  std::chrono::milliseconds silence_;
};

void measure_delays(line& with, measured_link& found) {
  std::vector<nanoseconds> took;
  for (std::uint64_t i = 0; i < echoes; ++i) {
    const numbers request{static_cast<std::uint64_t>(kind::echo), i};
    const auto begin = steady_clock::now();
    with.say(request);
    if (with.hear() != request) throw std::runtime_error("it answers with something else");
    took.emplace_back(steady_clock::now() - begin);
  }
  std::sort(took.begin(), took.end());
  const auto most = took[took.size() * 9 / 10];
  found.latency = std::chrono::duration_cast<std::chrono::microseconds>(took.front() / 2);
  found.jitter = std::chrono::duration_cast<std::chrono::microseconds>((most - took.front()) / 2);
}

/// Returns the bytes per second of transfers that become larger until they are precise.
double rate_of(const probe_limits& limits, const std::function<arrival(std::uint64_t)>& transfer) {
  for (auto bytes = std::min(first_transfer, limits.bytes);; bytes = std::min(4 * bytes, limits.bytes)) {
    const auto arrived = transfer(bytes);
    if (arrived.bytes > bytes || arrived.took <= nanoseconds{0})
      throw std::runtime_error("it answers with something else");
    if (arrived.took < limits.enough && bytes < limits.bytes) continue;
    const auto rate = static_cast<double>(arrived.bytes) / std::chrono::duration<double>(arrived.took).count();
    constexpr double no_network = 1e12;  // bytes per second
    if (arrived.bytes == 0 || rate > no_network) throw std::runtime_error("it answers with something else");
    return rate;
  }
}

void answer(line& with, const probe_limits& limits) {
  with.greet();
  for (;;) {
    const auto request = with.hear();
    const auto [what, bytes] = request;
    if (what != static_cast<std::uint64_t>(kind::echo) && bytes > limits.bytes)
      throw std::runtime_error("it asked for " + std::to_string(bytes) + " bytes");
    switch (static_cast<kind>(what)) {
      case kind::echo:
        with.say(request);
        break;
      case kind::send: {
        const auto arrived = with.receive(bytes);
        with.say({arrived.bytes, static_cast<std::uint64_t>(arrived.took.count())});
        break;
      }
      case kind::receive:
        with.send(bytes);
        break;
      default:
        throw std::runtime_error("it sent something else");
    }
  }
}

std::string reason_of(const boost::system::system_error& problem, const probe_limits& limits) {
  if (problem.code() == boost::beast::error::timeout)
    return "nothing arrived for " + topology::print_duration(limits.silence);
  return problem.code().message();
}

}  // namespace

measured_link measure(const endpoint& to, const probe_limits& limits) {
  const auto fail = [&](const std::string& why) {
    return input_error("cannot measure the network to " + print_endpoint(to) + " (" + why +
                       "); run `troupe tune --listen " + print_endpoint(to) + "` on that machine");
  };
  try {
    asio::io_context io{1};
    line with(io, limits.silence);
    with.connect(to);
    with.greet();
    measured_link found;
    measure_delays(with, found);
    found.to = rate_of(limits, [&](std::uint64_t bytes) {
      with.say({static_cast<std::uint64_t>(kind::send), bytes});
      with.send(bytes);
      const auto [arrived, took] = with.hear();
      return arrival{.bytes = arrived, .took = nanoseconds{took}};
    });
    found.from = rate_of(limits, [&](std::uint64_t bytes) {
      with.say({static_cast<std::uint64_t>(kind::receive), bytes});
      return with.receive(bytes);
    });
    return found;
  } catch (const boost::system::system_error& problem) {
    throw fail(reason_of(problem, limits));
  } catch (const input_error&) {
    throw;
  } catch (const std::runtime_error& problem) {
    throw fail(problem.what());
  }
}

struct answerer::parts {
  parts(const endpoint& where, const probe_limits& limits)
      : acceptor(transport::listen_on(io, where)), limits(limits) {}

  asio::io_context io{1};
  tcp::acceptor acceptor;
  probe_limits limits;
};

answerer::answerer(const endpoint& where, const probe_limits& limits)
    : parts_(std::make_unique<parts>(where, limits)) {}
answerer::~answerer() = default;

std::uint16_t answerer::port() const {
  return parts_->acceptor.local_endpoint().port();
}

answerer::served answerer::answer_one() {
  line with(parts_->io, parts_->limits.silence);
  tcp::endpoint from;
  parts_->acceptor.accept(with.socket(), from);
  served result{.address = print_endpoint({.host = from.address().to_string(), .port = from.port()})};
  try {
    answer(with, parts_->limits);
  } catch (const boost::system::system_error& problem) {
    if (problem.code() != asio::error::eof) result.problem = reason_of(problem, parts_->limits);
  } catch (const std::runtime_error& problem) {
    result.problem = problem.what();
  }
  return result;
}

}  // namespace troupe::probing

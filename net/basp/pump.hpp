// Moves bytes between an identified connection and CAF. CAF reads and writes one end of a pair of local sockets; the
// pump has the other end, and passes on what the gate allows. Everything happens on the io thread. Only sources that
// use Asio include this header.
#pragma once

#include "troupe/net/basp/gate.hpp"
#include "troupe/net/channels/channel.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::basp {

/// How much the other side may send. Beyond that, it waits.
struct pump_limits {
  std::uint64_t bytes_per_second{0};     ///< 0 for no limit; a second's worth may arrive at once.
  std::uint64_t messages_per_second{0};  ///< 0 for no limit.
  /// The connection ends if nothing arrives for this long. CAF sends heartbeats on both sides.
  std::chrono::milliseconds silence{5'000};
  /// The connection ends if the other side reads nothing for this long although something is sent.
  std::chrono::milliseconds stall{5'000};
};

/// How a connection has ended.
struct pump_end {
  enum class cause : std::uint8_t {
    closed,   ///< The other side closed it, or the network did.
    silent,   ///< Nothing arrived, or was read, for too long.
    invalid,  ///< The other side sent something that it must not send.
  };
  cause what{cause::closed};
  std::string text;  ///< A clause about the other side.
};

class pump : public std::enable_shared_from_this<pump> {
 public:
  /// Called once, when the connection has ended other than by close().
  using closed = std::function<void(const pump_end& how)>;

  /// `local` is this end of the pair of sockets of which CAF has the other one; the pump closes it.
  pump(std::shared_ptr<boost::asio::io_context> io, boost::asio::ip::tcp::socket socket,
       std::unique_ptr<transport::channel> bytes, int local, gate_options options, const pump_limits& limits,
       closed when_closed);

  /// Starts to move bytes. `already` are bytes of BASP that have arrived before.
  void start(std::vector<std::byte> already = {});

  /// Ends the connection; nothing is called after that.
  void close();

  /// Does the same, soon and on the io thread. Any thread may call it.
  void close_soon();

 private:
  using wait_type = boost::asio::socket_base::wait_type;

  void read_remote();
  void write_local();
  void read_local();
  void write_remote();
  bool may_read();
  void tick();
  void end(pump_end::cause what, const std::string& why);

  template <class Socket>
  void await(Socket& socket, wait_type what, bool& awaited, void (pump::*next)());

  std::shared_ptr<boost::asio::io_context> io_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<transport::channel> channel_;
  boost::asio::local::stream_protocol::socket local_;
  gate gate_;
  pump_limits limits_;
  closed closed_;
  boost::asio::steady_timer timer_;
  std::vector<std::byte> in_, out_;  ///< For CAF, and for the other side: not written yet.
  std::size_t in_sent_{0}, out_sent_{0};
  double bytes_left_{0}, messages_left_{0};  ///< What may still arrive now.
  std::chrono::steady_clock::time_point refilled_, heard_, written_;
  int quiet_ticks_{0};  ///< Consecutive ticks without input.
  bool awaits_remote_{false}, awaits_remote_space_{false}, awaits_local_{false}, awaits_local_space_{false};
  bool needs_input_{false};  ///< Writing continues after more has been read; see channel::needs_input().
};

}  // namespace troupe::basp

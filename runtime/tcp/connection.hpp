// A connection to another node, in both directions, for tensors or for control messages. The ends identify themselves
// in the handshake of a channel; then each sends a hello. It sends directly from tensors and receives directly into
// pooled buffers. Only the transport includes this header, because it depends on Asio.
//
// Threads: send() may be called and receipts may be released on any thread; everything else happens on the io thread.
#pragma once

#include "troupe/net/channels/channel.hpp"
#include "troupe/runtime/tcp/guest_arrival.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::transport {

/// How a connection ended, other than by close().
struct connection_loss {
  enum class cause : std::uint8_t {
    closed,        ///< The other side closed it, or the network did.
    silent,        ///< Nothing arrived for `silence`.
    invalid,       ///< The other side sent something that it must not send.
    unidentified,  ///< The other side did not identify itself as what this side expects, or in time.
  };
  cause what{cause::closed};
  std::string text;  ///< What happened, as a clause: "the other side closed the connection".
};

struct connection_options {
  std::shared_ptr<boost::asio::io_context> io;
  frame_limits limits;
  models::buffer_pool pool;  ///< Pool from which received tensors are taken.
  /// Limit on the frames received whose receipts are not yet released, in bytes as counted by cost_of(). A single frame
  /// larger than the window is also accepted.
  std::int64_t window{default_window};
  /// The connection fails if nothing arrives for this long. Both sides send something eight times as often. Nothing is
  /// sent only for that, and silence is no failure, if it is 0.
  std::chrono::milliseconds silence{5'000};
};

class connection : public std::enable_shared_from_this<connection> {
 public:
  /// Callbacks to the owner of a connection, called on the io thread.
  struct listener {
    /// Called with the first frame, a hello. Returns whether the connection is accepted; otherwise, it closes.
    std::function<bool(const std::shared_ptr<connection>&, const frame&)> greeted;
    /// Called instead of `greeted` if that frame uses another version of the protocol, after which nothing more is
    /// read. Returns whether the connection stays open until `patience` ends; otherwise, it closes.
    std::function<bool(const std::shared_ptr<connection>&)> foreign;
    /// Called if the other side has identified itself as a guest, which sends no frames: the owner takes the socket
    /// with release(), or closes the connection. May be empty; the connection then fails.
    std::function<void(const std::shared_ptr<connection>&)> guest{};
    /// Called with each frame that carries something. Releasing the receipt returns its credit to the other side.
    std::function<void(const std::shared_ptr<connection>&, frame&&, std::shared_ptr<const void> receipt)> arrived;
    /// Called once when the connection fails, but not after close().
    std::function<void(const std::shared_ptr<connection>&, const connection_loss&)> closed;
  };

  /// `bytes` is the channel over `socket`.
  connection(connection_options options, boost::asio::ip::tcp::socket socket, std::unique_ptr<channel> bytes,
             listener listener);

  /// Starts the handshake, and then reading. The connection fails unless trust() is called within `patience`.
  void start(std::chrono::milliseconds patience);

  /// Does the same for a channel whose handshake is complete. `already` are the bytes that have arrived since.
  void start(std::chrono::milliseconds patience, std::vector<std::byte> already);

  /// Throws handshake_error unless the other side has proved that it is the node with this name. May be called only
  /// after the hello.
  void check(const std::string& node) const { channel_->check(node, *plane_); }

  /// Returns what the connection carries, or nothing before the hello of the other side has arrived.
  std::optional<plane> where() const { return plane_; }

  /// Sends a hello that introduces this side as node `node` of the plan. `with` says what follows on a control link.
  void greet(std::uint32_t node, const session_id& session, plane where, control_carrier with);

  /// Marks the other side as identified, so that the connection stays open.
  void trust();

  /// Sends a frame. A small one is sent immediately, as far as possible without blocking; everything else is sent on
  /// the io thread when the other side is ready. `values` is the frozen payload that `header` describes; the checksum
  /// is added here. Does nothing if the connection is closed: the owner has closed it or has been notified.
  void send(const frame_header& header, at::Tensor values);

  /// Sends a frame like send(), but after all frames sent with send(), for which at least half of the window is
  /// reserved. The frame must cost at most a quarter of the window: that much credit may remain with the receiver for
  /// some time (see taken()).
  void send_later(const frame_header& header, at::Tensor values);

  /// Sends a last frame before all that wait, and discards these. The connection closes when the other side closes it,
  /// or after `patience`. Called on the io thread.
  void finish(const frame_header& header, at::Tensor values, std::chrono::milliseconds patience);

  /// Gives up the socket of a guest. The connection is closed; the listener is not called again.
  guest_arrival release();

  /// Closes the connection immediately and discards unsent frames. The listener is not called again.
  void close();

 private:
  struct outgoing {
    frame_header what{};
    std::array<std::byte, header_bytes> header{};
    at::Tensor values{};
    session_id session{};
    std::size_t sent{0};  ///< Bytes sent so far, of header and payload together.
    const std::byte* payload() const;
    std::size_t size() const { return header_bytes + what.payload_bytes; }
    void seal();
  };
  using queue = std::deque<outgoing>;

  void await(boost::asio::ip::tcp::socket::wait_type what, void (connection::*next)());
  void await_trust(std::chrono::milliseconds patience);
  void shake_hands();
  std::ptrdiff_t read_into(std::span<std::byte> room);
  void read();
  void handle(frame_reader::found found);
  void hear(frame&& arrived);
  void meet(const frame& hello);
  void taken(std::int64_t cost);
  void beat();

  void put(outgoing&& frame, queue& where);
  void put_beat();
  void put_on_io_thread(outgoing&& frame, queue& where);
  void flush(std::unique_lock<std::mutex>& lock);
  void flush_on_io_thread();
  queue* next_queue();
  void await_space();
  void await_input(bool on_io_thread);
  void go_on_sending();
  void fail(connection_loss::cause what, const std::string& why);

  connection_options options_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<channel> channel_;
  boost::asio::steady_timer patience_, pulse_;
  std::vector<std::byte> already_;  ///< Bytes that precede those of the channel.
  frame_reader reader_;
  listener listener_;
  std::optional<plane> plane_;        ///< Set by the hello of the other side.
  std::atomic<bool> trusted_{false};  ///< See trust().
  std::chrono::steady_clock::time_point last_heard_;
  int silent_beats_{0};      ///< Consecutive beats without input.
  bool paused_{false};       ///< Reading continues after other connections have had a turn.
  bool needs_input_{false};  ///< Sending continues after more has been read; see channel::needs_input().

  std::atomic<std::int64_t> granted_;   ///< Total credit granted to the other side.
  std::int64_t received_{0};            ///< Total cost of the frames that the other side has sent.
  std::atomic<std::int64_t> taken_{0};  ///< Cost of the frames whose receipts were released since the last grant.

  std::mutex mutex_;  ///< Protects everything below, and closing the socket.
  queue urgent_, queue_, later_;
  queue* sending_{nullptr};  ///< The queue whose first frame is partly sent, or null.
  /// Credit left now (negative after a frame larger than the window), and credit if no frame is outstanding.
  std::int64_t credit_{0}, most_credit_{0};
  std::size_t on_their_way_{0};  ///< Frames that the io thread will add to a queue; later ones must not overtake them.
  bool busy_{true};              ///< The io thread shakes hands, sends what is queued, or waits until it can.
  bool awaiting_{false};         ///< The io thread waits for space or for input.
  bool closed_{false};
};

}  // namespace troupe::transport

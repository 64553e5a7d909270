// A TCP connection to another node, in both directions. It sends directly from tensors and receives directly into
// pooled buffers. Only the transport includes this header, because it depends on Asio.
//
// Threads: send() may be called and receipts may be released on any thread; everything else happens on the io thread.
#pragma once

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
#include <string>

namespace troupe::transport {

class connection : public std::enable_shared_from_this<connection> {
 public:
  /// Callbacks to the owner of a connection, called on the io thread.
  struct listener {
    /// Called with the first frame, a hello. Returns whether the connection is accepted; otherwise, it closes.
    std::function<bool(const std::shared_ptr<connection>&, const frame&)> greeted;
    /// Called with each part or snapshot. Releasing the receipt returns its credit to the other side.
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
    /// Called once with the reason when the connection fails, but not after close().
    std::function<void(const std::shared_ptr<connection>&, const std::string& why)> closed;
  };

  /// `window` limits the frames received whose receipts are not yet released, in bytes as counted by cost_of(). A
  /// single frame larger than the window is also accepted.
  connection(std::shared_ptr<boost::asio::io_context> io, boost::asio::ip::tcp::socket socket, frame_limits limits,
             models::buffer_pool pool, std::int64_t window, listener listener);

  /// Starts reading. The connection closes if no hello has been accepted within `patience`.
  void start(std::chrono::milliseconds patience);

  /// Sends a hello that introduces this side as node `node` of the plan.
  void greet(std::uint32_t node, const session_id& session);

  /// Sends a frame: as much as possible immediately, without blocking, and the rest when the other side is ready.
  /// `values` is the frozen payload that `header` describes. Does nothing if the connection is closed; its owner
  /// already knows.
  void send(const frame_header& header, at::Tensor values);

  /// Like send(), but frames sent with send() precede, and at least half of the window is left to them. The frame must
  /// cost at most a quarter of the window: that much credit may remain with the receiver for some time (see taken()).
  void send_later(const frame_header& header, at::Tensor values);

  /// Closes the connection immediately and discards unsent frames. The listener is not called again.
  void close();

 private:
  struct outgoing {
    std::array<std::byte, header_bytes> header{};
    at::Tensor values{};
    session_id session{};
    std::size_t payload_bytes{0};
    std::size_t sent{0};  ///< Bytes sent so far, of header and payload together.
    const std::byte* payload() const;
    std::size_t size() const { return header_bytes + payload_bytes; }
  };

  void await_bytes();
  void read();
  void handle(frame_reader::found found);
  void hear(frame&& arrived);
  void taken(std::int64_t cost);

  void put(outgoing&& frame, std::deque<outgoing>& where);
  void flush(const std::lock_guard<std::mutex>&);
  std::deque<outgoing>* next_queue();
  void await_space();
  void fail(const std::string& why);

  std::shared_ptr<boost::asio::io_context> io_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer patience_;
  frame_reader reader_;
  std::int64_t window_;
  listener listener_;
  bool greeted_{false};

  std::atomic<std::int64_t> granted_;   ///< Total credit granted to the other side.
  std::int64_t received_{0};            ///< Total cost of the frames that the other side has sent.
  std::atomic<std::int64_t> taken_{0};  ///< Cost of the frames whose receipts were released since the last grant.

  std::mutex mutex_;  ///< Protects everything below, and closing the socket.
  std::deque<outgoing> urgent_, queue_, later_;
  std::deque<outgoing>* sending_{nullptr};  ///< The queue whose first frame is partly sent, or null.
  /// Credit left now (negative after a frame larger than the window), and credit if no frame is outstanding.
  std::int64_t credit_{0}, most_credit_{0};
  bool awaiting_space_{false};
  bool closed_{false};
};

}  // namespace troupe::transport

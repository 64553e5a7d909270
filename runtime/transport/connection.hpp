// One TCP connection to another node, both ways. Sends straight from the tensors, receives straight into pooled
// buffers. Only the transport includes this header: it knows Asio.
//
// Threads: send() and receipts from any thread; everything else on the io thread.
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
  /// What a connection tells its owner, on the io thread.
  struct listener {
    /// The first frame, a hello. Returns whether this is who was expected; else the connection closes.
    std::function<bool(const std::shared_ptr<connection>&, const frame&)> greeted;
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
    /// Called once, with the reason, unless close() was called.
    std::function<void(const std::shared_ptr<connection>&, const std::string& why)> closed;
  };

  /// `window`: what may have come and not been taken, in bytes of cost_of(); or one frame, where that is more.
  connection(std::shared_ptr<boost::asio::io_context> io, boost::asio::ip::tcp::socket socket, frame_limits limits,
             models::buffer_pool pool, std::int64_t window, listener listener);

  /// Begins to read. A connection whose first frame has not come after `patience` closes.
  void start(std::chrono::milliseconds patience);

  /// Introduces this side, node `node` of the plan.
  void greet(std::uint32_t node, const session_id& session);

  /// Sends what it can at once, without blocking, and the rest when the other side is ready. The values of `header` are
  /// `values`, which are frozen. Dropped where the connection is closed: who owns it has heard of that.
  void send(const frame_header& header, at::Tensor values);

  /// Closes at once, with what has not been sent; the listener hears no more of it.
  void close();

 private:
  struct outgoing {
    std::array<std::byte, header_bytes> header{};
    at::Tensor values{};
    session_id session{};
    std::size_t payload_bytes{0};
    std::size_t sent{0};  ///< Of header and payload together.
    const std::byte* payload() const;
    std::size_t size() const { return header_bytes + payload_bytes; }
  };

  void await_bytes();
  void read();
  void handle(frame_reader::found found);
  void hear(frame&& arrived);
  void taken(std::int64_t cost);

  void put(outgoing&& frame, bool urgent);
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

  // What the other side may send, has sent, and of which receipts have gone without a new grant: costs, in all.
  std::atomic<std::int64_t> granted_;
  std::int64_t received_{0};
  std::atomic<std::int64_t> taken_{0};

  std::mutex mutex_;  ///< Of all below, and of closing the socket.
  std::deque<outgoing> urgent_, queue_;
  std::deque<outgoing>* sending_{nullptr};   ///< Whose first frame is on its way.
  std::int64_t credit_{0}, most_credit_{0};  ///< What may be sent now (below 0 after a frame beyond
                                             ///< the window), and with nothing under way.
  bool awaiting_space_{false};
  bool closed_{false};
};

}  // namespace troupe::transport

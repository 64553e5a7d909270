#include "troupe/runtime/transport/connection.hpp"

#include "troupe/actors/support/crc32c.hpp"

#include <boost/asio/post.hpp>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::transport {

namespace asio = boost::asio;

namespace {

/// Bytes that one connection may read before the others get a turn.
constexpr std::size_t turn = 4 << 20;

/// Returns the credit required to send a frame: its cost, but never more than is returned without further frames (see
/// taken()), so that a frame larger than the window can be sent alone.
std::int64_t needed_credit(std::int64_t cost, std::int64_t window) {
  return std::min(cost, window - window / 4);
}

}  // namespace

const std::byte* connection::outgoing::payload() const {
  return values.defined() ? static_cast<const std::byte*>(values.const_data_ptr()) : session.data();
}

connection::connection(std::shared_ptr<asio::io_context> io, asio::ip::tcp::socket socket, frame_limits limits,
                       models::buffer_pool pool, std::int64_t window, listener listener)
    : io_(std::move(io)),
      socket_(std::move(socket)),
      patience_(*io_),
      reader_(limits, std::move(pool)),
      window_(window),
      listener_(std::move(listener)),
      granted_(window) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay{true}, ignored);
}

void connection::start(std::chrono::milliseconds patience) {
  patience_.expires_after(patience);
  patience_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error && !self->greeted_) self->fail("no hello arrived in time");
  });
  await_bytes();
}

// Receiving. -------------------------------------------------------------------------------------------------------

void connection::await_bytes() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->read();
  });
}

void connection::read() try {
  for (std::size_t bytes = 0; bytes < turn;) {
    const auto room = reader_.room();
    const auto count = ::recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
    if (count > 0) {
      bytes += static_cast<std::size_t>(count);
      handle(reader_.advance(static_cast<std::size_t>(count)));
      if (!socket_.is_open()) return;
    } else if (count == 0) {
      return fail("the other side closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return fail(std::strerror(errno));
    }
  }
  await_bytes();
} catch (const std::exception& problem) {  // frame_error, or out of memory
  fail(problem.what());
}

void connection::handle(frame_reader::found found) {
  if (found == frame_reader::found::nothing) return;
  if (found == frame_reader::found::frame) return hear(reader_.take());
  // A header whose payload has no memory yet.
  const auto& header = reader_.header();
  if (header.kind == frame_kind::hello) return;
  if (!greeted_) throw frame_error("received a frame before a hello");
  const auto cost = cost_of(header.payload_bytes);
  if (needed_credit(cost, window_) > granted_ - received_)
    throw frame_error("received a frame that exceeds the granted credit");
  received_ += cost;
}

void connection::hear(frame&& arrived) {
  const auto& header = arrived.header;
  if (header.kind == frame_kind::hello) {
    if (greeted_) throw frame_error("received a second hello");
    {
      // Before the owner is called, because any thread may send from then on.
      const std::lock_guard lock{mutex_};
      credit_ = most_credit_ = header.total;
    }
    if (!listener_.greeted(shared_from_this(), arrived)) throw frame_error("received an unexpected hello");
    greeted_ = true;
    patience_.cancel();
  } else if (!greeted_) {
    throw frame_error("received a frame before a hello");
  } else if (header.kind == frame_kind::credit) {
    const std::lock_guard lock{mutex_};
    if (header.total > most_credit_ - credit_) throw frame_error("received a credit for more bytes than were sent");
    credit_ += header.total;
    flush(lock);
  } else {
    const auto cost = cost_of(header.payload_bytes);
    auto receipt = std::shared_ptr<const void>(nullptr, [self = weak_from_this(), cost](const void*) {
      if (const auto alive = self.lock()) alive->taken(cost);
    });
    listener_.arrived(std::move(arrived), std::move(receipt));
  }
}

/// Returns credit for released receipts, in quarters of the window, so that few frames are sent back.
void connection::taken(std::int64_t cost) {
  if (taken_.fetch_add(cost) + cost < window_ / 4) return;
  const auto anew = taken_.exchange(0);
  if (anew == 0) return;
  granted_ += anew;
  const frame_header grant{.kind = frame_kind::credit, .total = anew};
  put({.header = encode(grant)}, urgent_);
}

// Sending. ---------------------------------------------------------------------------------------------------------

void connection::greet(std::uint32_t node, const session_id& session) {
  const frame_header hello{.kind = frame_kind::hello,
                           .to = node,
                           .total = window_,
                           .payload_bytes = session.size(),
                           .payload_crc = crc32c(session)};
  put({.header = encode(hello), .session = session, .payload_bytes = session.size()}, urgent_);
}

void connection::send(const frame_header& header, at::Tensor values) {
  const auto bytes = values.nbytes();
  put({.header = encode(header), .values = std::move(values), .payload_bytes = bytes}, queue_);
}

void connection::send_later(const frame_header& header, at::Tensor values) {
  const auto bytes = values.nbytes();
  put({.header = encode(header), .values = std::move(values), .payload_bytes = bytes}, later_);
}

void connection::put(outgoing&& frame, std::deque<outgoing>& where) {
  const std::lock_guard lock{mutex_};
  if (closed_) return;
  where.push_back(std::move(frame));
  if (!awaiting_space_) flush(lock);
}

/// Returns the queue whose first frame is sent next, or nullptr. A partly sent frame is completed first, urgent frames
/// precede others, and the others need credit. Those of send_later() are sent only if no other frame waits.
std::deque<connection::outgoing>* connection::next_queue() {
  if (sending_) return sending_;
  if (!urgent_.empty()) return &urgent_;
  auto& next = queue_.empty() ? later_ : queue_;
  if (next.empty()) return nullptr;
  const auto cost = cost_of(next.front().payload_bytes);
  const auto spared = queue_.empty() && credit_ < most_credit_ ? most_credit_ / 2 : 0;
  if (needed_credit(cost, most_credit_) > credit_ - spared) return nullptr;
  credit_ -= cost;
  return &next;
}

void connection::flush(const std::lock_guard<std::mutex>&) {
  while (!closed_ && !awaiting_space_) {
    sending_ = next_queue();
    if (!sending_) return;
    auto& first = sending_->front();
    const auto from_header = std::min(first.sent, header_bytes);
    const auto from_payload = first.sent - from_header;
    iovec pieces[2] = {{first.header.data() + from_header, header_bytes - from_header},
                       {const_cast<std::byte*>(first.payload()) + from_payload, first.payload_bytes - from_payload}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const auto count = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      first.sent += static_cast<std::size_t>(count);
      if (first.sent < first.size()) continue;
      sending_->pop_front();
      sending_ = nullptr;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      awaiting_space_ = true;
      asio::post(*io_, [self = shared_from_this()] { self->await_space(); });
    } else if (errno != EINTR) {
      // Reading fails too, and reports the failure once.
      ::shutdown(socket_.native_handle(), SHUT_RDWR);
      return;
    }
  }
}

void connection::await_space() {
  if (!socket_.is_open()) return;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](boost::system::error_code error) {
    if (error) return;
    const std::lock_guard lock{self->mutex_};
    self->awaiting_space_ = false;
    self->flush(lock);
  });
}

// Ending. ----------------------------------------------------------------------------------------------------------

void connection::fail(const std::string& why) {
  if (!socket_.is_open()) return;
  close();
  listener_.closed(shared_from_this(), why);
}

void connection::close() {
  patience_.cancel();
  const std::lock_guard lock{mutex_};
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  urgent_.clear();
  queue_.clear();
  later_.clear();
  sending_ = nullptr;
}

}  // namespace troupe::transport

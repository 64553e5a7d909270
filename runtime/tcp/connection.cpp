#include "troupe/runtime/tcp/connection.hpp"

#include "troupe/files/crc32c.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <boost/asio/post.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::transport {

namespace asio = boost::asio;

namespace {

using asio::ip::tcp;
using std::chrono::steady_clock;
using cause = connection_loss::cause;

/// Bytes that one connection may read before the others get a turn.
constexpr std::size_t turn = 4 << 20;

/// The largest frame that is sent on the thread of its sender, in bytes. Computing the checksum of a larger one and
/// copying it to the socket would keep actors waiting.
constexpr std::size_t most_on_own_thread = 64 * 1024;

}  // namespace

const std::byte* connection::outgoing::payload() const {
  return values.defined() ? static_cast<const std::byte*>(values.const_data_ptr()) : session.data();
}

void connection::outgoing::seal() {
  if (what.payload_bytes > 0) what.payload_crc = crc32c({payload(), what.payload_bytes});
  header = encode(what);
}

connection::connection(connection_options options, tcp::socket socket, std::unique_ptr<channel> bytes,
                       listener listener)
    : options_(std::move(options)),
      socket_(std::move(socket)),
      channel_(std::move(bytes)),
      patience_(*options_.io),
      pulse_(*options_.io),
      reader_(options_.limits, options_.pool),
      listener_(std::move(listener)),
      granted_(options_.window) {
  boost::system::error_code ignored;
  socket_.set_option(tcp::no_delay{true}, ignored);
  socket_.native_non_blocking(true, ignored);
}

void connection::await_trust(std::chrono::milliseconds patience) {
  patience_.expires_after(patience);
  patience_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error && !self->trusted_) self->fail(cause::unidentified, "it did not identify itself in time");
  });
}

void connection::start(std::chrono::milliseconds patience) {
  await_trust(patience);
  asio::post(*options_.io, [self = shared_from_this()] { self->shake_hands(); });
}

void connection::start(std::chrono::milliseconds patience, std::vector<std::byte> already) {
  await_trust(patience);
  already_ = std::move(already);
  asio::post(*options_.io, [self = shared_from_this()] {
    if (!self->socket_.is_open()) return;
    self->go_on_sending();
    self->read();
  });
}

void connection::await(tcp::socket::wait_type what, void (connection::*next)()) {
  if (!socket_.is_open()) return;
  socket_.async_wait(what, [self = shared_from_this(), next](boost::system::error_code error) {
    if (!error) (self.get()->*next)();
  });
}

void connection::shake_hands() try {
  if (!socket_.is_open()) return;
  const auto done = channel_->shake_hands();
  if (done == channel::progress::wants_read) return await(tcp::socket::wait_read, &connection::shake_hands);
  if (done == channel::progress::wants_write) return await(tcp::socket::wait_write, &connection::shake_hands);
  if (channel_->is_guest()) {
    if (!listener_.guest) throw handshake_error("it is a guest, but this node has no entrance for guests");
    return listener_.guest(shared_from_this());
  }
  go_on_sending();
  read();                                  // the channel may have taken more than the handshake from the socket
} catch (const std::exception& problem) {  // handshake_error, or out of memory
  fail(cause::unidentified, problem.what());
}

void connection::trust() {
  trusted_ = true;  // the timer may have expired already
  asio::post(*options_.io, [self = shared_from_this()] { self->patience_.cancel(); });
}

/// Sends beats at regular intervals and checks whether the other side is alive.
void connection::beat() {
  pulse_.expires_after(options_.silence / beats_per_silence);
  pulse_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (error || !self->socket_.is_open()) return;
    boost::system::error_code ignored;  // data may have arrived while this thread was busy
    const auto heard = self->socket_.available(ignored) > 0 || self->paused_;
    self->silent_beats_ = heard ? 0 : self->silent_beats_ + 1;
    // A process that was suspended has missed only one beat, however long ago it last received anything.
    const auto enough = self->silent_beats_ >= beats_per_silence / 2;
    if (enough && steady_clock::now() - self->last_heard_ > self->options_.silence)
      return self->fail(cause::silent, silence_text(self->options_.silence));
    self->put_beat();
    self->beat();
  });
}

// Receiving. -------------------------------------------------------------------------------------------------------

std::ptrdiff_t connection::read_into(std::span<std::byte> room) {
  if (already_.empty()) return channel_->read(room);
  const auto count = std::min(room.size(), already_.size());
  std::copy_n(already_.begin(), count, room.begin());
  already_.erase(already_.begin(), already_.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<std::ptrdiff_t>(count);
}

void connection::read() try {
  paused_ = false;
  for (std::size_t bytes = 0; bytes < turn;) {
    const auto count = read_into(reader_.room());
    if (count > 0) {
      bytes += static_cast<std::size_t>(count);
      last_heard_ = steady_clock::now();
      silent_beats_ = 0;
      handle(reader_.advance(static_cast<std::size_t>(count)));
      if (!socket_.is_open()) return;
    } else if (count == 0) {
      return fail(cause::closed, "the other side closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (std::exchange(needs_input_, false)) go_on_sending();
      return await(tcp::socket::wait_read, &connection::read);
    } else if (errno != EINTR) {
      const auto reason = errno;
      const auto known = channel_->error();
      return known.empty() ? fail(cause::closed, std::strerror(reason))
                           : fail(plane_ ? cause::invalid : cause::unidentified, known);
    }
  }
  paused_ = true;
  asio::post(*options_.io, [self = shared_from_this()] {
    if (self->socket_.is_open()) self->read();
  });
} catch (const version_error& problem) {
  if (!plane_ && listener_.foreign(shared_from_this())) return;  // nothing that follows can be understood
  fail(cause::unidentified, problem.what());
} catch (const handshake_error& problem) {
  fail(cause::unidentified, problem.what());
} catch (const std::exception& problem) {  // frame_error, or out of memory
  fail(plane_ ? cause::invalid : cause::unidentified, problem.what());
}

void connection::handle(frame_reader::found found) {
  if (found == frame_reader::found::nothing) return;
  if (found == frame_reader::found::frame) return hear(reader_.take());
  // A header whose payload has no memory yet.
  const auto& header = reader_.header();
  if (header.kind == frame_kind::hello) return;
  if (!plane_) throw frame_error("received a frame before a hello");
  if (!belongs(header.kind, *plane_)) throw frame_error("received a frame that belongs to the other plane");
  const auto cost = cost_of(header.payload_bytes);
  if (needed_credit(cost, options_.window) > granted_ - received_)
    throw frame_error("received a frame that exceeds the granted credit");
  received_ += cost;
}

void connection::hear(frame&& arrived) {
  const auto& header = arrived.header;
  if (header.kind == frame_kind::hello) return meet(arrived);
  if (!plane_) throw frame_error("received a frame before a hello");
  if (header.kind == frame_kind::beat) return;
  if (header.kind == frame_kind::credit) {
    std::unique_lock lock{mutex_};
    if (header.total > most_credit_ - credit_) throw frame_error("received a credit for more bytes than were sent");
    credit_ += header.total;
    lock.unlock();
    return flush_on_io_thread();
  }
  const auto cost = cost_of(header.payload_bytes);
  auto receipt = std::shared_ptr<const void>(nullptr, [self = weak_from_this(), cost](const void*) {
    if (const auto alive = self.lock()) alive->taken(cost);
  });
  listener_.arrived(shared_from_this(), std::move(arrived), std::move(receipt));
}

void connection::meet(const frame& hello) {
  if (plane_) throw frame_error("received a second hello");
  {
    // Before the owner is called, because any thread may send from then on.
    const std::lock_guard lock{mutex_};
    credit_ = most_credit_ = hello.header.total;
  }
  plane_ = static_cast<plane>(hello.header.which.place);
  if (!listener_.greeted(shared_from_this(), hello)) throw frame_error("received an unexpected hello");
  if (options_.silence.count() > 0 && socket_.is_open()) beat();  // unless it was released
}

/// Returns credit for released receipts, in quarters of the window, so that few frames are sent back.
void connection::taken(std::int64_t cost) {
  if (taken_.fetch_add(cost) + cost < options_.window / 4) return;
  const auto anew = taken_.exchange(0);
  if (anew == 0) return;
  granted_ += anew;
  put({.what = {.kind = frame_kind::credit, .total = anew}}, urgent_);
}

// Sending. ---------------------------------------------------------------------------------------------------------

void connection::greet(std::uint32_t node, const session_id& session, plane where, control_carrier with) {
  put({.what = {.kind = frame_kind::hello,
                .to = node,
                .which = {.place = static_cast<std::uint32_t>(where), .part = static_cast<std::uint32_t>(with)},
                .total = options_.window,
                .payload_bytes = session.size()},
       .session = session},
      urgent_);
}

void connection::send(const frame_header& header, at::Tensor values) {
  put({.what = header, .values = std::move(values)}, queue_);
}

void connection::send_later(const frame_header& header, at::Tensor values) {
  put({.what = header, .values = std::move(values)}, later_);
}

void connection::put(outgoing&& frame, queue& where) {
  std::unique_lock lock{mutex_};
  if (closed_) return;
  if (frame.size() > most_on_own_thread || on_their_way_ > 0) {
    on_their_way_ += 1;
    lock.unlock();
    return put_on_io_thread(std::move(frame), where);
  }
  frame.seal();
  where.push_back(std::move(frame));
  if (!busy_) flush(lock);
}

/// Sends a beat, unless other frames wait for space in the socket: they also show that this side is alive.
void connection::put_beat() {
  {
    const std::lock_guard lock{mutex_};
    if (awaiting_) return;
  }
  put({.what = {.kind = frame_kind::beat}}, urgent_);
}

void connection::put_on_io_thread(outgoing&& frame, queue& where) {
  asio::post(*options_.io, [self = shared_from_this(), frame = std::move(frame), &where]() mutable {
    frame.seal();
    {
      const std::lock_guard lock{self->mutex_};
      self->on_their_way_ -= 1;
      if (self->closed_) return;
      where.push_back(std::move(frame));
    }
    self->flush_on_io_thread();
  });
}

/// Returns the queue whose first frame is sent next, or nullptr. A partly sent frame is completed first, urgent frames
/// precede others, and the others need credit. Frames of send_later() are sent only if no other frame waits.
connection::queue* connection::next_queue() {
  if (sending_) return sending_;
  if (!urgent_.empty()) return &urgent_;
  auto& next = queue_.empty() ? later_ : queue_;
  if (next.empty()) return nullptr;
  const auto cost = cost_of(next.front().what.payload_bytes);
  const auto spared = queue_.empty() && credit_ < most_credit_ ? most_credit_ / 2 : 0;
  if (needed_credit(cost, most_credit_) > credit_ - spared) return nullptr;
  credit_ -= cost;
  return &next;
}

/// Sends what is queued, as far as possible. On the io thread (`busy_`), the lock is released while bytes are written:
/// only that thread closes the socket, and no other thread sends meanwhile.
void connection::flush(std::unique_lock<std::mutex>& lock) {
  const auto unlocked = busy_;
  while (!closed_) {
    sending_ = next_queue();
    if (!sending_) return;
    auto& first = sending_->front();
    const auto from_header = std::min(first.sent, header_bytes);
    const auto from_payload = first.sent - from_header;
    const auto header = std::span(std::as_const(first.header)).subspan(from_header);
    const std::span payload{first.payload() + from_payload, first.what.payload_bytes - from_payload};
    if (unlocked) lock.unlock();
    const auto count = channel_->write(header, payload);
    const auto problem = errno;
    const auto needs_input = count < 0 && channel_->needs_input();
    if (unlocked) lock.lock();
    if (count >= 0) {
      first.sent += static_cast<std::size_t>(count);
      if (first.sent < first.size()) continue;
      sending_->pop_front();
      sending_ = nullptr;
    } else if (problem == EAGAIN || problem == EWOULDBLOCK) {
      return needs_input ? await_input(unlocked) : await_space();
    } else if (problem != EINTR) {
      // Reading fails too, and reports the failure once.
      ::shutdown(socket_.native_handle(), SHUT_RDWR);
      return;
    }
  }
}

void connection::flush_on_io_thread() {
  std::unique_lock lock{mutex_};
  if (closed_ || busy_) return;
  busy_ = true;
  awaiting_ = false;
  flush(lock);
  busy_ = awaiting_;
}

/// Continues on the io thread once the socket takes more bytes. Requires the lock.
void connection::await_space() {
  busy_ = awaiting_ = true;
  asio::post(*options_.io,
             [self = shared_from_this()] { self->await(tcp::socket::wait_write, &connection::go_on_sending); });
}

/// Continues once more has been read. Requires the lock. Only the io thread reads. Another thread cannot rule out that
/// bytes have been read since its attempt, so it lets the io thread try again.
void connection::await_input(bool on_io_thread) {
  busy_ = awaiting_ = true;
  if (on_io_thread)
    needs_input_ = true;
  else
    asio::post(*options_.io, [self = shared_from_this()] { self->go_on_sending(); });
}

void connection::go_on_sending() {
  {
    const std::lock_guard lock{mutex_};
    busy_ = false;
  }
  flush_on_io_thread();
}

// Ending. ----------------------------------------------------------------------------------------------------------

void connection::fail(cause what, const std::string& why) {
  if (!socket_.is_open()) return;
  close();
  listener_.closed(shared_from_this(), {what, why});
}

void connection::finish(const frame_header& header, at::Tensor values, std::chrono::milliseconds patience) {
  if (!socket_.is_open()) return;
  {
    const std::lock_guard lock{mutex_};
    for (auto* waiting : {&queue_, &later_})
      waiting->erase(waiting->begin() + (sending_ == waiting ? 1 : 0), waiting->end());
  }
  put({.what = header, .values = std::move(values)}, urgent_);
  patience_.expires_after(patience);
  patience_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->close();
  });
}

guest_arrival connection::release() {
  patience_.cancel();
  pulse_.cancel();
  const std::lock_guard lock{mutex_};
  closed_ = true;
  return {options_.io, std::move(socket_), std::move(channel_), {}};
}

void connection::close() {
  patience_.cancel();
  pulse_.cancel();
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

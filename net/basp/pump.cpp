#include "troupe/net/basp/pump.hpp"

#include <boost/asio/post.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace troupe::basp {

namespace asio = boost::asio;

namespace {

using std::chrono::steady_clock;
using cause = pump_end::cause;

/// Bytes that are read at once. Also limits what waits in the pump for CAF or for the other side.
constexpr std::size_t piece_bytes = 16 * 1024;

/// How often limits are looked at. Deadlines alone need fewer looks.
constexpr std::chrono::milliseconds with_limits{50};
constexpr int looks_per_silence = 16;

std::chrono::milliseconds interval_of(const pump_limits& limits) {
  const auto is_limited = limits.bytes_per_second > 0 || limits.messages_per_second > 0;
  return is_limited ? with_limits : std::min(limits.silence, limits.stall) / looks_per_silence;
}

bool would_block(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK;
}

}  // namespace

pump::pump(std::shared_ptr<asio::io_context> io, asio::ip::tcp::socket socket,
           std::unique_ptr<transport::channel> bytes, int local, gate_options options, const pump_limits& limits,
           closed when_closed)
    : io_(std::move(io)),
      socket_(std::move(socket)),
      channel_(std::move(bytes)),
      local_(*io_, asio::local::stream_protocol{}, local),
      gate_(std::move(options)),
      limits_(limits),
      closed_(std::move(when_closed)),
      timer_(*io_),
      bytes_left_(static_cast<double>(limits.bytes_per_second)),
      messages_left_(static_cast<double>(limits.messages_per_second)),
      refilled_(steady_clock::now()),
      heard_(refilled_),
      written_(refilled_) {
  boost::system::error_code ignored;
  socket_.native_non_blocking(true, ignored);
  local_.native_non_blocking(true, ignored);
}

void pump::start(std::vector<std::byte> already) {
  asio::post(*io_, [self = shared_from_this(), already = std::move(already)] {
    if (!self->socket_.is_open()) return;
    try {
      self->gate_.take(already, self->in_);
    } catch (const gate_error& problem) {
      return self->end(cause::invalid, problem.what());
    }
    self->write_local();
    self->read_remote();
    self->read_local();
    self->tick();
  });
}

template <class Socket>
void pump::await(Socket& socket, wait_type what, bool& awaited, void (pump::*next)()) {
  if (!socket.is_open() || std::exchange(awaited, true)) return;
  socket.async_wait(what, [self = shared_from_this(), &awaited, next](boost::system::error_code error) {
    awaited = false;
    if (!error) (self.get()->*next)();
  });
}

/// Returns whether more may be read from the other side: CAF has taken everything so far, the other side reads what is
/// sent to it, and the limits allow it.
bool pump::may_read() {
  if (!in_.empty() || !out_.empty()) return false;
  return (limits_.bytes_per_second == 0 || bytes_left_ > 0) && (limits_.messages_per_second == 0 || messages_left_ > 0);
}

void pump::read_remote() {
  std::array<std::byte, piece_bytes> piece;
  while (socket_.is_open() && (may_read() || needs_input_)) {
    const auto count = channel_->read(piece);
    if (count > 0) {
      heard_ = steady_clock::now();
      quiet_ticks_ = 0;
      const auto headers = gate_.headers();
      try {
        gate_.take(std::span{piece}.first(static_cast<std::size_t>(count)), in_);
      } catch (const gate_error& problem) {
        return end(cause::invalid, problem.what());
      }
      bytes_left_ -= static_cast<double>(count);
      messages_left_ -= static_cast<double>(gate_.headers() - headers);
      write_local();
    } else if (count == 0) {
      return end(cause::closed, "it closed the connection");
    } else if (would_block(errno)) {
      if (std::exchange(needs_input_, false)) write_remote();
      return await(socket_, wait_type::wait_read, awaits_remote_, &pump::read_remote);
    } else if (errno != EINTR) {
      const auto reason = errno;
      const auto known = channel_->error();
      return end(known.empty() ? cause::closed : cause::invalid, known.empty() ? std::strerror(reason) : known);
    }
  }
}

void pump::write_local() {
  while (local_.is_open() && in_sent_ < in_.size()) {
    const auto count =
        ::send(local_.native_handle(), in_.data() + in_sent_, in_.size() - in_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      in_sent_ += static_cast<std::size_t>(count);
    } else if (would_block(errno)) {
      return await(local_, wait_type::wait_write, awaits_local_space_, &pump::write_local);
    } else if (errno != EINTR) {
      return end(cause::invalid, "it broke the protocol of CAF");
    }
  }
  in_.clear();
  in_sent_ = 0;
  if (in_.capacity() > piece_bytes) in_.shrink_to_fit();
  if (!socket_.is_open()) return close();  // nothing follows
  if (!awaits_remote_) await(socket_, wait_type::wait_read, awaits_remote_, &pump::read_remote);
}

void pump::read_local() {
  while (local_.is_open() && out_.empty()) {
    out_.resize(piece_bytes);
    const auto count = ::recv(local_.native_handle(), out_.data(), out_.size(), MSG_DONTWAIT);
    const auto problem = errno;
    out_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count > 0) {
      written_ = steady_clock::now();
      write_remote();
    } else if (count == 0) {
      return end(cause::invalid, "it broke the protocol of CAF");
    } else if (would_block(problem)) {
      return await(local_, wait_type::wait_read, awaits_local_, &pump::read_local);
    } else if (problem != EINTR) {
      return end(cause::closed, std::strerror(problem));
    }
  }
}

void pump::write_remote() {
  while (socket_.is_open() && out_sent_ < out_.size()) {
    const auto count = channel_->write({}, std::span{out_}.subspan(out_sent_));
    if (count >= 0) {
      out_sent_ += static_cast<std::size_t>(count);
      written_ = steady_clock::now();
    } else if (would_block(errno)) {
      if (channel_->needs_input()) {
        needs_input_ = true;
        return await(socket_, wait_type::wait_read, awaits_remote_, &pump::read_remote);
      }
      return await(socket_, wait_type::wait_write, awaits_remote_space_, &pump::write_remote);
    } else if (errno != EINTR) {
      const auto reason = errno;
      const auto known = channel_->error();
      return end(known.empty() ? cause::closed : cause::invalid, known.empty() ? std::strerror(reason) : known);
    }
  }
  if (out_.empty()) return;
  out_.clear();
  out_sent_ = 0;
  if (!awaits_local_) await(local_, wait_type::wait_read, awaits_local_, &pump::read_local);
  if (!awaits_remote_) await(socket_, wait_type::wait_read, awaits_remote_, &pump::read_remote);
}

/// Lets more arrive as time passes, and ends a connection that is silent or stalled.
void pump::tick() {
  const auto interval = interval_of(limits_);
  timer_.expires_after(interval);
  timer_.async_wait([self = shared_from_this(), interval](boost::system::error_code error) {
    if (error || !self->socket_.is_open()) return;
    auto& my = *self;
    const auto now = steady_clock::now();
    const auto seconds = std::chrono::duration<double>(now - std::exchange(my.refilled_, now)).count();
    const auto refill = [&](double& left, std::uint64_t per_second) {
      const auto most = static_cast<double>(per_second);
      left = std::min(most, left + seconds * most);
    };
    refill(my.bytes_left_, my.limits_.bytes_per_second);
    refill(my.messages_left_, my.limits_.messages_per_second);
    boost::system::error_code ignored;
    const auto waits = my.socket_.available(ignored) > 0;  // data has arrived, and is not read yet
    my.quiet_ticks_ = waits ? 0 : my.quiet_ticks_ + 1;
    // A process that was suspended has missed few ticks, however long ago it last received anything.
    const auto is_quiet = my.quiet_ticks_ * interval * 2 >= my.limits_.silence;
    if (is_quiet && now - my.heard_ > my.limits_.silence)
      return my.end(cause::silent, "it was silent for " + std::to_string(my.limits_.silence.count()) + " ms");
    if (!my.out_.empty() && now - my.written_ > my.limits_.stall)
      return my.end(cause::silent, "it read nothing for " + std::to_string(my.limits_.stall.count()) + " ms");
    if (!my.awaits_remote_) my.read_remote();
    my.tick();
  });
}

/// Ends the connection. CAF still gets what has arrived, unless the other side must not be trusted any more.
void pump::end(cause what, const std::string& why) {
  if (!socket_.is_open()) return;
  boost::system::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  if (what == cause::invalid || in_.empty()) local_.close(ignored);
  if (const auto when_closed = std::exchange(closed_, {})) when_closed({what, why});
}

void pump::close_soon() {
  asio::post(*io_, [self = shared_from_this()] { self->close(); });
}

void pump::close() {
  boost::system::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  local_.close(ignored);
}

}  // namespace troupe::basp

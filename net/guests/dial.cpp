#include "troupe/net/guests/dial.hpp"

#include "troupe/files/error.hpp"
#include "troupe/net/channels/tls.hpp"
#include "troupe/net/guests/entrance_file.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::guests {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tcp = boost::asio::ip::tcp;

/// Waits for a socket until a deadline.
class waiter {
 public:
  explicit waiter(milliseconds patience) : ends_(steady_clock::now() + patience) {}

  void wait(int socket, short what) const {
    while (true) {
      const auto left = std::chrono::duration_cast<milliseconds>(ends_ - steady_clock::now()).count();
      pollfd polled{.fd = socket, .events = what, .revents = 0};
      const auto count = left > 0 ? ::poll(&polled, 1, static_cast<int>(left)) : 0;
      if (count > 0) return;
      if (count == 0) throw std::runtime_error("it did not answer in time");
      if (errno != EINTR) throw std::runtime_error(std::strerror(errno));
    }
  }

 private:
  steady_clock::time_point ends_;
};

/// Connects to the first address of the host that answers.
tcp::socket connect(const dial_options& how, const waiter& until) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const auto port = std::to_string(how.address.port);
  if (const auto error = ::getaddrinfo(how.address.host.c_str(), port.c_str(), &hints, &found); error != 0)
    throw std::runtime_error(std::string("its host is not known: ") + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all{found, ::freeaddrinfo};
  std::string reason = "it has no address";
  for (const auto* address = all.get(); address != nullptr; address = address->ai_next) {
    tcp::socket socket{*how.io};
    boost::system::error_code error;
    socket.open(address->ai_family == AF_INET6 ? tcp::v6() : tcp::v4(), error);
    if (!error) socket.native_non_blocking(true, error);
    if (error) {
      reason = error.message();
      continue;
    }
    int problem = ::connect(socket.native_handle(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      until.wait(socket.native_handle(), POLLOUT);
      socklen_t size = sizeof(problem);
      ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &problem, &size);
    }
    if (problem == 0) {
      socket.set_option(tcp::no_delay{true}, error);
      return socket;
    }
    reason = std::strerror(problem);
  }
  throw std::runtime_error(reason);
}

void shake_hands(transport::channel& bytes, int socket, const waiter& until) {
  using progress = transport::channel::progress;
  for (auto now = bytes.shake_hands(); now != progress::done; now = bytes.shake_hands())
    until.wait(socket, now == progress::wants_read ? POLLIN : POLLOUT);
}

void write_line(transport::channel& bytes, int socket, const std::string& line, const waiter& until) {
  auto left = std::as_bytes(std::span{line});
  while (!left.empty()) {
    const auto count = bytes.write({}, left);
    if (count >= 0)
      left = left.subspan(static_cast<std::size_t>(count));
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      until.wait(socket, bytes.needs_input() ? POLLIN : POLLOUT);
    else if (errno != EINTR)
      throw std::runtime_error(bytes.error().empty() ? std::strerror(errno) : bytes.error());
  }
}

/// Reads a line; `already` is what has arrived after it.
std::string read_line(transport::channel& bytes, int socket, std::vector<std::byte>& already, const waiter& until) {
  std::array<std::byte, most_line_bytes> piece;
  std::string line;
  while (true) {
    const auto count = bytes.read(piece);
    if (count > 0) {
      const auto end = piece.begin() + count;
      const auto stop = std::find(piece.begin(), end, std::byte{'\n'});
      line.append(reinterpret_cast<const char*>(piece.data()), static_cast<std::size_t>(stop - piece.begin()));
      if (line.size() > most_line_bytes) throw std::runtime_error("it sent a greeting that is too long");
      if (stop == end) continue;
      already.assign(stop + 1, end);
      return line;
    }
    if (count == 0) throw std::runtime_error("it closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      until.wait(socket, POLLIN);
    else if (errno != EINTR)
      throw std::runtime_error(bytes.error().empty() ? std::strerror(errno) : bytes.error());
  }
}

}  // namespace

run_address run_in(const std::filesystem::path& out) try {
  const auto entrance = read_entrance(out);
  return {
      .text = print_endpoint(entrance.address),
      .name = {},
      .address = entrance.address,
      .channel = [secret = entrance.secret](int socket) { return transport::secret_channel_of_guest(socket, secret); }};
} catch (const input_error& problem) {
  throw attach_error(problem.what());
}

run_address run_at(const std::string& address, const guest_credentials& who) try {
  const auto where = parse_endpoint(address);
  if (!where) throw attach_error("\"" + address + "\" is not an address; expected one such as 10.0.0.1:4700");
  const auto files = security::files_in(who.folder, who.name);
  return {
      .text = address,
      .name = security::check_guest(files),
      .address = *where,
      .channel = [files, node = who.node](int socket) { return transport::tls_channel_of_guest(socket, files, node); }};
} catch (const input_error& problem) {
  throw attach_error(problem.what());
}

dialled dial(const dial_options& how, const introduction& who) {
  const waiter until{how.patience};
  dialled to{.io = how.io, .socket = connect(how, until), .bytes = {}, .answer = {}, .already = {}};
  const auto socket = to.socket.native_handle();
  to.bytes = how.channel(socket);
  shake_hands(*to.bytes, socket, until);
  write_line(*to.bytes, socket, line_of(who), until);
  to.answer = parse_answer(read_line(*to.bytes, socket, to.already, until));
  if (!to.answer.refusal.empty()) throw std::runtime_error("it refuses this guest: " + to.answer.refusal);
  return to;
}

}  // namespace troupe::guests

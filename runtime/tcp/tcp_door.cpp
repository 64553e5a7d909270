#include "troupe/runtime/tcp/tcp_door.hpp"

#include "troupe/runtime/support/short_slices.hpp"
#include "troupe/runtime/tcp/listen.hpp"

#include <algorithm>
#include <exception>
#include <pthread.h>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_strangers = 64;
constexpr std::size_t most_warnings = 64;

/// Time before a node is dialled again that could not identify itself or refused the identification of this side.
constexpr std::chrono::milliseconds after_refusal{1'000};

std::string host_of(const tcp::socket& socket) {
  error_code ignored;
  return socket.remote_endpoint(ignored).address().to_string();
}

}  // namespace

tcp_door::tcp_door(tcp_options options)
    : options_(std::move(options)),
      session_(options_.session),
      work_(asio::make_work_guard(*io_)),
      acceptor_(listen_on(*io_, options_.listen)),
      dialler_(io_, options_.patience),
      later_(*io_) {
  thread_ = std::thread{[this] {
    pthread_setname_np(pthread_self(), "links");
    use_short_slices();
    io_->run();
  }};
}

void tcp_door::close() {
  if (!thread_.joinable()) return;
  post([this] {
    ending_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    later_.cancel();
    for (const auto& stranger : std::exchange(strangers_, {})) stranger->close();
    for (const auto& dialled : std::exchange(dialled_, {})) dialled->close();
    for (const auto& [where, links] : planes_) links->close();
    dialler_.close();
    work_.reset();
  });
  thread_.join();
}

std::string tcp_door::name_of(std::uint32_t node) const {
  return node < options_.names.size() ? options_.names[node] : std::to_string(node);
}

tcp_plane* tcp_door::plane_of(const std::shared_ptr<connection>& who) const {
  const auto where = who->where();
  const auto entry = where ? planes_.find(*where) : planes_.end();
  return entry == planes_.end() ? nullptr : entry->second;
}

void tcp_door::identified(const std::shared_ptr<connection>& who) {
  strangers_.remove(who);
  dialled_.remove(who);
}

void tcp_door::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (ending_) return;
    if (error) {  // out of descriptors, or the connection is closed already; others may still arrive
      later_.expires_after(between_dials);
      later_.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
      return;
    }
    if (strangers_.size() >= most_strangers) make_room(host_of(socket));
    try {
      strangers_.push_back(make(std::move(socket), std::nullopt));
      strangers_.back()->start(options_.patience);
    } catch (const std::exception& problem) {  // out of memory or of random numbers
      warn(std::nullopt, "a stranger", problem.what());
    }
    accept();
  });
}

/// Closes the oldest stranger. If it belongs to a node of the run, the node connects again.
void tcp_door::make_room(const std::string& host) {
  warn(std::nullopt, host, "too many connections have not identified themselves");
  const auto oldest = strangers_.front();
  strangers_.pop_front();
  auto* owner = plane_of(oldest);
  if (!owner || owner->forget(oldest)) oldest->close();
}

void tcp_door::dial(plane where, std::uint32_t node, std::chrono::milliseconds delay) {
  const destination to{node, where};
  dialler_.dial(
      options_.addresses[node], delay, [this, to] { return planes_.at(to.where)->wants(to.node); },
      [this, to](tcp::socket socket) {
        try {
          dialled_.push_back(make(std::move(socket), to));
        } catch (const std::exception& problem) {  // out of memory or of random numbers
          warn(to, {}, problem.what());
          return dial(to.where, to.node, after_refusal);
        }
        dialled_.back()->start(to.where == plane::control ? options_.patience : options_.timeout);
        dialled_.back()->greet(options_.me, session_, to.where, options_.control);
      });
}

/// Makes a connection that has not received a hello. If `dialled` is set, this side has dialled it.
std::shared_ptr<connection> tcp_door::make(tcp::socket socket, std::optional<destination> dialled) {
  const connection::listener listener{
      .greeted = [this, dialled](const auto& who, const frame& hello) { return greeted(who, hello, dialled); },
      .foreign = [this, dialled](const auto& who) { return answer_foreign(who, dialled); },
      .guest = options_.guests ? [this, from = host_of(socket)](const auto& who) { hand_over(who, from); }
                               : std::function<void(const std::shared_ptr<connection>&)>{},
      .arrived =
          [this](const auto& who, frame&& arrived, std::shared_ptr<const void> receipt) {
            if (!ending_) plane_of(who)->arrived(who, std::move(arrived), std::move(receipt));
          },
      .closed =
          [this, dialled, from = host_of(socket)](const auto& who, const connection_loss& how) {
            const auto is_visitor = is_first() && who->where() == plane::control &&
                                    std::find(strangers_.begin(), strangers_.end(), who) != strangers_.end();
            if (how.what == connection_loss::cause::unidentified ||
                (how.what == connection_loss::cause::invalid && is_visitor))
              warn(dialled, from, how.text);
            closed(who, dialled, how);
          }};
  const connection_options options{.io = io_,
                                   .limits = options_.limits,
                                   .pool = options_.pool,
                                   .window = options_.window_bytes,
                                   .silence = options_.silence};
  const auto file = socket.native_handle();
  auto bytes = dialled ? options_.channels->dialled(file, name_of(dialled->node), dialled->where)
                       : options_.channels->accepted(file);
  return std::make_shared<connection>(options, std::move(socket), std::move(bytes), listener);
}

/// Checks a hello: it must come from the node that was dialled, from a later node that opens a tensor link, or from a
/// visitor of the first node.
bool tcp_door::greeted(const std::shared_ptr<connection>& who, const frame& hello, std::optional<destination> dialled) {
  const auto node = hello.header.to;
  const auto where = static_cast<plane>(hello.header.which.place);
  if (node >= nodes() || (dialled ? node != dialled->node || where != dialled->where : node <= options_.me))
    return false;
  if (dialled || where == plane::tensors) who->check(name_of(node));  // a visitor has yet to send its name
  if (where == plane::control && hello.header.which.part != static_cast<std::uint32_t>(options_.control))
    throw frame_error("its control messages are carried otherwise; set the same transport.control on all nodes");
  auto* owner = plane_of(who);
  return owner && owner->greeted(who, node, hello.session, dialled.has_value());
}

void tcp_door::hand_over(const std::shared_ptr<connection>& guest, const std::string& host) {
  identified(guest);
  const auto arrival = std::make_shared<guest_arrival>(guest->release());
  arrival->host = host;
  options_.guests(arrival);
}

/// Sends this node's version to a visitor that uses another version of the protocol. If this side has dialled, reports
/// the other version to the plane.
bool tcp_door::answer_foreign(const std::shared_ptr<connection>& who, std::optional<destination> dialled) {
  if (!dialled) {
    who->greet(options_.me, {}, plane::control, options_.control);
    return true;
  }
  planes_.at(dialled->where)->foreign();
  return false;
}

void tcp_door::closed(const std::shared_ptr<connection>& who, std::optional<destination> dialled,
                      const connection_loss& how) {
  if (ending_) return;
  const auto was_stranger = strangers_.remove(who) > 0;
  auto* owner = plane_of(who);
  if (owner && owner->closed(who, how)) return;
  if (was_stranger) return;
  dialled_.remove(who);
  if (!dialled || !planes_.at(dialled->where)->wants(dialled->node)) return;
  dial(dialled->where, dialled->node, how.what == connection_loss::cause::unidentified ? after_refusal : between_dials);
}

void tcp_door::warn(std::optional<destination> dialled, const std::string& host, const std::string& why) {
  if (ending_ || !warned_by_ || warned_.size() > most_warnings || !warned_.insert(why).second) return;
  if (warned_.size() > most_warnings)
    return warned_by_("warning: connections fail for many reasons; further ones are not reported");
  warned_by_("warning: " +
             (dialled ? "node " + name_of(dialled->node) + " at " + print_endpoint(options_.addresses[dialled->node]) +
                            " could not be connected: "
                      : "refused a connection from " + host + ": ") +
             why);
}

}  // namespace troupe::transport

#include "troupe/runtime/guests/entrance.hpp"

#include "troupe/files/text.hpp"
#include "troupe/net/basp/pump.hpp"
#include "troupe/net/basp/small_system.hpp"
#include "troupe/net/guests/greeting.hpp"
#include "troupe/runtime/guests/front.hpp"
#include "troupe/runtime/guests/guest_session.hpp"
#include "troupe/runtime/tcp/guest_arrival.hpp"
#include "troupe/runtime/topology/validate_exchanges.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::guests {

namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;
using arrival_pointer = std::shared_ptr<transport::guest_arrival>;

/// Each name is reported at most once in this time, and so many names are remembered.
constexpr std::chrono::seconds between_reports{60};
constexpr std::size_t most_names = 64;

/// Guests that may greet at a time.
constexpr std::size_t most_greeting = 16;

/// Reads the line with which a guest greets. Everything happens on the io thread.
class greeter : public std::enable_shared_from_this<greeter> {
 public:
  /// Called once: with the guest's introduction and the bytes that follow it, or with the reason why there is none.
  struct listener {
    std::function<void(const arrival_pointer&, const introduction&, std::vector<std::byte> already)> greeted;
    std::function<void(const arrival_pointer&, const std::string& why)> failed;
  };

  greeter(arrival_pointer guest, listener to)
      : guest_(std::move(guest)), timer_(*guest_->io), listener_(std::move(to)) {}

  void start(std::chrono::milliseconds patience) {
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->fail("it did not greet in time");
    });
    read();
  }

  bool is_done() const { return done_; }

  /// Disconnects the guest if it has not greeted yet. Any thread may call it.
  void close_soon() {
    asio::post(*guest_->io, [self = shared_from_this()] {
      if (self->done_.exchange(true)) return;
      self->timer_.cancel();
      boost::system::error_code ignored;
      self->guest_->socket.close(ignored);
    });
  }

 private:
  void read() try {
    std::array<std::byte, most_line_bytes> piece;
    while (!done_) {
      const auto count = guest_->bytes->read(std::span{piece}.first(most_line_bytes - line_.size()));
      if (count > 0) {
        const auto end = piece.begin() + count;
        const auto stop = std::find(piece.begin(), end, std::byte{'\n'});
        line_.append(reinterpret_cast<const char*>(piece.data()), static_cast<std::size_t>(stop - piece.begin()));
        if (stop != end) return finish({stop + 1, end});
        if (line_.size() >= most_line_bytes) return fail("it sent a greeting that is too long");
      } else if (count == 0) {
        return fail("it closed the connection before it greeted");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return guest_->socket.async_wait(asio::ip::tcp::socket::wait_read,
                                         [self = shared_from_this()](boost::system::error_code error) {
                                           if (!error) self->read();
                                         });
      } else if (errno != EINTR) {
        return fail(std::strerror(errno));
      }
    }
  } catch (const std::exception& problem) {
    fail(problem.what());
  }

  void finish(std::vector<std::byte> already) {
    const auto who = parse_introduction(line_);
    timer_.cancel();
    done_ = true;
    listener_.greeted(guest_, who, std::move(already));
  }

  void fail(const std::string& why) {
    if (done_.exchange(true)) return;
    timer_.cancel();
    listener_.failed(guest_, why);
  }

  arrival_pointer guest_;
  asio::steady_timer timer_;
  listener listener_;
  std::string line_;
  std::atomic<bool> done_{false};  ///< Set on the io thread only.
};

/// Writes a short text at once; a fresh connection has room for it. Returns whether it is written.
bool write_now(transport::channel& bytes, const std::string& text) {
  auto left = std::as_bytes(std::span{text});
  while (!left.empty()) {
    const auto count = bytes.write({}, left);
    if (count > 0)
      left = left.subspan(static_cast<std::size_t>(count));
    else if (count < 0 && errno != EINTR)
      return false;
  }
  return true;
}

}  // namespace

/// What the guests of an entrance have in common. `mutex_` protects everything but the options.
class entrance::hall : public std::enable_shared_from_this<entrance::hall> {
 public:
  explicit hall(entrance_options options) : options_(std::move(options)) {}

  void take(const arrival_pointer& guest) {
    const auto me = weak_from_this();
    const auto one = std::make_shared<greeter>(
        guest, greeter::listener{.greeted =
                                     [me](const auto& guest, const auto& who, std::vector<std::byte> already) {
                                       if (const auto hall = me.lock()) hall->greeted(guest, who, std::move(already));
                                     },
                                 .failed =
                                     [me](const auto& guest, const std::string& why) {
                                       if (const auto hall = me.lock()) hall->refuse(guest, {}, why);
                                     }});
    {
      const std::lock_guard lock{mutex_};
      if (closed_) return;
      greeting_.remove_if([](const auto& other) { return other->is_done(); });
      sessions_.remove_if([](const auto& session) { return session->has_ended(); });
      if (greeting_.size() >= most_greeting) {
        greeting_.front()->close_soon();
        greeting_.pop_front();
      }
      greeting_.push_back(one);
    }
    one->start(options_.patience);  // may call greeted() at once
  }

  void connect(steering run) {
    const std::lock_guard lock{mutex_};
    steer_ = std::move(run);
    state_ = "training";
  }

  void close() {
    std::list<std::shared_ptr<guest_session>> sessions;
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
      steer_ = {};
      for (const auto& one : std::exchange(greeting_, {})) one->close_soon();
      sessions = std::exchange(sessions_, {});
    }
    for (const auto& session : sessions) session->begin_closing();
    sessions.clear();  // joins their threads
  }

 private:
  void greeted(const arrival_pointer& guest, const introduction& who, std::vector<std::byte> already) {
    const auto proven = guest->bytes->name_of_guest();
    const auto name = proven.empty() ? who.name : proven;
    if (const auto objection = objection_to(who, name, !proven.empty()); !objection.empty())
      return refuse(guest, name, objection);
    who.as == purpose::member ? seat_member(guest, name, std::move(already)) : admit(guest, name, std::move(already));
  }

  /// Returns why the guest is refused, or "".
  std::string objection_to(const introduction& who, const std::string& name, bool certified) const {
    const auto& allow = options_.allow;
    const auto listed = std::find(allow.begin(), allow.end(), name) != allow.end();
    if (!topology::legal_name(name)) return "its name is not one; expected at most 64 letters, digits, - and _";
    if (who.protocol != protocol)
      return "it speaks version " + std::to_string(who.protocol) + " of the protocol of guests; expected " +
             std::to_string(protocol);
    // The file names the actors of exchanges, so that they need not be in actors.allow as well.
    if (who.as == purpose::member) return objection_to_member(name);
    if (!listed && (!allow.empty() || certified)) return "its name is not in actors.allow";
    if (who.caf != caf_version()) return "it uses CAF " + text::printable(who.caf) + "; expected " + caf_version();
    const std::lock_guard lock{mutex_};
    if (sessions_.size() >= options_.most_guests)
      return "there are " + std::to_string(sessions_.size()) + " guests already";
    return {};
  }

  std::shared_ptr<seat> seat_of(const std::string& name) const {
    const auto& seats = options_.seats;
    const auto found =
        std::find_if(seats.begin(), seats.end(), [&](const auto& seat) { return seat && seat->actor() == name; });
    return found == seats.end() ? nullptr : *found;
  }

  std::string objection_to_member(const std::string& name) const {
    const auto seat = seat_of(name);
    return seat ? seat->objection() : "no exchange of this run has an actor of its name (kind = \"remote\")";
  }

  void seat_member(const arrival_pointer& guest, const std::string& name, std::vector<std::byte> already) {
    const auto seat = seat_of(name);
    answer greeting{.node = options_.node, .version = options_.version};
    seat->describe(greeting);
    if (!write_now(*guest->bytes, line_of(greeting))) return;
    seat->take(guest, std::move(already), options_.patience, [me = weak_from_this(), name](const std::string& why) {
      if (const auto hall = me.lock()) hall->say("refused " + name, "warning: refused guest " + name + ": " + why);
    });
  }

  void admit(const arrival_pointer& guest, const std::string& name, std::vector<std::byte> already) {
    if (!write_now(*guest->bytes, line_of(answer{.node = options_.node, .version = options_.version}))) return;
    const auto me = weak_from_this();
    const std::lock_guard lock{mutex_};
    if (closed_) return;
    sessions_.push_back(std::make_shared<guest_session>(
        guest, std::move(already),
        guest_session_options{
            .front = {.guest = name,
                      .feed = options_.feed,
                      .status =
                          [me] {
                            const auto hall = me.lock();
                            return hall ? hall->status() : run_status{.state = "ended"};
                          },
                      .steer =
                          [me](const steering_request& what, const std::string& who, const auto& answer) {
                            const auto hall = me.lock();
                            if (!hall) return answer(steered{.refusal = "the run has ended"});
                            hall->steer(what, who, answer);
                          },
                      .about = options_.about},
            .limits = {.bytes_per_second = options_.bytes_per_second,
                       .messages_per_second = options_.messages_per_second,
                       .silence = options_.silence,
                       .stall = options_.silence},
            .ended = [me, name](const std::string& why) {
              if (const auto hall = me.lock()) hall->take_leave(name, why);
            }}));
    say_locked("attached " + name, "guest " + name + " has attached");
  }

  run_status status() const {
    const auto now = options_.feed->after({.line = UINT64_MAX});
    const std::lock_guard lock{mutex_};
    return {.state = now.over ? "ended" : state_, .step = now.step, .steps = options_.steps};
  }

  void steer(const steering_request& what, const std::string& guest,
             const std::function<void(const steered&)>& answer) {
    steering run;
    {
      const std::lock_guard lock{mutex_};
      run = steer_;
    }
    if (!run) return answer(steered{.refusal = "training has not begun"});
    run(what, guest, [me = weak_from_this(), what, answer](const steered& how) {
      if (const auto hall = me.lock(); hall && how.refusal.empty()) hall->note(what);
      answer(how);
    });
  }

  /// Notes how a request that was carried out has changed the state of the run.
  void note(const steering_request& what) {
    const std::lock_guard lock{mutex_};
    if (std::holds_alternative<pause_run>(what)) state_ = "paused";
    if (std::holds_alternative<continue_run>(what)) state_ = "training";
    if (std::holds_alternative<halt_run>(what)) state_ = "ending";
  }

  /// Refuses a guest, whose name may be unknown, and closes its connection.
  void refuse(const arrival_pointer& guest, const std::string& name, const std::string& why) {
    write_now(*guest->bytes, line_of(answer{.refusal = why, .version = options_.version}));
    boost::system::error_code ignored;
    guest->socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    guest->socket.close(ignored);
    const auto proven = guest->bytes->name_of_guest();
    const auto& called = name.empty() ? proven : name;
    say("refused " + called, "warning: refused " +
                                 (called.empty() ? "a guest from " + guest->host : "guest " + text::printable(called)) +
                                 ": " + why);
  }

  /// Called on the thread of the session.
  void take_leave(const std::string& name, const std::string& why) {
    say("left " + name, "guest " + name + " has left: " + why);
  }

  /// Reports something about a name, unless something of the same kind was reported lately.
  void say(const std::string& key, const std::string& line) {
    const std::lock_guard lock{mutex_};
    say_locked(key, line);
  }
  void say_locked(const std::string& key, const std::string& line) {
    const auto now = steady_clock::now();
    std::erase_if(reported_, [&](const auto& entry) { return now - entry.second >= between_reports; });
    if (reported_.size() >= most_names || !reported_.emplace(key, now).second) return;
    options_.report(line);
  }

  const entrance_options options_;
  mutable std::mutex mutex_;
  steering steer_;
  std::string state_{"waiting"};
  bool closed_{false};
  std::list<std::shared_ptr<greeter>> greeting_;
  std::list<std::shared_ptr<guest_session>> sessions_;
  std::map<std::string, steady_clock::time_point> reported_;
};

entrance::entrance(entrance_options options) : hall_(std::make_shared<hall>(std::move(options))) {}

entrance::~entrance() {
  close();
}

void entrance::take(const std::shared_ptr<transport::guest_arrival>& guest) {
  hall_->take(guest);
}

void entrance::connect(steering run) {
  hall_->connect(std::move(run));
}

void entrance::close() {
  hall_->close();
}

}  // namespace troupe::guests

#include "troupe/runtime/tcp/caf_control_links.hpp"

#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/net/basp/pump.hpp"
#include "troupe/net/basp/small_system.hpp"
#include "troupe/runtime/tcp/welcome.hpp"

#include <boost/asio/steady_timer.hpp>
#include <caf/all.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::transport {

namespace {

/// Asks the other side to answer, which it does after it has taken in everything that was sent before.
struct leaving {};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, leaving&) {
  return f(caf::meta::type_name("leaving"));
}

constexpr auto* name_of_leaving = "troupe.leaving";

/// The actor of a node that takes in the messages of a list from another node.
template <class Messages>
using receiver_of = typename control::handler_of<Messages>::template extend<caf::replies_to<leaving>::with<leaving>>;

/// The actor of the first node, for which the others ask.
using actor_of_first = receiver_of<control::to_first_node>;

/// How long the other side may take to take in what was sent last.
constexpr std::chrono::milliseconds time_to_leave{300};

/// Visitors that have not been admitted.
constexpr std::size_t most_visitors = 64;

template <class Message>
std::string name_in_caf() {
  return "troupe." + control::name_of(control::message{Message{}});
}

/// The configuration of a system in which these messages are known.
struct links_config : basp::small_config {
  explicit links_config(std::chrono::milliseconds beat) : basp::small_config(beat) {
    add(control::to_first_node{});
    add(control::from_first_node{});
    basp::add_message<leaving>(*this, name_of_leaving);
  }

  template <class... Messages>
  void add(control::list<Messages...> /*all*/) {
    (basp::add_message<Messages>(*this, name_in_caf<Messages>()), ...);
  }
};

template <class... Messages>
std::set<std::string> names_of(control::list<Messages...> /*all*/) {
  return {name_in_caf<Messages>()..., name_of_leaving};
}

/// A connection to another node.
struct line {
  visitor_id id{};
  std::shared_ptr<basp::pump> moves;
  caf::actor front;                     ///< Our actor.
  caf::strong_actor_ptr far{};          ///< That of the other node; null before it is known.
  std::optional<std::uint32_t> node{};  ///< The other node: on the first node, once it is admitted.
  bool introduced{false}, undecided{false}, gone{false};
  std::string why{closed_text};                          ///< How the connection ends, if it does.
  std::string host{};                                    ///< The address from which the other node has dialled.
  std::function<void(const std::string& name)> check{};  ///< Throws handshake_error unless a certificate has this name.
  std::unique_ptr<boost::asio::steady_timer> patience{};  ///< Ends a visitor that is not admitted in time.
  std::optional<basp::node_text> caf_node{};              ///< Its id, once it is known.
};

using line_pointer = std::shared_ptr<line>;

/// What the actor of a line takes in besides, from this process only.
/// join:  the actor of the other node is known; it is monitored from now on.
/// flush: answered when the other side has taken in everything that was sent before, or does not answer.
template <class Messages>
using front_of = typename receiver_of<Messages>::template extend<caf::reacts_to<caf::join_atom, caf::strong_actor_ptr>,
                                                                 caf::replies_to<caf::flush_atom>::with<bool>>;

}  // namespace

/// The actors of this node, one for each line to another node, and what they have in common. The listener is called
/// only on the one thread of the actor system, so that its functions are called one at a time.
class caf_control_links::office {
 public:
  explicit office(tcp_door& door) : door_(door) {}

  ~office() {
    {
      const std::lock_guard lock{mutex_};
      for (const auto& one : lines_) caf::anon_send_exit(one->front, caf::exit_reason::user_shutdown);
    }
    running_.reset();
  }

  // Called by the links. ---------------------------------------------------------------------------------------------

  void open(listener to) {
    door_.post([this, to = std::move(to)] {
      listener_ = to;
      // On this thread: a thread that makes an actor system, or an actor in it, keeps its logger until the thread ends,
      // and the destructor of the system waits for that.
      auto running = std::make_unique<small_system>(door_.options().silence / beats_per_silence);
      {
        const std::lock_guard lock{mutex_};
        running_ = std::move(running);
      }
      door_.set_warned(to.warned);
      if (door_.is_first())
        door_.accept();
      else
        door_.dial(plane::control, first_node);
    });
  }

  bool admit(visitor_id id, std::uint32_t node) {
    const std::lock_guard lock{mutex_};
    const auto visitor = visitor_of(id);
    if (!visitor) return false;
    visitor->undecided = false;
    const auto before =
        std::find_if(lines_.begin(), lines_.end(), [node](const auto& one) { return one->node == node; });
    if (before != lines_.end()) {  // the link of a node that has left without closing it
      (*before)->node.reset();
      hang_up(*before);
    }
    visitor->node = node;
    return true;
  }

  void refuse(visitor_id id, const control::refusal& refusal) {
    const std::lock_guard lock{mutex_};
    const auto visitor = visitor_of(id);
    if (!visitor) return;
    visitor->undecided = false;
    send(*visitor, refusal);  // the visitor leaves, or its patience ends
  }

  void tell(std::uint32_t node, const control::message& what) {
    const std::lock_guard lock{mutex_};
    const auto to = std::find_if(lines_.begin(), lines_.end(),
                                 [node](const auto& one) { return one->node == node && one->far && !one->gone; });
    if (to == lines_.end()) return;
    const auto* answer = std::get_if<control::welcome>(&what);
    if (!answer) return send(**to, what);
    send(**to, with_session(*answer, door_.options().session));
  }

  /// Waits until the other nodes have taken in what was sent to them, or do not answer.
  void leave() {
    std::vector<caf::actor> open;
    {
      const std::lock_guard lock{mutex_};
      for (const auto& one : lines_)
        if (one->far && !one->gone) open.push_back(one->front);
    }
    if (open.empty()) return;
    caf::scoped_actor self{running_->system};
    using answer = decltype(self->request(caf::actor{}, caf::infinite, caf::flush_atom::value));
    std::vector<answer> awaited;
    for (const auto& front : open) awaited.push_back(self->request(front, 2 * time_to_leave, caf::flush_atom::value));
    for (auto& one : awaited) one.receive([](bool) {}, [](const caf::error&) {});
  }

  // On the thread of the door. ---------------------------------------------------------------------------------------

  bool wants() const { return !joined_; }
  bool accepts() const { return door_.is_first() && running_; }

  void foreign() {
    joined_ = true;  // the version of the first node will not change
    listener_.foreign_first();
  }

  /// Takes over a connection on which both sides have said hello.
  void greeted(const std::shared_ptr<connection>& who) {
    door_.identified(who);
    if (door_.is_first()) who->greet(door_.me(), {}, plane::control, control_carrier::caf);
    auto arrival = who->release();
    make_room();
    const auto at = std::make_shared<line>();
    const auto ends = basp::make_socket_pair();
    auto& system = running_->system;
    at->check = [channel = arrival.bytes.get()](const std::string& name) { channel->check(name, plane::control); };
    at->host = arrival.host;
    at->front = door_.is_first() ? spawn_front(at, control::to_first_node{}, control::from_first_node{})
                                 : spawn_front(at, control::from_first_node{}, control::to_first_node{});
    if (!door_.is_first()) at->node = first_node;
    at->moves = std::make_shared<basp::pump>(
        arrival.io, std::move(arrival.socket), std::move(arrival.bytes), ends.ours,
        basp::gate_options{
            .most_payload = door_.options().limits.largest_control,
            .accepts = door_.is_first(),
            .own_node = basp::node_of(system),
            .actors = {at->front.id()},
            .is_new = [this, weak = std::weak_ptr(at)](const auto& node) { return note_node(weak.lock(), node); },
            .messages = names_of(control::to_first_node{})},
        basp::pump_limits{.silence = door_.options().silence, .stall = door_.options().silence},
        [this, weak = std::weak_ptr(at)](const basp::pump_end& how) {
          if (const auto one = weak.lock()) ended(one, how);
        });
    {
      const std::lock_guard lock{mutex_};
      at->id = visitor_id{next_visitor_++};
      lines_.push_back(at);
    }
    at->moves->start();
    if (door_.is_first()) {
      basp::offer(system, ends.theirs, caf::actor_cast<caf::strong_actor_ptr>(at->front),
                  system.message_types<actor_of_first>());
      return limit_patience(at);
    }
    basp::ask_for_actor(system, ends.theirs, system.message_types<actor_of_first>(), door_.options().timeout,
                        [this, at](const caf::strong_actor_ptr& far, const std::string& problem) {
                          // The connection may have ended before, and the first node be dialled again already.
                          if (!far) return hang_up(at, problem) ? dial_again() : void();
                          meet(at, far);
                          caf::anon_send(at->front, caf::join_atom::value, far);
                        });
  }

  void close() {
    const std::lock_guard lock{mutex_};
    for (const auto& one : lines_) {
      one->gone = true;
      one->moves->close();
      one->patience.reset();
    }
  }

  // Called by the actors. --------------------------------------------------------------------------------------------

  /// Notes the actor of the other node. Returns whether it was not known before.
  bool meet(const line_pointer& at, const caf::strong_actor_ptr& far) {
    const std::lock_guard lock{mutex_};
    if (!far || at->far) return false;
    at->far = far;
    return true;
  }

  void reached() const { listener_.reached_first(); }

  /// Handles a message. Closes the line if the other node may not send it.
  void heard(const line_pointer& at, const caf::strong_actor_ptr& from, control::message&& what) try {
    std::optional<std::uint32_t> node;
    {
      const std::lock_guard lock{mutex_};
      if (at->gone || from != at->far) return;
      node = at->node;
    }
    if (!node) return hear_visitor(at, std::move(what));
    control::check(what, door_.options().ranks, *node, door_.me());
    if (!door_.is_first()) joined_ = true;
    if (const auto* answer = std::get_if<control::welcome>(&what))
      door_.post([this, session = session_in(*answer)] { door_.set_session(session); });
    listener_.heard(*node, std::move(what));
  } catch (const handshake_error& problem) {
    door_.post([this, host = at->host, why = std::string(problem.what())] { door_.warn_of(host, why); });
    hang_up(at, problem.what());
  } catch (const std::exception& problem) {  // frame_error, or out of memory
    hang_up(at, problem.what());
  }

  /// The actor of the other node is down.
  void lost(const line_pointer& at) {
    std::optional<std::uint32_t> node;
    std::string why;
    {
      const std::lock_guard lock{mutex_};
      hang_up(at);
      lines_.remove(at);
      node = at->node;
      why = at->why;
    }
    if (!door_.is_first() && !joined_) return dial_again();
    if (node) listener_.parted(*node, why);
  }

 private:
  struct small_system {
    explicit small_system(std::chrono::milliseconds beat) : config(beat) {}
    links_config config;
    caf::actor_system system{config};
  };

  /// Returns a visitor that is still there, or null. Requires the lock.
  line_pointer visitor_of(visitor_id id) const {
    const auto one =
        std::find_if(lines_.begin(), lines_.end(), [id](const auto& other) { return other->id == id && !other->gone; });
    return one != lines_.end() && !(*one)->node ? *one : nullptr;
  }

  /// Sends a message in the name of our actor. Requires the lock.
  void send(const line& to, const control::message& what) const {
    // Put together at run time: what CAF generates to send each type by itself takes seconds to compile.
    const auto content =
        std::visit([](const auto& one) { return caf::message_builder{}.append(one).to_message(); }, what);
    caf::send_as(to.front, caf::actor_cast<caf::actor>(to.far), content);
  }

  /// Spawns the actor of a line, which takes in `Received` and whose counterpart takes in `Sent`.
  template <class... Received, class Sent>
  caf::actor spawn_front(const line_pointer& at, control::list<Received...> /*received*/, Sent /*sent*/) {
    using front = front_of<control::list<Received...>>;
    return caf::actor_cast<caf::actor>(
        running_->system.spawn([this, at](typename front::pointer self) -> typename front::behavior_type {
          const auto flushes = std::make_shared<std::vector<caf::typed_response_promise<bool>>>();
          self->set_down_handler([this, self, at, flushes](const caf::down_msg&) {
            for (auto& promise : *flushes) promise.deliver(false);
            lost(at);
            self->quit();
          });
          return {[this, self, at](const Received& message) {
                    const auto from = self->current_sender();
                    if (door_.is_first() && meet(at, from)) self->monitor(from);
                    heard(at, from, control::message{message});
                  }...,
                  [](leaving) { return leaving{}; },
                  [this, self](caf::join_atom, const caf::strong_actor_ptr& far) {
                    self->monitor(far);
                    reached();
                  },
                  [self, at, flushes](caf::flush_atom) -> caf::result<bool> {
                    auto promise = self->template make_response_promise<bool>();
                    flushes->push_back(promise);
                    self->request(caf::actor_cast<receiver_of<Sent>>(at->far), time_to_leave, leaving{})
                        .then([promise](leaving) mutable { promise.deliver(true); },
                              [promise](const caf::error&) mutable { promise.deliver(false); });
                    return promise;
                  }};
        }));
  }

  void hear_visitor(const line_pointer& at, control::message&& what) {
    auto* introduction = std::get_if<control::introduction>(&what);
    if (!introduction || std::exchange(at->introduced, true))
      throw frame_error("received a control message from a node that has not joined");
    at->check(introduction->node);
    {
      const std::lock_guard lock{mutex_};
      if (door_.is_full()) return send(*at, control::refusal{"all nodes of the run have already joined"});
      const auto undecided =
          std::count_if(lines_.begin(), lines_.end(), [](const auto& one) { return one->undecided; });
      if (undecided >= most_undecided) throw frame_error("too many nodes ask to join at once");
      at->undecided = true;
    }
    listener_.visited(at->id, std::move(*introduction));
  }

  /// Disconnects a line; if the other actor is known, ours then hears that it is down. Returns whether the line was
  /// connected. Requires the lock.
  bool hang_up(line_pointer at) {
    if (std::exchange(at->gone, true)) return false;
    at->moves->close_soon();
    if (at->far) return true;
    lines_.remove(at);
    caf::anon_send_exit(at->front, caf::exit_reason::user_shutdown);
    return true;
  }
  bool hang_up(const line_pointer& at, const std::string& why) {
    const std::lock_guard lock{mutex_};
    at->why = why;
    return hang_up(at);
  }

  /// Notes the CAF node at the other end of a line. Returns whether no other line leads to the same one.
  bool note_node(const line_pointer& at, const basp::node_text& node) {
    const std::lock_guard lock{mutex_};
    const auto is_same = [&](const auto& other) { return other->caf_node == node && !other->gone; };
    if (!at || std::any_of(lines_.begin(), lines_.end(), is_same)) return false;
    at->caf_node = node;
    return true;
  }

  /// A connection has ended. If the actor of the other node is known, ours will hear that it is down.
  void ended(const line_pointer& at, const basp::pump_end& how) {
    {
      const std::lock_guard lock{mutex_};
      at->gone = true;
      at->why = how.what == basp::pump_end::cause::closed   ? closed_text
                : how.what == basp::pump_end::cause::silent ? silence_text(door_.options().silence)
                                                            : how.text;
      if (at->far) return;
      lines_.remove(at);
    }
    caf::anon_send_exit(at->front, caf::exit_reason::user_shutdown);
    if (door_.is_first() && how.what == basp::pump_end::cause::invalid) door_.warn_of(at->host, how.text);
    if (!door_.is_first() && !joined_) dial_again();
  }

  void dial_again() {
    door_.post([this] {
      if (!door_.ending()) door_.dial(plane::control, first_node, between_dials);
    });
  }

  /// Disconnects a visitor that is not admitted in time.
  void limit_patience(const line_pointer& at) {
    at->patience = std::make_unique<boost::asio::steady_timer>(door_.timer());
    at->patience->expires_after(door_.options().patience);
    at->patience->async_wait([this, weak = std::weak_ptr(at)](boost::system::error_code error) {
      const auto one = weak.lock();
      if (error || !one) return;
      const std::lock_guard lock{mutex_};
      if (!one->node && !one->undecided) hang_up(one);
    });
  }

  /// Disconnects the oldest visitor if there are too many.
  void make_room() {
    const std::lock_guard lock{mutex_};
    const auto is_visitor = [](const auto& one) { return !one->node && !one->gone; };
    if (static_cast<std::size_t>(std::count_if(lines_.begin(), lines_.end(), is_visitor)) < most_visitors) return;
    hang_up(*std::find_if(lines_.begin(), lines_.end(), is_visitor));
  }

  tcp_door& door_;
  listener listener_;
  std::atomic<bool> joined_{false};  ///< Whether the first node has answered, or this node will never join.
  mutable std::mutex mutex_;         ///< Protects the lines.
  std::list<line_pointer> lines_;
  std::uint64_t next_visitor_{0};
  std::unique_ptr<small_system> running_;
};

caf_control_links::caf_control_links(tcp_door& door) : office_(std::make_unique<office>(door)) {
  door.add(plane::control, *this);
}

caf_control_links::~caf_control_links() = default;

void caf_control_links::open(listener listener) {
  office_->open(std::move(listener));
}

bool caf_control_links::admit(visitor_id id, std::uint32_t node) {
  return office_->admit(id, node);
}

void caf_control_links::refuse(visitor_id id, const control::refusal& refusal) {
  office_->refuse(id, refusal);
}

void caf_control_links::tell(std::uint32_t node, const control::message& what) {
  office_->tell(node, what);
}

void caf_control_links::leave() {
  office_->leave();
}

bool caf_control_links::wants(std::uint32_t /*node*/) const {
  return office_->wants();
}

bool caf_control_links::greeted(const std::shared_ptr<connection>& who, std::uint32_t /*node*/,
                                const session_id& /*session*/, bool dialled) {
  if (!dialled && !office_->accepts()) return false;
  office_->greeted(who);
  return true;
}

void caf_control_links::foreign() {
  office_->foreign();
}

void caf_control_links::arrived(const std::shared_ptr<connection>& /*who*/, frame&& /*arrived*/,
                                std::shared_ptr<const void> /*receipt*/) {
  throw frame_error("received a frame on a control link, which uses CAF");
}

bool caf_control_links::forget(const std::shared_ptr<connection>& /*who*/) {
  return true;  // what is identified belongs to the office
}

bool caf_control_links::closed(const std::shared_ptr<connection>& /*who*/, const connection_loss& /*how*/) {
  return false;
}

void caf_control_links::close() {
  office_->close();
}

}  // namespace troupe::transport

#include "troupe/runtime/transport/tcp_links.hpp"

#include "troupe/runtime/support/short_slices.hpp"
#include "troupe/runtime/transport/connection.hpp"
#include "troupe/runtime/transport/dialler.hpp"
#include "troupe/runtime/transport/link_table.hpp"
#include "troupe/runtime/transport/listen.hpp"

#include <ATen/ops/empty.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_strangers = 64;
constexpr int most_undecided = 8;  ///< Introductions that wait for an answer.
constexpr std::size_t most_warnings = 64;

/// Time until a node is dialled again that could not identify itself, or did not accept how this side does.
constexpr std::chrono::milliseconds after_refusal{1'000};

at::Tensor tensor_of(const std::vector<std::byte>& bytes) {
  auto values = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(values.mutable_data_ptr(), bytes.data(), bytes.size());
  return values;
}

std::span<const std::byte> payload_of(const at::Tensor& values) {
  return {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
}

class tcp_links final : public links {
 public:
  explicit tcp_links(tcp_options options)
      : options_(std::move(options)),
        nodes_(static_cast<std::uint32_t>(options_.addresses.size())),
        session_(options_.session),
        work_(asio::make_work_guard(*io_)),
        acceptor_(listen_on(*io_, options_.listen)),
        dialler_(io_, options_.patience),
        later_(*io_),
        deadline_(*io_),
        lost_(nodes_),
        controls_(nodes_),
        tensors_(nodes_) {
    thread_ = std::thread{[this] {
      pthread_setname_np(pthread_self(), "links");
      use_short_slices();
      io_->run();
    }};
  }

  ~tcp_links() override {
    asio::post(*io_, [this] {
      ending_ = true;
      error_code ignored;
      acceptor_.close(ignored);
      later_.cancel();
      deadline_.cancel();
      for (const auto& stranger : std::exchange(strangers_, {})) stranger->close();
      for (const auto& dialled : std::exchange(dialled_, {})) dialled->close();
      for (const auto* table : {&controls_, &tensors_})
        for (const auto& link : table->all()) link->close();
      dialler_.close();
      work_.reset();
    });
    thread_.join();
  }

  void open(listener listener) override {
    asio::post(*io_, [this, listener = std::move(listener)] {
      listener_ = listener;
      if (is_first())
        accept();
      else
        dial({first_node, plane::control});
    });
  }

  bool admit(visitor_id id, std::uint32_t node) override {
    undecided_ -= 1;
    const std::lock_guard lock{mutex_};
    const auto found = visitors_.find(id);
    if (found == visitors_.end()) return false;
    const auto visitor = found->second;
    const auto before = controls_.set(node, visitor);
    visitors_.erase(found);
    visitor->trust();
    asio::post(*io_, [this, visitor, before] {
      strangers_.remove(visitor);
      if (before) before->close();  // of a node that has left and not closed it
    });
    return true;
  }

  void refuse(visitor_id id, const control::refusal& refusal) override {
    undecided_ -= 1;
    std::shared_ptr<connection> visitor;
    {
      const std::lock_guard lock{mutex_};
      const auto found = visitors_.find(id);
      if (found != visitors_.end()) visitor = found->second;
    }
    if (visitor) put(*visitor, refusal);  // it leaves, or its patience ends
  }

  void link(frame_receiver receive) override {
    asio::post(*io_, [this, receive = std::move(receive)] {
      receive_ = receive;
      linking_ = true;
      deadline_.expires_after(options_.timeout);
      deadline_.async_wait([this](error_code error) {
        if (!error && !ending_) give_up();
      });
      if (!is_first()) accept();
      for (std::uint32_t node = 0; node < options_.me; ++node) dial({node, plane::tensors});
      tell_if_linked();
    });
  }

  void tell(std::uint32_t node, const control::message& what) override {
    const auto link = controls_.find(node);
    if (!link) return;
    const auto* answer = std::get_if<control::welcome>(&what);
    if (!answer) return put(*link, what);
    const auto* begin = reinterpret_cast<const char*>(options_.session.data());
    put(*link, control::welcome{answer->memories, {begin, options_.session.size()}});
  }

  void send(std::uint32_t node, std::uint32_t to, const part& piece) override {
    send_frame(node, header_of(to, piece), piece.piece.values);
  }
  void send(std::uint32_t node, const snapshot& result) override { send_frame(node, header_of(result), result.values); }
  void send(std::uint32_t node, const state_piece& piece) override { send_frame(node, header_of(piece), piece.bytes); }

 private:
  /// What this side has dialled.
  struct destination {
    std::uint32_t node{0};
    plane where{plane::tensors};
  };

  bool is_first() const { return options_.me == first_node; }

  std::string name_of(std::uint32_t node) const {
    return node < options_.names.size() ? options_.names[node] : std::to_string(node);
  }

  static std::string host_of(const tcp::socket& socket) {
    error_code ignored;
    return socket.remote_endpoint(ignored).address().to_string();
  }

  static void put(connection& link, const control::message& what) {
    auto bytes = tensor_of(control::encode(what));
    const auto header = header_of_control(bytes);
    link.send(header, std::move(bytes));
  }

  void send_frame(std::uint32_t node, const frame_header& header, const at::Tensor& values) {
    const auto link = tensors_.find(node);
    if (link && header.kind == frame_kind::copy) return link->send_later(header, values);
    if (link) link->send(header, values);
  }

  // Outgoing and incoming connections. -----------------------------------------------------------------------------

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (ending_) return;
      if (error) {  // out of descriptors, or the connection is closed already; others may still arrive
        later_.expires_after(between_dials);
        later_.async_wait([this](error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      if (strangers_.size() >= most_strangers) {  // if it belongs to a node of the run, the node connects again
        warn(std::nullopt, host_of(socket), "too many connections have not identified themselves");
        const auto oldest = strangers_.front();
        forget(oldest);  // from here on, admit() does not find it; if admit() was faster, it stays
        if (!controls_.node_of(oldest)) oldest->close();
      }
      try {
        strangers_.push_back(make(std::move(socket), std::nullopt));
        strangers_.back()->start(options_.patience);
      } catch (const std::exception& problem) {  // out of memory or of random numbers
        warn(std::nullopt, "a stranger", problem.what());
      }
      accept();
    });
  }

  void dial(destination to, std::chrono::milliseconds delay = {}) {
    dialler_.dial(
        options_.addresses[to.node], delay, [this, to] { return to.where == plane::control || !lost_[to.node]; },
        [this, to](tcp::socket socket) {
          try {
            dialled_.push_back(make(std::move(socket), to));
          } catch (const std::exception& problem) {  // out of memory or of random numbers
            warn(to, {}, problem.what());
            return dial(to, after_refusal);
          }
          dialled_.back()->start(to.where == plane::control ? options_.patience : options_.timeout);
          dialled_.back()->greet(options_.me, session_, to.where);
        });
  }

  /// Makes a connection that has not received a hello, and which this side has dialled if `dialled`.
  std::shared_ptr<connection> make(tcp::socket socket, std::optional<destination> dialled) {
    const connection::listener listener{
        .greeted = [this, dialled](const auto& who, const frame& hello) { return greeted(who, hello, dialled); },
        .foreign = [this, dialled](const auto& who) { return answer_foreign(who, dialled); },
        .arrived = [this](const auto& who, frame&& arrived,
                          std::shared_ptr<const void> receipt) { hear(who, std::move(arrived), std::move(receipt)); },
        .closed =
            [this, dialled, from = host_of(socket)](const auto& who, const connection_loss& how) {
              const auto refused = how.what == connection_loss::cause::unidentified ||
                                   (how.what == connection_loss::cause::invalid && visitor_of(who));
              if (refused) warn(dialled, from, how.text);
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

  // What connections report. ---------------------------------------------------------------------------------------

  /// Checks a hello: it must be from what was dialled, from a node after this one that opens a tensor link, or from a
  /// visitor of the first node.
  bool greeted(const std::shared_ptr<connection>& who, const frame& hello, std::optional<destination> dialled) {
    const auto node = hello.header.to;
    const auto where = static_cast<plane>(hello.header.which.place);
    if (node >= nodes_ || (dialled ? node != dialled->node || where != dialled->where : node <= options_.me))
      return false;
    if (dialled || where == plane::tensors) who->check(name_of(node));  // a visitor has yet to tell its name
    if (where == plane::tensors) return greet_peer(who, node, hello.session, dialled.has_value());
    if (dialled) return greet_first(who);
    return is_first() && greet_visitor(who);
  }

  bool greet_peer(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session, bool dialled) {
    if (!linking_ || session != session_ || tensors_.find(node) || lost_[node]) return false;
    strangers_.remove(who);
    dialled_.remove(who);
    who->trust();
    if (!dialled) who->greet(options_.me, session_, plane::tensors);
    tensors_.set(node, who);
    tell_if_linked();
    return true;
  }

  bool greet_first(const std::shared_ptr<connection>& who) {
    dialled_.remove(who);
    who->trust();
    controls_.set(first_node, who);
    listener_.reached_first();
    return true;
  }

  bool greet_visitor(const std::shared_ptr<connection>& who) {
    {
      const std::lock_guard lock{mutex_};
      visitors_.emplace(visitor_id{next_visitor_++}, who);
    }
    who->greet(options_.me, {}, plane::control);  // only a node that is admitted hears the session
    return true;
  }

  /// Tells a visitor of another version which one this is; one that was dialled has told it.
  bool answer_foreign(const std::shared_ptr<connection>& who, std::optional<destination> dialled) {
    if (!dialled) {
      who->greet(options_.me, {}, plane::control);
      return true;
    }
    if (dialled->where == plane::control) {
      joined_ = true;  // it will not become another one
      listener_.foreign_first();
    }
    return false;
  }

  void hear(const std::shared_ptr<connection>& who, frame&& arrived, std::shared_ptr<const void> receipt) {
    if (ending_) return;
    if (arrived.header.kind != frame_kind::control) {
      const auto from = tensors_.node_of(who);
      if (!from) return;
      control::check_sender(arrived.header, options_.ranks, *from);
      return receive_(std::move(arrived), std::move(receipt));
    }
    auto what = control::decode(payload_of(arrived.values));
    if (const auto node = controls_.node_of(who)) {
      control::check(what, options_.ranks, *node, options_.me);
      if (!is_first()) joined_ = true;
      if (const auto* answer = std::get_if<control::welcome>(&what)) take_session(answer->session);
      return listener_.heard(*node, std::move(what));
    }
    hear_visitor(who, std::move(what));
  }

  void take_session(const std::string& session) {
    if (session.size() != session_.size()) throw frame_error("received a welcome without a session");
    std::memcpy(session_.data(), session.data(), session.size());
  }

  void hear_visitor(const std::shared_ptr<connection>& who, control::message&& what) {
    const auto id = visitor_of(who);
    auto* introduction = std::get_if<control::introduction>(&what);
    if (!id || !introduction || !introduced_.insert(*id).second)
      throw frame_error("received a control message from a node that has not joined");
    who->check(introduction->node);
    if (linking_) return put(*who, control::refusal{"all nodes of the run have already joined"});
    if (undecided_ >= most_undecided) throw frame_error("too many nodes ask to join at once");
    undecided_ += 1;
    listener_.visited(*id, std::move(*introduction));
  }

  void closed(const std::shared_ptr<connection>& who, std::optional<destination> dialled, const connection_loss& how) {
    if (ending_) return;
    // From here on, admit() does not find it. If admit() was faster, it is a control link already.
    const auto was_stranger = forget(who);
    const auto control = controls_.take(who);
    const auto tensors = control ? std::nullopt : tensors_.take(who);
    if (control && (is_first() || joined_))
      return listener_.parted(*control, how.what == connection_loss::cause::closed ? closed_text : how.text);
    if (tensors) return lose(*tensors, how.text);
    if (was_stranger) return;
    dialled_.remove(who);
    if (!dialled || (dialled->where == plane::control && joined_)) return;
    dial(*dialled, how.what == connection_loss::cause::unidentified ? after_refusal : between_dials);
  }

  /// Forgets an incoming connection that has not identified itself; returns false if it is none.
  bool forget(const std::shared_ptr<connection>& who) {
    const auto id = visitor_of(who);
    const std::lock_guard lock{mutex_};
    if (id) visitors_.erase(*id), introduced_.erase(*id);
    return strangers_.remove(who) > 0;
  }

  std::optional<visitor_id> visitor_of(const std::shared_ptr<connection>& who) {
    const std::lock_guard lock{mutex_};
    for (const auto& [id, visitor] : visitors_)
      if (visitor == who) return id;
    return std::nullopt;
  }

  // Reports to the owner. ------------------------------------------------------------------------------------------

  void tell_if_linked() {
    for (std::uint32_t node = 0; node < nodes_; ++node)
      if (told_ || (node != options_.me && !tensors_.find(node))) return;
    told_ = true;
    deadline_.cancel();
    listener_.linked();
  }

  void warn(std::optional<destination> dialled, const std::string& host, const std::string& why) {
    if (ending_ || !listener_.warned || warned_.size() > most_warnings || !warned_.insert(why).second) return;
    if (warned_.size() > most_warnings)
      return listener_.warned("warning: connections fail for many reasons; further ones are not reported");
    listener_.warned("warning: " +
                     (dialled ? "node " + name_of(dialled->node) + " at " +
                                    topology::print_endpoint(options_.addresses[dialled->node]) +
                                    " could not be connected: "
                              : "refused a connection from " + host + ": ") +
                     why);
  }

  void give_up() {
    for (std::uint32_t node = 0; node < nodes_; ++node)
      if (node != options_.me && !tensors_.find(node)) lose(node, not_established_text(options_.timeout));
  }

  void lose(std::uint32_t node, const std::string& why) {
    if (lost_[node]) return;
    lost_[node] = true;
    listener_.lost(node, why);
  }

  tcp_options options_;
  std::uint32_t nodes_;
  session_id session_;
  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  dialler dialler_;
  asio::steady_timer later_, deadline_;
  // Connections that have not identified themselves, oldest first: incoming ones, of which there may be any number, and
  // outgoing ones, which are never closed to make room.
  std::list<std::shared_ptr<connection>> strangers_, dialled_;
  listener listener_;
  frame_receiver receive_;
  std::vector<bool> lost_;           ///< Whether the tensor link to each node is lost.
  std::set<visitor_id> introduced_;  ///< Visitors that have introduced themselves.
  std::set<std::string> warned_;
  std::uint64_t next_visitor_{0};
  bool joined_{false};  ///< The first node has answered the introduction.
  bool linking_{false}, told_{false}, ending_{false};
  std::atomic<int> undecided_{0};  ///< Introductions passed on that have been neither admitted nor refused.

  std::mutex mutex_;  ///< Protects the visitors, which the owner admits.
  std::map<visitor_id, std::shared_ptr<connection>> visitors_;
  link_table controls_, tensors_;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<links> make_tcp_links(tcp_options options) {
  return std::make_unique<tcp_links>(std::move(options));
}

}  // namespace troupe::transport

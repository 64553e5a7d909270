#include "troupe/runtime/transport/tensor_plane.hpp"

#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/transport/connection.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <list>
#include <pthread.h>
#include <thread>
#include <utility>

namespace troupe::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_strangers = 64;
constexpr std::chrono::milliseconds between_dials{20};

}  // namespace

class tensor_plane::links {
 public:
  explicit links(tensor_plane_options options)
      : options_(std::move(options)),
        work_(asio::make_work_guard(*io_)),
        acceptor_(*io_),
        later_(*io_),
        deadline_(*io_) {
    bind();
    thread_ = std::thread{[this] {
      pthread_setname_np(pthread_self(), "tensor plane");
      io_->run();
    }};
  }

  ~links() {
    asio::post(*io_, [this] {
      ending_ = true;
      error_code ignored;
      acceptor_.close(ignored);
      later_.cancel();
      deadline_.cancel();
      for (const auto& stranger : std::exchange(strangers_, {})) stranger->close();
      for (const auto& dialled : std::exchange(dialled_, {})) dialled->close();
      for (const auto& link : open_links()) link->close();
      for (const auto& attempt : dials_) {
        attempt->resolver.cancel();
        attempt->socket.close(ignored);
        attempt->again.cancel();
      }
      work_.reset();
    });
    thread_.join();
  }

  void link(const session_id& session, std::uint32_t me, std::vector<topology::endpoint> nodes, listener listener) {
    asio::post(*io_, [this, session, me, nodes = std::move(nodes), listener = std::move(listener)] {
      session_ = session;
      me_ = me;
      nodes_ = nodes;
      listener_ = listener;
      {
        const std::lock_guard lock{mutex_};
        links_.resize(nodes_.size());
      }
      lost_.resize(nodes_.size());
      deadline_.expires_after(options_.timeout);
      deadline_.async_wait([this](error_code error) {
        if (!error && !ending_) give_up();
      });
      accept();
      for (std::uint32_t node = 0; node < me_; ++node) dial(node);
      tell_if_linked();
    });
  }

  void send(std::uint32_t node, const frame_header& header, const at::Tensor& values) {
    std::shared_ptr<connection> link;
    {
      const std::lock_guard lock{mutex_};
      if (node < links_.size()) link = links_[node];
    }
    if (link && header.kind == frame_kind::copy) return link->send_later(header, values);
    if (link) link->send(header, values);
  }

 private:
  struct dialling {
    explicit dialling(asio::io_context& io) : resolver(io), socket(io), again(io) {}
    tcp::resolver resolver;
    tcp::socket socket;
    asio::steady_timer again;
  };

  static std::string tensor_port(const topology::endpoint& node) { return std::to_string(node.port + 1); }

  void bind() {
    const auto name =
        topology::print_endpoint({options_.listen.host, static_cast<std::uint16_t>(options_.listen.port + 1)});
    try {
      const auto found = tcp::resolver{*io_}.resolve(options_.listen.host, tensor_port(options_.listen));
      const auto endpoint = found.begin()->endpoint();
      if (!endpoint.address().is_loopback())
        throw input_error(name +
                          " is not a loopback address, and connections between hosts are not encrypted yet; expected "
                          "a loopback address such as 127.0.0.1");
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address{true});
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const boost::system::system_error& problem) {
      throw input_error("cannot listen on " + name + " for tensors (" + problem.code().message() +
                        "); expected a free port after the one in the node's address");
    }
  }

  // Outgoing and incoming connections.

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
        const auto oldest = strangers_.front();
        strangers_.pop_front();
        oldest->close();
      }
      strangers_.push_back(make(std::move(socket), std::nullopt));
      strangers_.back()->start(options_.patience);
      accept();
    });
  }

  void dial(std::uint32_t node) {
    const auto attempt = std::make_shared<dialling>(*io_);
    dials_.push_back(attempt);
    attempt->resolver.async_resolve(
        nodes_[node].host, tensor_port(nodes_[node]),
        [this, node, attempt](error_code error, const tcp::resolver::results_type& found) {
          if (ending_) return;
          if (error) return dial_again(node, attempt);
          asio::async_connect(attempt->socket, found, [this, node, attempt](error_code failed, const tcp::endpoint&) {
            if (ending_) return;
            if (failed) return dial_again(node, attempt);
            std::erase(dials_, attempt);
            dialled_.push_back(make(std::move(attempt->socket), node));
            dialled_.back()->start(options_.timeout);
            dialled_.back()->greet(me_, session_);
          });
        });
  }

  void dial_again(std::uint32_t node, const std::shared_ptr<dialling>& attempt) {
    attempt->again.expires_after(between_dials);
    attempt->again.async_wait([this, node, attempt](error_code error) {
      if (error || ending_) return;
      std::erase(dials_, attempt);
      if (!lost_[node]) dial(node);
    });
  }

  /// Makes a connection that has not received a hello. `dialled` is the expected node if this side has connected to it.
  std::shared_ptr<connection> make(tcp::socket socket, std::optional<std::uint32_t> dialled) {
    const connection::listener listener{
        .greeted = [this, dialled](const auto& who, const frame& hello) { return greeted(who, hello, dialled); },
        .arrived =
            [this](frame&& arrived, std::shared_ptr<const void> receipt) {
              if (!ending_) listener_.arrived(std::move(arrived), std::move(receipt));
            },
        .closed = [this, dialled](const auto& who, const std::string& why) { closed(who, dialled, why); }};
    return std::make_shared<connection>(io_, std::move(socket), options_.limits, options_.pool, options_.window_bytes,
                                        listener);
  }

  /// Checks a hello: it must be from `dialled`, or from a node after this one that has connected to this side.
  bool greeted(const std::shared_ptr<connection>& who, const frame& hello, std::optional<std::uint32_t> dialled) {
    const auto node = hello.header.to;
    if (hello.session != session_ || node >= nodes_.size() || linked(node) || lost_[node]) return false;
    if (dialled ? node != *dialled : node <= me_) return false;
    strangers_.remove(who);
    dialled_.remove(who);
    if (!dialled) who->greet(me_, session_);
    {
      const std::lock_guard lock{mutex_};
      links_[node] = who;
    }
    tell_if_linked();
    return true;
  }

  // Reports to the owner.

  bool linked(std::uint32_t node) {
    const std::lock_guard lock{mutex_};
    return links_[node] != nullptr;
  }

  std::vector<std::shared_ptr<connection>> open_links() {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<connection>> open;
    std::copy_if(links_.begin(), links_.end(), std::back_inserter(open), [](const auto& link) { return link; });
    return open;
  }

  void tell_if_linked() {
    if (told_ || open_links().size() + 1 < nodes_.size()) return;
    told_ = true;
    deadline_.cancel();
    listener_.linked();
  }

  void give_up() {
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (node != me_ && !linked(node))
        lose(node, "it was not established within " + std::to_string(options_.timeout.count()) + " ms");
  }

  void lose(std::uint32_t node, const std::string& why) {
    if (lost_[node]) return;
    lost_[node] = true;
    listener_.lost(node, why);
  }

  void closed(const std::shared_ptr<connection>& who, std::optional<std::uint32_t> dialled, const std::string& why) {
    if (ending_) return;
    if (strangers_.remove(who) > 0) return;
    if (dialled_.remove(who) > 0) {
      dials_.push_back(std::make_shared<dialling>(*io_));
      return dial_again(*dialled, dials_.back());
    }
    std::uint32_t node = 0;
    {
      const std::lock_guard lock{mutex_};
      const auto found = std::find(links_.begin(), links_.end(), who);
      if (found == links_.end()) return;
      node = static_cast<std::uint32_t>(found - links_.begin());
      links_[node] = nullptr;
    }
    lose(node, why);
  }

  tensor_plane_options options_;
  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer later_, deadline_;
  // Connections without a hello, oldest first: incoming ones, of which there may be any number, and outgoing ones,
  // which are never closed to make room.
  std::list<std::shared_ptr<connection>> strangers_, dialled_;
  std::vector<std::shared_ptr<dialling>> dials_;
  session_id session_{};
  std::uint32_t me_{0};
  std::vector<topology::endpoint> nodes_;
  listener listener_;
  std::vector<bool> lost_;  ///< Whether each node is lost.
  bool told_{false}, ending_{false};

  std::mutex mutex_;                                ///< Protects the links, which senders read.
  std::vector<std::shared_ptr<connection>> links_;  ///< By node; null if lost, not yet established, or this node.

  std::thread thread_;
};

tensor_plane::tensor_plane(tensor_plane_options options) : links_(std::make_unique<links>(std::move(options))) {}

tensor_plane::~tensor_plane() = default;

void tensor_plane::link(const session_id& session, std::uint32_t me, std::vector<topology::endpoint> nodes,
                        listener listener) {
  links_->link(session, me, std::move(nodes), std::move(listener));
}

void tensor_plane::send(std::uint32_t node, std::uint32_t to, const part& piece) {
  links_->send(node, header_of(to, piece), piece.piece.values);
}

void tensor_plane::send(std::uint32_t node, const snapshot& result) {
  links_->send(node, header_of(result), result.values);
}

void tensor_plane::send(std::uint32_t node, const state_piece& piece) {
  links_->send(node, header_of(piece), piece.bytes);
}

}  // namespace troupe::transport

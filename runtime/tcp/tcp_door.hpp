// Connections of a node over TCP until they have identified themselves: incoming ones are accepted, other nodes are
// dialled, and each connection is handed to its plane. Both planes share one port and one thread.
#pragma once

#include "troupe/runtime/tcp/connection.hpp"
#include "troupe/runtime/tcp/dialler.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace troupe::transport {

/// Handles the connections of one plane. All functions are called on the thread of the door.
class tcp_plane {
 public:
  virtual ~tcp_plane() = default;

  /// Returns whether a node must still be dialled.
  virtual bool wants(std::uint32_t node) const = 0;

  /// Called when the other side introduces itself as this node. Returns whether the connection stays open.
  virtual bool greeted(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session,
                       bool dialled) = 0;

  /// Called when the other side of a dialled connection uses another version of the protocol.
  virtual void foreign() {}

  /// Handles a frame. Throws frame_error to close the connection.
  virtual void arrived(const std::shared_ptr<connection>& who, frame&& arrived,
                       std::shared_ptr<const void> receipt) = 0;

  /// Forgets a connection that has not identified itself, so that it can be closed. Returns false if it is a link.
  virtual bool forget(const std::shared_ptr<connection>& who) = 0;

  /// Called when a connection has failed. Returns whether it was a link, which is then lost.
  virtual bool closed(const std::shared_ptr<connection>& who, const connection_loss& how) = 0;

  /// Closes all links.
  virtual void close() = 0;
};

class tcp_door {
 public:
  /// Binds and listens. Throws input_error.
  explicit tcp_door(tcp_options options);
  ~tcp_door() { close(); }

  /// Hands the connections of a plane to `to`. Must be called before anything is opened.
  void add(plane where, tcp_plane& to) { planes_.emplace(where, &to); }

  /// Closes all connections and joins the thread. Nothing is called after that.
  void close();

  /// Returns the port on which it listens.
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  const tcp_options& options() const { return options_; }
  std::uint32_t me() const { return options_.me; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(options_.addresses.size()); }
  bool is_first() const { return options_.me == first_node; }

  /// Runs `work` on the thread of the door.
  template <class Work>
  void post(Work work) {
    boost::asio::post(*io_, std::move(work));
  }

  // On the thread of the door: ----------------------------------------------------------------------------------------

  bool ending() const { return ending_; }
  boost::asio::steady_timer timer() { return boost::asio::steady_timer{*io_}; }
  const session_id& session() const { return session_; }
  void set_session(const session_id& session) { session_ = session; }
  bool is_full() const { return full_; }
  void set_full() { full_ = true; }  ///< Notes that all nodes have joined.
  void set_warned(std::function<void(const std::string&)> warned) { warned_by_ = std::move(warned); }

  /// Reports that a connection from this host was refused.
  void warn_of(const std::string& host, const std::string& why) { warn(std::nullopt, host, why); }

  void accept();
  void dial(plane where, std::uint32_t node, std::chrono::milliseconds delay = {});

  /// Marks a connection as a link, which belongs to its plane from now on.
  void identified(const std::shared_ptr<connection>& who);

 private:
  /// What this side has dialled.
  struct destination {
    std::uint32_t node{0};
    plane where{plane::tensors};
  };

  std::string name_of(std::uint32_t node) const;
  tcp_plane* plane_of(const std::shared_ptr<connection>& who) const;
  std::shared_ptr<connection> make(boost::asio::ip::tcp::socket socket, std::optional<destination> dialled);
  bool greeted(const std::shared_ptr<connection>& who, const frame& hello, std::optional<destination> dialled);
  void hand_over(const std::shared_ptr<connection>& guest, const std::string& host);
  bool answer_foreign(const std::shared_ptr<connection>& who, std::optional<destination> dialled);
  void closed(const std::shared_ptr<connection>& who, std::optional<destination> dialled, const connection_loss& how);
  void make_room(const std::string& host);
  void warn(std::optional<destination> dialled, const std::string& host, const std::string& why);

  tcp_options options_;
  session_id session_;
  std::map<plane, tcp_plane*> planes_;
  std::shared_ptr<boost::asio::io_context> io_ = std::make_shared<boost::asio::io_context>(1);
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::ip::tcp::acceptor acceptor_;
  dialler dialler_;
  boost::asio::steady_timer later_;
  // Connections that have not identified themselves, oldest first: incoming ones, of which there may be any number, and
  // outgoing ones, which are never closed to make room.
  std::list<std::shared_ptr<connection>> strangers_, dialled_;
  std::set<std::string> warned_;
  std::function<void(const std::string&)> warned_by_;
  std::atomic<bool> full_{false};  ///< Control links look at it on other threads.
  bool ending_{false};
  std::thread thread_;
};

}  // namespace troupe::transport

// What crosses between the nodes of a run: control messages over control links, and tensors over tensor links. The
// first node has a control link to every other node, and every pair of nodes has a tensor link. Messages on one link
// arrive in the order in which they were sent; messages on different links may arrive in any order. A link that is lost
// stays lost.
//
// Both kinds of links run over TCP (tcp_links.hpp) or are simulated. Any other implementation must pass the tests of
// tests/unit/runtime/transport/contract_test.cpp.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/runtime/transport/control.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::transport {

/// Index of the first node of the plan.
constexpr std::uint32_t first_node = 0;

/// Time between two attempts to connect.
constexpr std::chrono::milliseconds between_dials{20};

/// Number of times that each side of a link sends something within the time after which silence counts as loss.
constexpr int beats_per_silence = 8;

/// The reasons for lost links in reports to users.
inline std::string silence_text(std::chrono::milliseconds silence) {
  return "it was silent for " + std::to_string(silence.count()) + " ms (run.silence)";
}
constexpr auto* closed_text = "it was killed or disconnected";
inline std::string not_established_text(std::chrono::milliseconds timeout) {
  return "it was not established within " + std::to_string(timeout.count()) + " ms";
}

/// Identifies a control connection to the first node whose other end has not been admitted yet.
enum class visitor_id : std::uint64_t {};

/// The control links of a node. Nodes join the run through them.
class control_links {
 public:
  /// Callbacks, one at a time.
  struct listener {
    /// On the first node: a visitor asks to join; answer with admit() or refuse().
    std::function<void(visitor_id, control::introduction&&)> visited;
    /// On another node: the control link to the first node is open, but this node is still a visitor.
    std::function<void()> reached_first;
    /// On another node: the first node uses another version of the protocol.
    std::function<void()> foreign_first;
    /// A control message from a node. It has been checked; see control::check().
    std::function<void(std::uint32_t node, control::message&&)> heard;
    /// The control link to a node is lost. `why` is a clause: "the other side closed the connection".
    std::function<void(std::uint32_t node, const std::string& why)> parted;
    /// A connection was refused, by this side or the other one. Each reason is reported once. May be empty.
    std::function<void(const std::string& what)> warned{};
  };

  virtual ~control_links() = default;

  /// On the first node: accepts visitors. On the others: dials the first node until it answers.
  virtual void open(listener) = 0;

  /// On the first node: makes a visitor the node with this index, with which messages can be exchanged from then on.
  /// Returns false if the visitor has left. Any thread may call admit() and refuse().
  virtual bool admit(visitor_id, std::uint32_t node) = 0;

  /// On the first node: informs a visitor of the reason why it cannot join.
  virtual void refuse(visitor_id, const control::refusal&) = 0;

  /// Sends a message to a node; does nothing if its link is lost. Any thread may call it, and it never blocks.
  virtual void tell(std::uint32_t node, const control::message&) = 0;
};

/// The tensor links of a node.
class tensor_links {
 public:
  /// Callbacks, one at a time.
  struct listener {
    /// The links to all other nodes are open.
    std::function<void()> linked;
    /// The link to a node is lost, or was not established in time.
    std::function<void(std::uint32_t node, const std::string& why)> lost;
    /// Called with a part, snapshot, state or copy, whose sender has been checked; see control::check_sender().
    /// Releasing the receipt lets the other node send more. Throws frame_error to refuse the frame, after which the
    /// link is lost.
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
  };

  virtual ~tensor_links() = default;

  /// Opens the links to all other nodes, which must all have joined.
  virtual void open(listener) = 0;

  /// Sends a frame with these values, which are frozen, to a node; does nothing if its link is lost. Copies of
  /// checkpoints are sent only while nothing else is. Any thread may call it, and it never blocks.
  virtual void send_frame(std::uint32_t node, const frame_header& header, const at::Tensor& values) = 0;

  void send(std::uint32_t node, std::uint32_t to, const part& piece) {
    send_frame(node, header_of(to, piece), piece.piece.values);
  }
  void send(std::uint32_t node, const snapshot& result) { send_frame(node, header_of(result), result.values); }
  void send(std::uint32_t node, const state_piece& piece) { send_frame(node, header_of(piece), piece.bytes); }
};

/// Both kinds of links of a node.
struct links {
  std::shared_ptr<control_links> control;
  std::shared_ptr<tensor_links> tensors;
};

}  // namespace troupe::transport

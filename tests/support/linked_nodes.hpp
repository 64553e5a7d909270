// Nodes linked over loopback, several in one process, and the events that they have reported.
#pragma once

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/tcp/free_ports.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <ATen/ops/ones.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

inline constexpr std::int64_t million = 1 << 20;
inline constexpr std::int64_t window = 16 << 20;
inline constexpr transport::session_id our_session{std::byte{'o'}, std::byte{'u'}, std::byte{'r'}};

/// Returns addresses on loopback with free ports.
inline std::vector<endpoint> addresses(std::size_t count) {
  transport::free_ports free;
  std::vector<endpoint> result;
  while (result.size() < count) result.push_back({"127.0.0.1", free.next("127.0.0.1")});
  return result;
}

/// Returns the limits of node `node`, which has rank `node`, for models whose largest payload is 4 MiB.
inline transport::frame_limits limits_of(std::uint32_t node, std::uint32_t nodes) {
  return {.run = run_id{4}, .world_size = nodes, .first_rank = node, .exchanged = {million}, .total = million};
}

/// The links of a node and what they have reported. Admits a visitor as the node whose index it sends.
class node {
 public:
  struct options {
    std::chrono::milliseconds timeout{20'000}, patience{20'000}, silence{20'000};
    bool holds{false};  ///< Whether it keeps receipts.
    std::int64_t window_bytes{window};
    std::shared_ptr<const transport::channel_factory> channels{transport::plain_channels()};
    transport::control_carrier control{transport::control_carrier::frames};
  };

  node(std::uint32_t me, const std::vector<endpoint>& nodes) : node(me, nodes, options{}) {}
  node(std::uint32_t me, const std::vector<endpoint>& nodes, options with)
      : me_(me), nodes_(nodes), holds_(with.holds) {
    std::vector<control::node_ranks> ranks;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) ranks.push_back({i, 1});
    links = transport::make_tcp_links(
        transport::tcp_options{.me = me,
                               .listen = nodes.at(me),
                               .addresses = nodes,
                               .channels = with.channels,
                               .ranks = ranks,
                               .control = with.control,
                               .session = our_session,
                               .limits = limits_of(me, static_cast<std::uint32_t>(nodes.size())),
                               .pool = pool,
                               .window_bytes = with.window_bytes,
                               .timeout = with.timeout,
                               .silence = with.silence,
                               .patience = with.patience});
  }

  ~node() { leave(); }  // while this object can still be called back

  void leave() { links = {}; }

  /// Joins the first node, or accepts joining nodes.
  void open() {
    auto* const own = links.control.get();  // links.control no longer points to it while the links end
    links.control->open(
        {.visited =
             [this, own](transport::visitor_id visitor, control::introduction&& who) {
               if (refuses) return own->refuse(visitor, {"no"});
               const auto index = static_cast<std::uint32_t>(std::stoul(who.node));
               if (own->admit(visitor, index)) own->tell(index, control::welcome{});
             },
         .reached_first = [this, own] { own->tell(0, control::introduction{.node = std::to_string(me_)}); },
         .foreign_first = [this] { change([this] { ++foreign; }); },
         .heard = [this](std::uint32_t from,
                         control::message&& what) { change([&] { heard.emplace_back(from, std::move(what)); }); },
         .parted = [this](std::uint32_t from,
                          const std::string& why) { change([&] { parted.emplace_back(from, why); }); }});
  }

  /// Opens the tensor links, too.
  void link() {
    open();
    links.tensors->open(
        {.linked = [this] { change([this] { ++linked; }); },
         .lost = [this](std::uint32_t node, const std::string& why) { change([&] { lost.emplace_back(node, why); }); },
         .arrived =
             [this](transport::frame&& came, std::shared_ptr<const void> receipt) {
               change([&] {
                 frames.push_back(std::move(came));
                 if (holds_) receipts.push_back(std::move(receipt));
               });
             }});
  }

  /// Waits several seconds for `condition`; returns whether it holds.
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{10}, condition);
  }
  bool wait_linked() {
    return wait([this] { return linked == 1; });
  }
  bool wait_frames(std::size_t count) {
    return wait([this, count] { return frames.size() >= count; });
  }

  /// Returns all receipts; no more are held.
  std::vector<std::shared_ptr<const void>> take_receipts() {
    const std::lock_guard lock{mutex_};
    holds_ = false;
    return std::exchange(receipts, {});
  }

  std::size_t count() {
    const std::lock_guard lock{mutex_};
    return frames.size();
  }
  int times_linked() {
    const std::lock_guard lock{mutex_};
    return linked;
  }
  std::vector<std::pair<std::uint32_t, std::string>> losses() {
    const std::lock_guard lock{mutex_};
    return lost;
  }

  models::buffer_pool pool;
  transport::links links;
  bool refuses{false};  ///< Whether it refuses visitors.
  int linked{0}, foreign{0};
  std::vector<std::pair<std::uint32_t, control::message>> heard;
  std::vector<std::pair<std::uint32_t, std::string>> parted;
  std::vector<std::pair<std::uint32_t, std::string>> lost;
  std::vector<transport::frame> frames;
  std::vector<std::shared_ptr<const void>> receipts;

 private:
  template <class Change>
  void change(Change what) {
    {
      const std::lock_guard lock{mutex_};
      what();
    }
    changed_.notify_all();
  }

  std::uint32_t me_;
  std::vector<endpoint> nodes_;
  bool holds_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

inline part piece_of(std::uint32_t sender, std::uint64_t step, at::Tensor values) {
  return {.origin = {.run = run_id{4}, .sender = rank_id{sender}, .generation = 2, .step = step, .version = 3},
          .which = {.place = 0, .part = 6},
          .what = slot::gradient,
          .at = stage::partial,
          .piece = {0, std::move(values)},
          .total = million,
          .sample_count = 8};
}

/// Two linked nodes; node 1 has dialled node 0.
struct pair_of_nodes {
  explicit pair_of_nodes(node::options with = {}) : nodes(addresses(2)), a(0, nodes, with), b(1, nodes, with) {
    a.link();
    b.link();
    REQUIRE(a.wait_linked());
    REQUIRE(b.wait_linked());
  }

  /// Checks that a message arrives in each direction, and that no node is lost.
  void check_alive() {
    const auto before_a = a.count(), before_b = b.count();
    a.links.tensors->send(1, 1, piece_of(0, 1, at::ones({16})));
    b.links.tensors->send(0, 0, piece_of(1, 1, at::ones({16})));
    CHECK(a.wait_frames(before_a + 1));
    CHECK(b.wait_frames(before_b + 1));
    CHECK(a.losses().empty());
    CHECK(b.losses().empty());
  }

  std::vector<endpoint> nodes;
  node a, b;
};

}  // namespace troupe::testing

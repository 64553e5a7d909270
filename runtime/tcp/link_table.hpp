// The open links of one plane, by node. Senders look them up on any thread.
#pragma once

#include "troupe/runtime/tcp/connection.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::transport {

class link_table {
 public:
  using link = std::shared_ptr<connection>;

  explicit link_table(std::size_t nodes) : links_(nodes) {}

  /// Returns the link to a node, or null if the link is lost or not yet established, or if it is this node.
  link find(std::uint32_t node) const {
    const std::lock_guard lock{mutex_};
    return links_.at(node);
  }

  /// Sets the link to a node; returns the previous one.
  link set(std::uint32_t node, link now) {
    const std::lock_guard lock{mutex_};
    return std::exchange(links_.at(node), std::move(now));
  }

  /// Returns the node that a link leads to, or nothing.
  std::optional<std::uint32_t> node_of(const link& which) const {
    const std::lock_guard lock{mutex_};
    const auto place = std::find(links_.begin(), links_.end(), which);
    if (place == links_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(place - links_.begin());
  }

  /// Removes a link; returns the node that it led to, or nothing.
  std::optional<std::uint32_t> take(const link& which) {
    const auto node = node_of(which);
    if (node) set(*node, nullptr);
    return node;
  }

  /// Returns all links.
  std::vector<link> all() const {
    const std::lock_guard lock{mutex_};
    std::vector<link> open;
    std::copy_if(links_.begin(), links_.end(), std::back_inserter(open), [](const auto& entry) { return entry; });
    return open;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<link> links_;
};

}  // namespace troupe::transport

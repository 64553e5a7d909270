// Control links over TCP, with the admission of visitors.
#pragma once

#include "troupe/runtime/tcp/link_table.hpp"
#include "troupe/runtime/tcp/tcp_door.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace troupe::transport {

class tcp_control_links final : public control_links, public tcp_plane {
 public:
  explicit tcp_control_links(tcp_door& door) : door_(door), links_(door.nodes()) { door.add(plane::control, *this); }

  void open(listener listener) override;
  bool admit(visitor_id id, std::uint32_t node) override;
  void refuse(visitor_id id, const control::refusal& refusal) override;
  void tell(std::uint32_t node, const control::message& what) override;

  bool wants(std::uint32_t /*node*/) const override { return !joined_; }
  bool greeted(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session,
               bool dialled) override;
  void foreign() override;
  void arrived(const std::shared_ptr<connection>& who, frame&& arrived, std::shared_ptr<const void> receipt) override;
  bool forget(const std::shared_ptr<connection>& who) override;
  bool closed(const std::shared_ptr<connection>& who, const connection_loss& how) override;
  void close() override;

 private:
  std::optional<visitor_id> visitor_of(const std::shared_ptr<connection>& who);
  void hear_visitor(const std::shared_ptr<connection>& who, control::message&& what);
  void forget_visitor(const std::shared_ptr<connection>& who);

  tcp_door& door_;
  listener listener_;
  std::set<visitor_id> introduced_;  ///< Visitors that have introduced themselves.
  std::uint64_t next_visitor_{0};
  bool joined_{false};  ///< Whether the first node has answered the introduction, or this node will never join.
  std::atomic<int> undecided_{0};  ///< Introductions passed on that have been neither admitted nor refused.
  link_table links_;

  std::mutex mutex_;  ///< Protects the visitors, because admit() and refuse() may be called on any thread.
  std::map<visitor_id, std::shared_ptr<connection>> visitors_;
};

}  // namespace troupe::transport

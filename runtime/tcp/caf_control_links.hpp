// Control links over CAF: the first node offers an actor to each other node, which answers with one of its own, and
// control messages are messages between the two. A node is dialled and greeted as for every connection; its bytes then
// go through a gate and a pump (net/basp/) to a small actor system that contains nothing else.
//
// What ends a link is that the actor of the other node is down. CAF reports that after all messages that it has sent.
#pragma once

#include "troupe/runtime/tcp/tcp_door.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <memory>

namespace troupe::transport {

class caf_control_links final : public control_links, public tcp_plane {
 public:
  explicit caf_control_links(tcp_door& door);

  ~caf_control_links() override;

  void open(listener listener) override;
  bool admit(visitor_id id, std::uint32_t node) override;
  void refuse(visitor_id id, const control::refusal& refusal) override;
  void tell(std::uint32_t node, const control::message& what) override;

  bool wants(std::uint32_t node) const override;
  bool greeted(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session,
               bool dialled) override;
  void foreign() override;
  void arrived(const std::shared_ptr<connection>& who, frame&& arrived, std::shared_ptr<const void> receipt) override;
  bool forget(const std::shared_ptr<connection>& who) override;
  bool closed(const std::shared_ptr<connection>& who, const connection_loss& how) override;
  void close() override;

  /// Waits a moment until the other nodes have taken in what was sent to them. Must be called before the door closes.
  void leave();

 private:
  class office;
  std::unique_ptr<office> office_;
};

}  // namespace troupe::transport

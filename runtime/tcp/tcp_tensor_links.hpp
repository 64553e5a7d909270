// Tensor links over TCP. Of two nodes, the one that is earlier in the plan accepts the connection.
#pragma once

#include "troupe/runtime/tcp/link_table.hpp"
#include "troupe/runtime/tcp/tcp_door.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

class tcp_tensor_links final : public tensor_links, public tcp_plane {
 public:
  explicit tcp_tensor_links(tcp_door& door)
      : door_(door), deadline_(door.timer()), lost_(door.nodes()), links_(door.nodes()) {
    door.add(plane::tensors, *this);
  }

  void open(listener listener) override;
  void send_frame(std::uint32_t node, const frame_header& header, const at::Tensor& values) override;

  bool wants(std::uint32_t node) const override { return !lost_[node]; }
  bool greeted(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session,
               bool dialled) override;
  void arrived(const std::shared_ptr<connection>& who, frame&& arrived, std::shared_ptr<const void> receipt) override;
  bool forget(const std::shared_ptr<connection>& who) override { return !links_.node_of(who); }
  bool closed(const std::shared_ptr<connection>& who, const connection_loss& how) override;
  void close() override;

 private:
  void tell_if_linked();
  void give_up();
  void lose(std::uint32_t node, const std::string& why);

  tcp_door& door_;
  listener listener_;
  boost::asio::steady_timer deadline_;
  std::vector<bool> lost_;  ///< Whether the link to each node is lost.
  bool is_open_{false}, told_{false};
  link_table links_;
};

}  // namespace troupe::transport

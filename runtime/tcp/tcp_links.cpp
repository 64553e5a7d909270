#include "troupe/runtime/tcp/tcp_links.hpp"

#include "troupe/runtime/tcp/caf_control_links.hpp"
#include "troupe/runtime/tcp/tcp_control_links.hpp"
#include "troupe/runtime/tcp/tcp_door.hpp"
#include "troupe/runtime/tcp/tcp_tensor_links.hpp"

#include <utility>

namespace troupe::transport {

namespace {

/// The links of a node, with control links of one form or another.
template <class ControlLinks>
struct tcp_node {
  explicit tcp_node(tcp_options options) : door(std::move(options)) {}
  ~tcp_node() {
    if constexpr (requires { control.leave(); }) control.leave();
    door.close();  // before the links that it calls end
  }

  tcp_door door;
  ControlLinks control{door};
  tcp_tensor_links tensors{door};
};

template <class ControlLinks>
links make(tcp_options options) {
  const auto node = std::make_shared<tcp_node<ControlLinks>>(std::move(options));
  return {.control = {node, &node->control}, .tensors = {node, &node->tensors}};
}

}  // namespace

links make_tcp_links(tcp_options options) {
  return options.control == control_carrier::caf ? make<caf_control_links>(std::move(options))
                                                 : make<tcp_control_links>(std::move(options));
}

guest_door open_to_guests(tcp_options options, std::function<void(const std::string&)> warned) {
  const auto door = std::make_shared<tcp_door>(std::move(options));
  door->post([door = door.get(), warned = std::move(warned)] {
    door->set_warned(warned);
    door->accept();
  });
  return {.open = door, .port = door->port()};
}

}  // namespace troupe::transport

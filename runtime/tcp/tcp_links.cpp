#include "troupe/runtime/tcp/tcp_links.hpp"

#include "troupe/runtime/tcp/tcp_control_links.hpp"
#include "troupe/runtime/tcp/tcp_door.hpp"
#include "troupe/runtime/tcp/tcp_tensor_links.hpp"

#include <utility>

namespace troupe::transport {

namespace {

struct tcp_node {
  explicit tcp_node(tcp_options options) : door(std::move(options)) {}
  ~tcp_node() { door.close(); }  // before the links that it calls end

  tcp_door door;
  tcp_control_links control{door};
  tcp_tensor_links tensors{door};
};

}  // namespace

links make_tcp_links(tcp_options options) {
  const auto node = std::make_shared<tcp_node>(std::move(options));
  return {.control = {node, &node->control}, .tensors = {node, &node->tensors}};
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

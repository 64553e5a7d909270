#include "troupe/runtime/tcp/tcp_tensor_links.hpp"

#include <utility>

namespace troupe::transport {

void tcp_tensor_links::open(listener listener) {
  door_.post([this, listener = std::move(listener)] {
    listener_ = listener;
    is_open_ = true;
    door_.set_full();
    deadline_.expires_after(door_.options().timeout);
    deadline_.async_wait([this](boost::system::error_code error) {
      if (!error && !door_.ending()) give_up();
    });
    if (!door_.is_first()) door_.accept();
    for (std::uint32_t node = 0; node < door_.me(); ++node) door_.dial(plane::tensors, node);
    tell_if_linked();
  });
}

void tcp_tensor_links::send_frame(std::uint32_t node, const frame_header& header, const at::Tensor& values) {
  const auto link = links_.find(node);
  if (link && header.kind == frame_kind::copy) return link->send_later(header, values);
  if (link) link->send(header, values);
}

bool tcp_tensor_links::greeted(const std::shared_ptr<connection>& who, std::uint32_t node, const session_id& session,
                               bool dialled) {
  if (!is_open_ || session != door_.session() || links_.find(node) || lost_[node]) return false;
  door_.identified(who);
  who->trust();
  if (!dialled) who->greet(door_.me(), door_.session(), plane::tensors, control_carrier::frames);
  links_.set(node, who);
  tell_if_linked();
  return true;
}

void tcp_tensor_links::arrived(const std::shared_ptr<connection>& who, frame&& arrived,
                               std::shared_ptr<const void> receipt) {
  const auto from = links_.node_of(who);
  if (!from) return;
  control::check_sender(arrived.header, door_.options().ranks, *from);
  listener_.arrived(std::move(arrived), std::move(receipt));
}

bool tcp_tensor_links::closed(const std::shared_ptr<connection>& who, const connection_loss& how) {
  const auto node = links_.take(who);
  if (node) lose(*node, how.text);
  return node.has_value();
}

void tcp_tensor_links::close() {
  deadline_.cancel();
  for (const auto& link : links_.all()) link->close();
}

void tcp_tensor_links::tell_if_linked() {
  for (std::uint32_t node = 0; node < door_.nodes(); ++node)
    if (told_ || (node != door_.me() && !links_.find(node))) return;
  told_ = true;
  deadline_.cancel();
  listener_.linked();
}

void tcp_tensor_links::give_up() {
  for (std::uint32_t node = 0; node < door_.nodes(); ++node)
    if (node != door_.me() && !links_.find(node)) lose(node, not_established_text(door_.options().timeout));
}

void tcp_tensor_links::lose(std::uint32_t node, const std::string& why) {
  if (lost_[node]) return;
  lost_[node] = true;
  listener_.lost(node, why);
}

}  // namespace troupe::transport

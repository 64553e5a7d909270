#include "troupe/runtime/tcp/tcp_control_links.hpp"

#include "troupe/runtime/tcp/welcome.hpp"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::transport {

namespace {

at::Tensor tensor_of(const std::vector<std::byte>& bytes) {
  auto values = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(values.mutable_data_ptr(), bytes.data(), bytes.size());
  return values;
}

std::span<const std::byte> payload_of(const at::Tensor& values) {
  return {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
}

void put(connection& link, const control::message& what) {
  auto bytes = tensor_of(control::encode(what));
  const auto header = header_of_control(bytes);
  link.send(header, std::move(bytes));
}

}  // namespace

void tcp_control_links::open(listener listener) {
  door_.post([this, listener = std::move(listener)] {
    listener_ = listener;
    door_.set_warned(listener.warned);
    if (door_.is_first())
      door_.accept();
    else
      door_.dial(plane::control, first_node);
  });
}

bool tcp_control_links::admit(visitor_id id, std::uint32_t node) {
  undecided_ -= 1;
  const std::lock_guard lock{mutex_};
  const auto entry = visitors_.find(id);
  if (entry == visitors_.end()) return false;
  const auto visitor = entry->second;
  const auto before = links_.set(node, visitor);
  visitors_.erase(entry);
  visitor->trust();
  door_.post([this, visitor, before] {
    door_.identified(visitor);
    if (before) before->close();  // the link of a node that has left without closing it
  });
  return true;
}

void tcp_control_links::refuse(visitor_id id, const control::refusal& refusal) {
  undecided_ -= 1;
  std::shared_ptr<connection> visitor;
  {
    const std::lock_guard lock{mutex_};
    const auto entry = visitors_.find(id);
    if (entry != visitors_.end()) visitor = entry->second;
  }
  if (visitor) put(*visitor, refusal);  // the visitor leaves, or its patience ends
}

void tcp_control_links::tell(std::uint32_t node, const control::message& what) {
  const auto link = links_.find(node);
  if (!link) return;
  const auto* answer = std::get_if<control::welcome>(&what);
  if (!answer) return put(*link, what);
  put(*link, with_session(*answer, door_.options().session));
}

bool tcp_control_links::greeted(const std::shared_ptr<connection>& who, std::uint32_t /*node*/,
                                const session_id& /*session*/, bool dialled) {
  if (dialled) {
    door_.identified(who);
    who->trust();
    links_.set(first_node, who);
    listener_.reached_first();
    return true;
  }
  if (!door_.is_first()) return false;
  {
    const std::lock_guard lock{mutex_};
    visitors_.emplace(visitor_id{next_visitor_++}, who);
  }
  who->greet(door_.me(), {}, plane::control,
             control_carrier::frames);  // only a node that is admitted receives the session
  return true;
}

void tcp_control_links::foreign() {
  joined_ = true;  // the version of the first node will not change
  listener_.foreign_first();
}

void tcp_control_links::arrived(const std::shared_ptr<connection>& who, frame&& arrived,
                                std::shared_ptr<const void> /*receipt*/) {
  auto message = control::decode(payload_of(arrived.values));
  const auto node = links_.node_of(who);
  if (!node) return hear_visitor(who, std::move(message));
  control::check(message, door_.options().ranks, *node, door_.me());
  if (!door_.is_first()) joined_ = true;
  if (const auto* answer = std::get_if<control::welcome>(&message)) door_.set_session(session_in(*answer));
  listener_.heard(*node, std::move(message));
}

void tcp_control_links::hear_visitor(const std::shared_ptr<connection>& who, control::message&& what) {
  const auto id = visitor_of(who);
  auto* introduction = std::get_if<control::introduction>(&what);
  if (!id || !introduction || !introduced_.insert(*id).second)
    throw frame_error("received a control message from a node that has not joined");
  who->check(introduction->node);
  if (door_.is_full()) return put(*who, control::refusal{"all nodes of the run have already joined"});
  if (undecided_ >= most_undecided) throw frame_error("too many nodes ask to join at once");
  undecided_ += 1;
  listener_.visited(*id, std::move(*introduction));
}

std::optional<visitor_id> tcp_control_links::visitor_of(const std::shared_ptr<connection>& who) {
  const std::lock_guard lock{mutex_};
  for (const auto& [id, visitor] : visitors_)
    if (visitor == who) return id;
  return std::nullopt;
}

/// Forgets a visitor, so that admit() no longer finds it. If admit() was faster, the visitor is already a link.
void tcp_control_links::forget_visitor(const std::shared_ptr<connection>& who) {
  const auto id = visitor_of(who);
  if (!id) return;
  introduced_.erase(*id);
  const std::lock_guard lock{mutex_};
  visitors_.erase(*id);
}

bool tcp_control_links::forget(const std::shared_ptr<connection>& who) {
  forget_visitor(who);
  return !links_.node_of(who);
}

bool tcp_control_links::closed(const std::shared_ptr<connection>& who, const connection_loss& how) {
  forget_visitor(who);
  const auto node = links_.take(who);
  if (!node || !(door_.is_first() || joined_)) return false;
  listener_.parted(*node, how.what == connection_loss::cause::closed ? closed_text : how.text);
  return true;
}

void tcp_control_links::close() {
  for (const auto& link : links_.all()) link->close();
}

}  // namespace troupe::transport

#include "troupe/runtime/simulation/simulated_network.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

namespace troupe::transport {

namespace {

/// Returns the nodes of a pair in ascending order.
std::pair<std::uint32_t, std::uint32_t> ordered(std::uint32_t a, std::uint32_t b) {
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

/// The links of one node. They end with the node's supervisor and proxies, which closes the node's connections.
class simulated_network::node_links final : public control_links, public tensor_links {
 public:
  node_links(simulated_network& network, std::uint32_t me) : network_(network), me_(me) {}
  ~node_links() override { network_.leave(me_, false); }

  void open(control_links::listener listener) override {
    control_ = std::move(listener);
    is_open_ = true;
    if (me_ != first_node) network_.dial_first(me_);
  }

  bool admit(visitor_id visitor, std::uint32_t node) override {
    auto& seen = network_.state_of(plane::control, me_, node);
    if (visitor != visitor_ids_[node] || seen != state::visiting) return false;
    seen = state::open;
    return true;
  }

  void refuse(visitor_id visitor, const control::refusal& refusal) override {
    for (const auto& [node, id] : visitor_ids_)
      if (id == visitor) network_.send_control(me_, node, refusal);
  }

  void open(tensor_links::listener listener) override {
    tensors_ = std::move(listener);
    links_tensors_ = true;
    for (std::uint32_t other = 0; other < me_; ++other) network_.dial_peer(me_, other);
    network_.later(me_, network_.options_.timeout, [&network = network_, me = me_] {
      for (std::uint32_t other = 0; other < network.nodes_.size(); ++other)
        if (other != me) network.give_up(me, other);
    });
  }

  void tell(std::uint32_t node, const control::message& what) override {
    if (network_.state_of(plane::control, me_, node) == state::open) network_.send_control(me_, node, what);
  }
  void send_frame(std::uint32_t node, const frame_header& header, const at::Tensor& values) override {
    network_.send_frame(me_, node, header, values);
  }

  /// Reports, once, that all tensor links are open.
  void tell_if_linked() {
    const auto nodes = static_cast<std::uint32_t>(network_.options_.ranks.size());
    for (std::uint32_t other = 0; other < nodes; ++other)
      if (other != me_ && network_.state_of(plane::tensors, me_, other) != state::open) return;
    if (!std::exchange(told_, true)) tensors_.linked();
  }

  simulated_network& network_;
  std::uint32_t me_;
  control_links::listener control_;
  tensor_links::listener tensors_;
  std::map<std::uint32_t, visitor_id> visitor_ids_;
  std::uint64_t next_visitor_{0};
  bool is_open_{false}, links_tensors_{false}, joined_{false}, told_{false};
};

simulated_network::simulated_network(simulated_network_options options)
    : options_(std::move(options)),
      random_(options_.seed),
      nodes_(options_.ranks.size()),
      gone_(options_.ranks.size()),
      frozen_(options_.ranks.size()) {}

links simulated_network::links_of(std::uint32_t node) {
  auto own_links = std::make_shared<node_links>(*this, node);
  nodes_[node] = own_links;
  return {.control = own_links, .tensors = own_links};
}

// Events. ----------------------------------------------------------------------------------------------------------

void simulated_network::put(const address& where, event what) {
  auto& to = channels_[where];
  const auto longest = static_cast<std::uint64_t>(options_.latency.count());
  time delay = std::chrono::microseconds{static_cast<std::int64_t>(random_.below(longest + 1))};
  if (const auto slowed = slowed_.find(ordered(where.from, where.to)); slowed != slowed_.end()) delay += slowed->second;
  what.due = to.last_due = std::max(to.last_due, now_ + delay);
  to.waiting.push_back(std::move(what));
  busy_.insert(where);
}

void simulated_network::later(std::uint32_t node, time delay, std::function<void()> act) {
  alone_.emplace_back(node, event{.due = now_ + delay, .act = std::move(act)});
}

bool simulated_network::passes(std::uint32_t a, std::uint32_t b) const {
  return !gone_[a] && !gone_[b] && !cut_.contains(ordered(a, b));
}

bool simulated_network::can_happen(const address& where, const channel& of, time now) const {
  if (of.waiting.empty() || frozen_[where.to] || gone_[where.to]) return false;
  const auto& next = of.waiting.front();
  const auto has_credit = *of.outstanding == 0 || *of.outstanding + next.cost <= options_.window;
  return next.due <= now && has_credit && !cut_.contains(ordered(where.from, where.to));
}

std::size_t simulated_network::deliverable(time now) {
  now_ = now;
  ready_.clear();
  ready_alone_.clear();
  for (auto where = busy_.begin(); where != busy_.end();) {
    const auto& direction = channels_[*where];
    if (can_happen(*where, direction, now)) ready_.push_back(*where);
    where = direction.waiting.empty() ? busy_.erase(where) : std::next(where);
  }
  for (std::size_t i = 0; i < alone_.size(); ++i)
    if (alone_[i].second.due <= now && !frozen_[alone_[i].first]) ready_alone_.push_back(i);
  return ready_.size() + ready_alone_.size();
}

void simulated_network::deliver(std::size_t which, time now) {
  now_ = now;
  if (which >= ready_.size()) {
    const auto index = ready_alone_.at(which - ready_.size());
    auto [node, pending] = std::move(alone_[index]);
    alone_.erase(alone_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!gone_[node]) pending.act();
    return;
  }
  auto& from = channels_[ready_[which]];
  const auto next = std::move(from.waiting.front());
  from.waiting.pop_front();
  if (next.is_message) ++delivered_;
  next.act();
}

std::optional<simulated_network::time> simulated_network::next_due() const {
  std::optional<time> soonest;
  const auto consider = [&](time due) { soonest = soonest ? std::min(*soonest, due) : due; };
  for (const auto& where : busy_)
    if (const auto& direction = channels_.at(where);
        !direction.waiting.empty() && can_happen(where, direction, direction.waiting.front().due))
      consider(direction.waiting.front().due);
  for (const auto& [node, pending] : alone_)
    if (!frozen_[node]) consider(pending.due);
  return soonest;
}

// Messages. --------------------------------------------------------------------------------------------------------

void simulated_network::send_control(std::uint32_t from, std::uint32_t to, const control::message& what) {
  put({plane::control, from, to}, {.is_message = true, .act = [this, from, to, bytes = control::encode(what)] {
                                     try {
                                       hear_control(from, to, bytes);
                                     } catch (const frame_error& problem) {
                                       refuse_frame(plane::control, to, from, problem.what());
                                     }
                                   }});
}

void simulated_network::hear_control(std::uint32_t from, std::uint32_t to, const std::vector<std::byte>& bytes) {
  const auto node = nodes_[to].lock();
  if (!node) return;
  auto message = control::decode(bytes);
  const auto seen = state_of(plane::control, to, from);
  if (to == first_node && seen == state::visiting) {
    if (!std::holds_alternative<control::introduction>(message))
      throw frame_error("received a control message from a node that has not joined");
    return node->control_.visited(node->visitor_ids_[from], std::get<control::introduction>(std::move(message)));
  }
  if (seen != state::open) return;
  control::check(message, options_.ranks, from, to);
  node->joined_ = true;
  node->control_.heard(from, std::move(message));
}

void simulated_network::send_frame(std::uint32_t from, std::uint32_t to, const frame_header& header,
                                   const at::Tensor& values) {
  if (state_of(plane::tensors, from, to) != state::open) return;
  const auto cost = cost_of(header.payload_bytes);
  const auto bytes = encode(header);
  auto receive = [this, from, to, cost, bytes, values = values.clone()] {
    const auto node = nodes_[to].lock();
    if (!node || state_of(plane::tensors, to, from) != state::open) return;
    const auto held = channels_[{plane::tensors, from, to}].outstanding;
    *held += cost;
    std::shared_ptr<const void> receipt(nullptr, [held, cost](const void*) { *held -= cost; });
    try {
      const auto header = decode(bytes, options_.limits[to]);
      control::check_sender(header, options_.ranks, from);
      node->tensors_.arrived({.header = header, .values = values}, std::move(receipt));
    } catch (const frame_error& problem) {
      refuse_frame(plane::tensors, to, from, problem.what());
    }
  };
  put({plane::tensors, from, to}, {.cost = cost, .is_message = true, .act = std::move(receive)});
}

// Connections. -----------------------------------------------------------------------------------------------------

void simulated_network::dial_first(std::uint32_t node) {
  later(node, between_dials, [this, node] {
    const auto self = nodes_[node].lock();
    const auto first = nodes_[first_node].lock();
    if (!self) return;
    if (!first || !first->is_open_ || frozen_[first_node] || !passes(node, first_node)) return dial_first(node);
    first->visitor_ids_[node] = visitor_id{first->next_visitor_++};
    state_of(plane::control, first_node, node) = state::visiting;
    state_of(plane::control, node, first_node) = state::open;
    self->control_.reached_first();
  });
}

void simulated_network::dial_peer(std::uint32_t node, std::uint32_t other) {
  later(node, between_dials, [this, node, other] {
    const auto self = nodes_[node].lock();
    const auto peer = nodes_[other].lock();
    auto& ours = state_of(plane::tensors, node, other);
    auto& theirs = state_of(plane::tensors, other, node);
    if (!self || ours != state::closed || theirs != state::closed) return;
    if (!peer || !peer->links_tensors_ || frozen_[other] || !passes(node, other)) return dial_peer(node, other);
    ours = theirs = state::open;
    self->tell_if_linked();
    peer->tell_if_linked();
  });
}

/// Ends the connection of node `at` to `other`. Reports the loss, unless the connection had not been admitted yet.
void simulated_network::lose(plane where, std::uint32_t at, std::uint32_t other, const std::string& why) {
  auto& seen = state_of(where, at, other);
  if (seen == state::closed || seen == state::lost) return;
  const auto was_visiting = std::exchange(seen, state::lost) == state::visiting;
  const auto node = nodes_[at].lock();
  if (!node) return;
  if (where == plane::tensors) return node->tensors_.lost(other, why);
  if (at == first_node ? !was_visiting : node->joined_) return node->control_.parted(other, why);
  if (at == first_node) return;
  seen = state::closed;
  dial_first(at);  // the node has not joined, so it tries again
}

/// Gives up the tensor connection of node `at` to `other` if it is not open yet.
void simulated_network::give_up(std::uint32_t at, std::uint32_t other) {
  if (state_of(plane::tensors, at, other) != state::closed) return;
  state_of(plane::tensors, at, other) = state::open;
  lose(plane::tensors, at, other,
       not_established_text(std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout)));
}

/// Discards what is in transit to node `at` on its connection to `other`, and closes that end of the connection some
/// time later.
void simulated_network::close_later(plane where, std::uint32_t at, std::uint32_t other) {
  channels_[{where, other, at}].waiting.clear();
  put({where, other, at}, {.act = [this, where, at, other] { lose(where, at, other, closed_text); }});
}

/// Closes the connection of node `at` to `other` because of what `at` has received.
void simulated_network::refuse_frame(plane where, std::uint32_t at, std::uint32_t other, const std::string& why) {
  channels_[{where, other, at}].waiting.clear();
  close_later(where, other, at);
  lose(where, at, other, why);
}

/// Closes the connections of a node that ends; if `suddenly`, some of what it has sent is lost.
void simulated_network::leave(std::uint32_t node, bool suddenly) {
  if (gone_[node]) return;
  nodes_[node].reset();
  for (std::uint32_t other = 0; other < nodes_.size(); ++other) {
    if (other == node) continue;
    for (const auto where : {plane::tensors, plane::control}) {
      auto& sent = channels_[{where, node, other}].waiting;
      if (suddenly) sent.resize(random_.below(sent.size() + 1));
      put({where, node, other}, {.act = [this, where, node, other] { lose(where, other, node, closed_text); }});
    }
  }
}

// Faults. ----------------------------------------------------------------------------------------------------------

void simulated_network::kill(std::uint32_t node) {
  leave(node, true);
  gone_[node] = true;
}

void simulated_network::freeze(std::uint32_t node) {
  frozen_[node] = true;
  for (std::uint32_t other = 0; other < nodes_.size(); ++other) listen_to(node, other);
}

void simulated_network::thaw(std::uint32_t node) {
  frozen_[node] = false;
  for (std::uint32_t other = 0; other < nodes_.size(); ++other) listen_to(node, other);
}

void simulated_network::cut(std::uint32_t a, std::uint32_t b) {
  cut_.insert(ordered(a, b));
  listen_to(a, b);
  listen_to(b, a);
}

void simulated_network::heal(std::uint32_t a, std::uint32_t b) {
  cut_.erase(ordered(a, b));
  listen_to(a, b);
  listen_to(b, a);
}

/// Updates whether node `a` considers node `b` silent.
void simulated_network::listen_to(std::uint32_t b, std::uint32_t a) {
  if (a == b) return;
  if (!frozen_[b] && !cut_.contains(ordered(a, b)))
    silent_since_.erase({a, b});
  else if (silent_since_.try_emplace({a, b}, now_).second)
    notice_silence(a, b);
}

/// Lets node `a` detect the silence of node `b` after some time, if `b` is still silent then. The time depends on when
/// the last beat was sent.
void simulated_network::notice_silence(std::uint32_t a, std::uint32_t b) {
  using std::chrono::microseconds;
  const auto beat = static_cast<std::uint64_t>(options_.silence.count()) / beats_per_silence;
  const auto delay = options_.silence - microseconds{static_cast<std::int64_t>(random_.below(beat + 1))};
  later(a, delay, [this, a, b, since = now_] {
    const auto silent = silent_since_.find({a, b});
    if (silent == silent_since_.end() || silent->second != since) return;
    for (const auto where : {plane::control, plane::tensors})
      if (state_of(where, a, b) == state::open) {
        lose(where, a, b, silence_text(std::chrono::duration_cast<std::chrono::milliseconds>(options_.silence)));
        if (frozen_[b]) put({where, a, b}, {.act = [this, where, a, b] { lose(where, b, a, closed_text); }});
      }
  });
}

void simulated_network::reset(std::uint32_t a, std::uint32_t b, plane where) {
  close_later(where, a, b);
  close_later(where, b, a);
}

void simulated_network::slow(std::uint32_t a, std::uint32_t b, time by) {
  slowed_[ordered(a, b)] = by;
}

}  // namespace troupe::transport

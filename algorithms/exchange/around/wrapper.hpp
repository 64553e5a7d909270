// Wrappers around the members of an exchange: groups, buckets, an encoding. The plan lists the wrappers of each
// exchange (planned_exchange::wrappers), and nothing else depends on which there are.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// Makes the members of an exchange: exchange_kind::make_member, with wrappers around it if there are any. Any thread
/// may call it.
using member_maker = std::function<std::unique_ptr<member>(const member_options&)>;

/// Makes a member around those that `make_inner` makes. Any thread may call it.
using wrapper = std::function<std::unique_ptr<member>(const member_options& own, const member_maker& make_inner)>;

/// Returns `innermost` with all `wrappers` around it, the first of them innermost.
member_maker wrapped(member_maker innermost, const std::vector<wrapper>& wrappers);

/// A member that forwards everything to an inner member. A wrapper overrides what it changes: what is contributed,
/// sent, received or answered. It may keep state of its own, under a name that no other wrapper of the exchange uses.
class wrapping_member : public member {
 public:
  explicit wrapping_member(std::unique_ptr<member> inner) : inner_(std::move(inner)) {}

  void contribute(const part& own, outbox& out) override { inner_->contribute(own, out); }
  void receive(const part& piece, outbox& out) override { inner_->receive(piece, out); }
  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return inner_->waiting_for(step); }
  std::int64_t largest_fold() const override { return inner_->largest_fold(); }
  void forget_before(std::uint64_t step) override { inner_->forget_before(step); }
  std::optional<std::uint64_t> steps_ahead() const override { return inner_->steps_ahead(); }
  std::optional<std::uint64_t> open_step() const override { return inner_->open_step(); }
  std::optional<holding> held(std::uint64_t step) override { return inner_->held(step); }
  state_dict state() const override { return inner_->state(); }

 protected:
  member& inner() { return *inner_; }

 private:
  std::unique_ptr<member> inner_;
};

}  // namespace troupe

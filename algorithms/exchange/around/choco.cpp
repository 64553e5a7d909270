#include "troupe/algorithms/exchange/around/choco.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <ATen/ops/sub.h>

#include <utility>

namespace troupe {

namespace {

constexpr auto* known_name = "known";
constexpr auto* mixed_name = "mixed";

class choco_member final : public wrapping_member {
 public:
  choco_member(std::unique_ptr<member> inner, const member_options& own, encoder with, std::string state_name,
               double rate)
      : wrapping_member(std::move(inner)),
        with_(std::move(with)),
        state_name_(std::move(state_name)),
        rate_(rate),
        pool_(own.pool) {
    const auto total = own.layout.parameter_end;
    const auto saved = own.restored ? own.restored->all(state_name_) : state_dict{};
    // The rows of W sum to 1, so that s begins at the same value.
    known_ = saved.has(known_name) ? saved.tensor(known_name, total) : own.initial.narrow(0, 0, total);
    mixed_ = saved.has(mixed_name) ? saved.tensor(mixed_name, total) : known_;
    known_ = known_.clone();
    mixed_ = mixed_.clone();
  }

  void contribute(const part& own, outbox& out) override {
    own_ = own.piece.values;
    part change = own;
    change.piece.values = pool_.take(own_.numel());
    at::sub_out(change.piece.values, own_, known_);
    const auto sent = with_.contribution(change);
    known_.add_(sent.piece.values);
    answering through{*this, out};
    inner().contribute(sent, through);
  }

  void receive(const part& piece, outbox& out) override {
    answering through{*this, out};
    inner().receive(with_.received(piece), through);
  }

  void forget_before(std::uint64_t step) override {
    with_.forget_sent();
    wrapping_member::forget_before(step);
  }

  state_dict state() const override {
    auto result = wrapping_member::state();
    state_dict own;
    own.put(known_name, known_.clone());
    own.put(mixed_name, mixed_.clone());
    result.put_all(state_name_, own);
    return result;
  }

 private:
  /// Encodes what the inner member sends, and turns its answers into parameters.
  class answering final : public outbox {
   public:
    answering(choco_member& one, outbox& out) : one_(one), out_(out) {}
    void send(rank_id to, part piece) override { out_.send(to, one_.with_.sent(piece)); }
    void answer(const part& piece) override { out_.answer(one_.moved(piece)); }

   private:
    choco_member& one_;
    outbox& out_;
  };

  part moved(const part& change) {
    const auto first = change.piece.first, count = change.piece.values.numel();
    auto mixed = mixed_.narrow(0, first, count);
    mixed.add_(change.piece.values);
    auto result = change;
    result.piece.values = pool_.take(count);
    at::sub_out(result.piece.values, mixed, known_.narrow(0, first, count));
    result.piece.values.mul_(rate_).add_(own_.narrow(0, first, count));
    return result;
  }

  encoder with_;
  std::string state_name_;
  double rate_;
  models::buffer_pool pool_;
  at::Tensor known_;  ///< [P]: x̂ of this member.
  at::Tensor mixed_;  ///< [P]: s, what the members that it hears are known for, mixed.
  at::Tensor own_;    ///< [P]: the last contribution.
};

}  // namespace

std::unique_ptr<member> make_choco_member(const member_options& own, const encoding_options& options, double rate,
                                          const member_maker& make_inner) {
  TROUPE_ASSERT(!options.feedback, "what CHOCO-SGD loses is in the next difference already");
  const auto inner = with_cuts_of(own, options.how);
  return std::make_unique<choco_member>(make_inner(inner), own, encoder{own, options}, options.state_name, rate);
}

}  // namespace troupe

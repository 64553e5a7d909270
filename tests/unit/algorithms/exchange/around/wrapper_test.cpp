// A wrapper that a program adds: it has a state and uses the learning rate.
#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/around/group.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace wrapper_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// Answers with the sum of all means so far, each times the learning rate of its step.
class summing_member final : public wrapping_member {
 public:
  summing_member(const member_options& own, std::unique_ptr<member> inner)
      : wrapping_member(std::move(inner)), optimizer_(own.optimizer) {
    const auto elements = own.layout.parameter_end;
    sum_ = own.restored ? own.restored->tensor("sum", elements).clone() : at::zeros({elements});
  }

  void contribute(const part& own, outbox& out) override {
    summing through{*this, out};
    inner().contribute(own, through);
  }

  void receive(const part& piece, outbox& out) override {
    summing through{*this, out};
    inner().receive(piece, through);
  }

  state_dict state() const override {
    auto all = wrapping_member::state();
    all.put("sum", sum_.clone());
    return all;
  }

 private:
  struct summing final : outbox {
    summing(summing_member& to, outbox& out) : owner(to), next(out) {}
    void send(rank_id to, part piece) override { next.send(to, std::move(piece)); }
    void answer(const part& piece) override {
      auto changed = piece;
      auto sum = owner.sum_.narrow(0, piece.piece.first, piece.piece.values.numel());
      sum.add_(piece.piece.values, owner.optimizer_.lr * owner.optimizer_.schedule.at(piece.origin.step));
      changed.piece.values = sum.clone();
      next.answer(changed);
    }
    summing_member& owner;
    outbox& next;
  };

  optimizer_options optimizer_;
  at::Tensor sum_;
};

std::unique_ptr<member> make_summing_member(const member_options& own, const member_maker& make_inner) {
  return std::make_unique<summing_member>(own, make_inner(own));
}

/// Four workers that contribute 1 in every element. The learning rate is 0.5, and 0.25 from the third step on.
exchange_pump::options pumped(const member_maker& make, std::uint64_t steps, std::vector<member*>* made = nullptr,
                              std::shared_ptr<const state_dict> restored = {}) {
  return {.workers = 4,
          .servers = 0,
          .steps = steps,
          .make =
              [=](rank_id rank) {
                member_options own{.among = {.rank = rank, .world_size = 4},
                                   .layout = three_parameters(),
                                   .settings = {{"route", std::string{"direct"}}},
                                   .buckets = {{100, 76}, {0, 100}}};
                own.optimizer = {.lr = 0.5,
                                 .schedule = {.how = learning_rate::decay::step, .decay_at = {2}, .decay_factor = 0.5}};
                own.restored = restored;
                auto member = make(own);
                if (made) made->push_back(member.get());
                return member;
              },
          .bring = equal_gradients(1.F),
          .watch = {}};
}

member_maker made_with(const std::vector<wrapper>& wrappers) {
  return wrapped(find_exchange("all_reduce")->make_member, wrappers);
}

std::unique_ptr<member> in_pairs(const member_options& own, const member_maker& make_inner) {
  return make_group_member({.groups = {{0, 1}, {2, 3}}, .own = own, .make_inner = make_inner});
}

std::unique_ptr<member> in_bf16(const member_options& own, const member_maker& make_inner) {
  return make_encoded_member(own, {.how = encoding::bfloat16}, make_inner);
}

}  // namespace

TEST_CASE("wrappers are put around a member from the inside out") {
  std::vector<std::string> order;
  const auto noting = [&](const std::string& name) {
    return [&order, name](const member_options& own, const member_maker& make_inner) {
      order.push_back(name);
      return make_inner(own);
    };
  };
  const auto nothing = [](const member_options&) { return std::unique_ptr<member>{}; };
  wrapped(nothing, {noting("inner"), noting("outer")})({});
  CHECK(order == std::vector<std::string>{"outer", "inner"});
}

TEST_CASE("a wrapper of a program's own holds state and sees the learning rate, whatever it is around") {
  const std::vector<std::pair<std::string, std::vector<wrapper>>> around{
      {"buckets", {make_bucketed_member}},
      {"groups and buckets", {in_pairs, make_bucketed_member}},
      {"an encoding", {make_bucketed_member, in_bf16}}};
  for (const auto& [name, inner] : around) {
    CAPTURE(name);
    auto wrappers = inner;
    wrappers.emplace_back(make_summing_member);
    std::vector<member*> members;
    exchange_pump whole{pumped(made_with(wrappers), 4)};
    whole.run(1);
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(whole.last(rank).equal(at::full({176}, 1.5F)));

    exchange_pump before{pumped(made_with(wrappers), 2, &members)};
    before.run(2);
    const auto saved = std::make_shared<const state_dict>(members.at(0)->state());
    exchange_pump after{pumped(made_with(wrappers), 1, nullptr, saved)};
    after.run(3);
    CHECK(after.last(1).equal(at::full({176}, 1.5F)));  // its steps start from the first one again
  }
}

}  // namespace wrapper_test

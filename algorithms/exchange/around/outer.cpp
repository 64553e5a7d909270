#include "troupe/algorithms/exchange/around/outer.hpp"

#include "troupe/algorithms/rules/learning_rate.hpp"

#include <ATen/ops/sub.h>

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

const std::map<std::string, outer_rule> rules_by_name{{"none", outer_rule::none},
                                                      {"momentum", outer_rule::momentum},
                                                      {"nesterov", outer_rule::nesterov},
                                                      {"slowmo", outer_rule::slowmo},
                                                      {"adam", outer_rule::adam}};

constexpr auto* state_name = "outer";

std::string rule_named(const setting_values& settings) {
  const auto found = settings.find("outer");
  return found == settings.end() ? "none" : std::get<std::string>(found->second);
}

double number_of(const setting_values& settings, const std::string& key, double otherwise) {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : std::get<double>(found->second);
}

/// Takes the step of an outer optimizer on each piece of the mean.
class outer_member final : public wrapping_member {
 public:
  outer_member(std::unique_ptr<member> inner, const member_options& own, const outer_optimizer& rule,
               bool sends_differences)
      : wrapping_member(std::move(inner)),
        rule_(rule),
        sends_differences_(sends_differences),
        parameters_(own.layout.parameter_end),
        optimizer_(own.optimizer),
        due_(own.due),
        pool_(own.pool) {
    if (own.restored && own.restored->has(std::string(state_name) + "/anchor"))
      restore(own.restored->all(state_name), own.layout.total);
    else
      all_ = rule_.begin(own.initial.narrow(0, 0, own.layout.total));
  }

  void contribute(const part& own, outbox& out) override {
    begin_step(own.origin.step);
    stepping through{*this, out};
    if (!sends_differences_) return inner().contribute(own, through);
    part change = own;
    change.piece.values = pool_.take(own.piece.values.numel());
    at::sub_out(change.piece.values, at_piece(own), own.piece.values);
    inner().contribute(change, through);
  }

  void receive(const part& piece, outbox& out) override {
    stepping through{*this, out};
    inner().receive(piece, through);
  }

  state_dict state() const override {
    auto result = wrapping_member::state();
    state_dict own;
    own.put("anchor", all_.anchor.clone());
    if (all_.first.defined()) own.put("first", all_.first.clone());
    if (all_.second.defined()) own.put("second", all_.second.clone());
    if (rate_ != 0) own.put_number("rate", rate_);
    result.put_all(state_name, own);
    return result;
  }

 private:
  /// Replaces the mean in the answers of the inner member.
  class stepping final : public outbox {
   public:
    stepping(outer_member& one, outbox& out) : one_(one), out_(out) {}
    void send(rank_id to, part piece) override { out_.send(to, std::move(piece)); }
    void answer(const part& piece) override { out_.answer(one_.stepped(piece)); }

   private:
    outer_member& one_;
    outbox& out_;
  };

  void restore(const state_dict& saved, std::int64_t total) {
    all_.anchor = saved.tensor("anchor", total).clone();
    if (rule_.rule != outer_rule::none) all_.first = saved.tensor("first", total).clone();
    if (rule_.rule == outer_rule::adam) all_.second = saved.tensor("second", total).clone();
    if (saved.has("rate")) rate_ = saved.number("rate");
  }

  /// Notes the rate of the step that a worker has completed before this exchange, once for all pieces.
  void begin_step(std::uint64_t step) {
    if (rule_.rule != outer_rule::slowmo || step == step_) return;
    step_ = step;
    const auto now = optimizer_.schedule.rate(optimizer_.lr, step - due_.lead);
    rate_ratio_ = rate_ == 0 ? 1 : now / rate_;
    rate_ = now;
  }

  at::Tensor at_piece(const part& piece) const {
    return all_.anchor.narrow(0, piece.piece.first, piece.piece.values.numel());
  }

  part stepped(const part& answer) {
    const auto first = answer.piece.first, count = answer.piece.values.numel();
    auto mean = answer.piece.values;
    if (sends_differences_) mean = at::sub(at_piece(answer), mean);
    const auto of_parameters = std::clamp<std::int64_t>(parameters_ - first, 0, count);
    const auto where = [&](const at::Tensor& values) {
      return values.defined() ? values.narrow(0, first, of_parameters) : values;
    };
    if (of_parameters > 0) {
      outer_state piece{.anchor = where(all_.anchor), .first = where(all_.first), .second = where(all_.second)};
      rule_.step(piece, mean.narrow(0, 0, of_parameters), rate_ratio_);
    }
    if (of_parameters < count)
      at_piece(answer)
          .narrow(0, of_parameters, count - of_parameters)
          .copy_(mean.narrow(0, of_parameters, count - of_parameters));
    auto result = answer;
    result.piece.values = pool_.take(count);  // the anchor changes again in the next exchange
    result.piece.values.copy_(at_piece(answer));
    return result;
  }

  outer_optimizer rule_;
  bool sends_differences_;
  std::int64_t parameters_;  ///< Number of elements before the float buffers.
  optimizer_options optimizer_;
  cadence due_;
  models::buffer_pool pool_;
  outer_state all_;  ///< Covers float buffers as well; their moments are not used.
  std::optional<std::uint64_t> step_;
  double rate_{0};  ///< Learning rate of the step before the last exchange; 0 before the first.
  double rate_ratio_{1};
};

}  // namespace

std::vector<setting> with_outer_settings(std::vector<setting> settings) {
  settings.push_back(
      {.name = "outer",
       .type = setting_type::choice,
       .default_text = "\"none\"",
       .explanation = "What becomes of the mean of the parameters. \"none\": all workers continue with it. The others "
                      "take a step of an outer optimizer, along what the workers have changed on average since the "
                      "last exchange: SGD with \"momentum\" (FedAvgM) or \"nesterov\" momentum (DiLoCo), \"slowmo\" "
                      "(slow momentum), or \"adam\" (FedAdam). Each worker keeps two more copies of the parameters, "
                      "or three with \"adam\".",
       .choices = {"none", "momentum", "nesterov", "slowmo", "adam"}});
  settings.push_back({.name = "outer_lr",
                      .type = setting_type::real,
                      .explanation =
                          "Learning rate of the outer optimizer. Used only when outer is not \"none\". Default: 0.7 "
                          "with \"nesterov\", 0.01 with \"adam\", otherwise 1.",
                      .minimum = 0,
                      .minimum_excluded = true});
  settings.push_back({.name = "outer_momentum",
                      .type = setting_type::real,
                      .explanation =
                          "Momentum of the outer optimizer. Used only when outer = \"momentum\", \"nesterov\" or "
                          "\"slowmo\". Default: 0.5 with \"slowmo\", otherwise 0.9.",
                      .minimum = 0,
                      .maximum = 1,
                      .maximum_excluded = true});
  settings.push_back({.name = "outer_betas",
                      .type = setting_type::reals,
                      .explanation = "Adam's two betas. Used only when outer = \"adam\". Default: [0.9, 0.99].",
                      .minimum = 0,
                      .maximum = 1,
                      .maximum_excluded = true});
  settings.push_back({.name = "outer_eps",
                      .type = setting_type::real,
                      .explanation = "Added to the root of Adam's second moment, which also begins at its square. Used "
                                     "only when outer = \"adam\". Default: 0.001.",
                      .minimum = 0,
                      .minimum_excluded = true});
  return settings;
}

setting_values with_outer_defaults(setting_values settings) {
  const auto rule = rule_named(settings);
  if (rule == "none") {
    settings.erase("outer");
    settings.erase("outer_lr");
  } else {
    settings.try_emplace("outer_lr", rule == "nesterov" ? 0.7 : rule == "adam" ? 0.01 : 1.0);
  }
  if (rule == "none" || rule == "adam") {
    settings.erase("outer_momentum");
  } else {
    settings.try_emplace("outer_momentum", rule == "slowmo" ? 0.5 : 0.9);
  }
  if (rule == "adam") {
    settings.try_emplace("outer_betas", std::vector<double>{0.9, 0.99});
    settings.try_emplace("outer_eps", 1e-3);
  } else {
    settings.erase("outer_betas");
    settings.erase("outer_eps");
  }
  return settings;
}

outer_optimizer outer_of(const setting_values& settings) {
  const auto complete = with_outer_defaults(settings);
  outer_optimizer result{.rule = rules_by_name.at(rule_named(complete))};
  result.lr = number_of(complete, "outer_lr", result.lr);
  result.momentum = number_of(complete, "outer_momentum", result.momentum);
  result.eps = number_of(complete, "outer_eps", result.eps);
  const auto betas = complete.find("outer_betas");
  if (betas != complete.end() && !wrong_outer_setting(complete)) {
    const auto& two = std::get<std::vector<double>>(betas->second);
    result.beta1 = two[0];
    result.beta2 = two[1];
  }
  return result;
}

std::optional<complaint> wrong_outer_setting(const setting_values& settings) {
  const auto betas = settings.find("outer_betas");
  if (betas == settings.end() || std::get<std::vector<double>>(betas->second).size() == 2) return {};
  return complaint{"outer_betas",
                   "outer_betas needs two numbers, for the first and for the second moment, such as [0.9, 0.99]"};
}

std::unique_ptr<member> make_outer_member(const member_options& own, const outer_optimizer& rule,
                                          bool sends_differences, const member_maker& make_inner) {
  return std::make_unique<outer_member>(make_inner(own), own, rule, sends_differences);
}

}  // namespace troupe

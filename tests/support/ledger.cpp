#include "tests/support/ledger.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <stdexcept>

namespace troupe::tests {

namespace {

constexpr double tolerance = 1e-4;

bool are_close(const at::Tensor& found, const at::Tensor& expected) {
  return at::allclose(found.to(at::kDouble), expected, tolerance, tolerance);
}

bool is_equal(const state_dict& a, const state_dict& b) {
  return std::equal(
      a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
      [](const auto& one, const auto& other) { return one.first == other.first && one.second.equal(other.second); });
}

}  // namespace

server_model::server_model(const server_rule& rule, const at::Tensor& initial)
    : rule_(rule), x_(initial.to(at::kDouble)), v_(at::zeros_like(x_)) {}

void server_model::step(const at::Tensor& gradient) {
  v_ = rule_.momentum * v_ + gradient;
  x_ = x_ - rule_.lr * v_;
  version_ += 1;
}

void server_model::take(const part& piece) {
  const auto values = piece.piece.values.to(at::kDouble);
  if (rule_.alpha > 0) {
    change_ = rule_.alpha * (x_ - values);  // the worker's change
    x_ = x_ - change_;
    version_ += 1;
    applied_ += 1;
  } else if (rule_.first == 0) {
    step(values);
    applied_ += 1;
  } else if (piece.origin.step != version_) {
    refused_ += 1;
  } else {
    came_.push_back(piece);
    if (came_.size() < rule_.first) return;
    auto mean = at::zeros_like(x_);
    for (const auto& one : came_) mean += one.piece.values.to(at::kDouble) / static_cast<double>(rule_.first);
    applied_ += came_.size();
    came_.clear();
    step(mean);
  }
}

bool server_model::explains(const part& answer) const {
  return answer.origin.version == version_ && are_close(answer.piece.values, rule_.alpha > 0 ? change_ : x_);
}

void ledger::enter(rank_id by, event one) {
  one.piece.receipt.reset();  // else the part would count as under way
  lists_[by].push_back(std::move(one));
}

void ledger::saved(rank_id by, const state_dict& state) {
  if (static_cast<std::uint32_t>(by) < workers_) {
    worker_sizes_[by] = lists_[by].size();
    return;
  }
  auto now = worker_sizes_;
  now[by] = lists_[by].size();
  saved_.emplace_back(state, std::move(now));
}

std::size_t ledger::go_back(const run_state* checkpoint, const std::string& name) {
  sizes then;
  for (std::uint32_t i = 0; checkpoint && i < servers_; ++i) {
    const auto state = checkpoint->actors.at(name + " server " + std::to_string(i)).all("member");
    const auto found = std::find_if(saved_.rbegin(), saved_.rend(), [&](const auto& one) {
      return one.second.contains(server(i)) && is_equal(one.first, state);
    });
    if (found == saved_.rend()) throw std::logic_error("the checkpoint has a state that the server never saved");
    then.insert(found->second.begin(), found->second.end());
  }
  std::size_t forgotten = 0;
  for (auto& [by, list] : lists_) {
    forgotten += list.size() - then[by];
    list.resize(then[by]);
  }
  return forgotten;
}

std::vector<std::uint64_t> ledger::steps_of(rank_id by, rank_id peer, bool out) const {
  std::vector<std::uint64_t> steps;
  const auto list = lists_.find(by);
  if (list == lists_.end()) return steps;
  for (const auto& one : list->second)
    if (one.out == out && one.peer == peer) steps.push_back(one.piece.origin.step);
  return steps;
}

bool ledger::leaves_out_late_steps_only(rank_id worker, const std::set<std::uint64_t>& steps) const {
  std::uint64_t next = 0, open = 0;  // the next step, and the step that is open as far as the worker knows
  for (const auto& one : lists_.at(worker)) {
    const auto step = one.piece.origin.step;
    if (!one.out) {
      open = one.piece.origin.version;
      continue;
    }
    if (step < next || step > std::max(next, open) || !steps.contains(step)) return false;
    next = step + 1;
  }
  return std::max(next, open) >= steps.size();
}

std::string ledger::complaint(const std::set<std::uint64_t>& steps, const server_rule& rule,
                              const at::Tensor& initial) const {
  for (std::uint32_t index = 0; index < servers_; ++index) {
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const auto who = "worker " + std::to_string(rank) + ", server " + std::to_string(index) + ": ";
      const auto sent = steps_of(rank_id{rank}, server(index), true);
      std::vector<std::uint64_t> expected{steps.begin(), steps.end()};
      if (steps.empty())
        for (std::uint64_t step = 0; step < sent.size(); ++step) expected.push_back(step);
      if (rule.first > 0 ? !leaves_out_late_steps_only(rank_id{rank}, steps) : sent != expected)
        return who + "contributions are missing, repeated or out of order";
      if (steps_of(server(index), rank_id{rank}, false) != sent) return who + "what the worker sent was not taken once";
      if (steps_of(server(index), rank_id{rank}, true) != sent) return who + "what was taken was not answered once";
      if (steps_of(rank_id{rank}, server(index), false) != sent) return who + "an answer did not arrive once";
    }
    const auto list = lists_.find(server(index));
    if (list == lists_.end()) continue;
    const auto first = list->second.front().piece.piece.first;
    server_model model{rule, initial.narrow(0, first, list->second.front().piece.piece.values.numel())};
    for (const auto& one : list->second) {
      if (!one.out) model.take(one.piece);
      if (one.out && !model.explains(one.piece))
        return "server " + std::to_string(index) + ": the answer to step " + std::to_string(one.piece.origin.step) +
               " does not follow from the contributions that were taken";
    }
  }
  return {};
}

server_model ledger::model_of(std::uint32_t index, const server_rule& rule, const at::Tensor& initial) const {
  const auto& list = lists_.at(server(index));
  const auto& piece = list.front().piece.piece;
  server_model model{rule, initial.narrow(0, piece.first, piece.values.numel())};
  for (const auto& one : list)
    if (!one.out) model.take(one.piece);
  return model;
}

std::uint64_t ledger::contributions() const {
  std::uint64_t count = 0;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) count += steps_of(rank_id{rank}, server(0), true).size();
  return count;
}

}  // namespace troupe::tests

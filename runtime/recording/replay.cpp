#include "troupe/runtime/recording/replay.hpp"

#include <algorithm>
#include <utility>

namespace troupe::recording {

namespace {

constexpr std::uint32_t coordinator = 0;

/// Lets a worker answer requests after the same steps as the recorded worker.
class replayed_worker final : public worker_gate {
 public:
  replayed_worker(std::shared_ptr<recorded_requests> recorded, std::function<bool(std::uint64_t)> may_go_on)
      : recorded_(std::move(recorded)), may_go_on_(std::move(may_go_on)) {}

  bool holds_requests() const override { return !recorded_->empty(); }

  std::uint64_t may_begin(std::uint64_t granted, std::uint64_t completed) const override {
    auto most = may_go_on_ ? std::min(granted, completed + 1) : granted;
    for (const auto& request : *recorded_) most = std::min(most, request.at);
    return most;
  }

  bool may_go_on(std::uint64_t completed) override { return !may_go_on_ || may_go_on_(completed); }

  void keep_request(std::uint64_t step) override { kept_.push_back(step); }

  std::vector<std::uint64_t> requests_due(std::uint64_t completed) override {
    std::vector<std::uint64_t> due;
    std::erase_if(kept_, [&](std::uint64_t step) {
      if (!take({.what = recorded_request::kind::show, .at = completed, .step = step})) return false;
      due.push_back(step);
      return true;
    });
    return due;
  }

  bool may_halt(std::uint64_t begun) override { return take({.what = recorded_request::kind::halt, .at = begun}); }

  bool may_hold(std::uint64_t begun) override { return take({.what = recorded_request::kind::hold, .at = begun}); }

 private:
  /// Returns whether a request may be answered now. If so, forgets it.
  bool take(const recorded_request& request) {
    if (recorded_->empty()) return true;
    const auto match = std::find(recorded_->begin(), recorded_->end(), request);
    if (match == recorded_->end()) return false;
    recorded_->erase(match);
    return true;
  }

  std::shared_ptr<recorded_requests> recorded_;  ///< Requests still to be answered.
  std::function<bool(std::uint64_t)> may_go_on_;
  std::vector<std::uint64_t> kept_;  ///< Steps whose parameters were requested earlier than in the recorded run.
};

std::shared_ptr<recorded_requests>& made_if_missing(std::shared_ptr<recorded_requests>& requests) {
  if (!requests) requests = std::make_shared<recorded_requests>();
  return requests;
}

}  // namespace

replay::replay(const contents& recorded, bool queued) {
  std::map<std::uint32_t, std::vector<delivery>> of_actors{{coordinator, {}}}, of_locks;
  const auto note = [&](std::uint32_t rank, const recorded_request& request) {
    made_if_missing(requests_[rank])->push_back(request);
  };
  for (const auto& [actor, delivered] : recorded.entries) {
    (delivered.what == delivery::kind::acquisition ? of_locks : of_actors)[actor].push_back(delivered);
    if (actor != coordinator) continue;
    if (delivered.what == delivery::kind::interrupt) ++interrupts_;
    if (delivered.what == delivery::kind::time_limit) ++time_limits_;
    if (delivered.what == delivery::kind::halted)
      note(delivered.from, {.what = recorded_request::kind::halt, .at = delivered.step});
    if (delivered.what == delivery::kind::held)
      note(delivered.from, {.what = recorded_request::kind::hold, .at = delivered.step});
    if (delivered.what == delivery::kind::order) orders_.push_back(delivered);
    if (queued && delivered.what == delivery::kind::replica && delivered.part == 0)
      note(delivered.from, {.what = recorded_request::kind::show, .at = delivered.at, .step = delivered.step});
  }
  for (auto& [actor, deliveries] : of_actors)
    scripts_.emplace(actor, std::make_shared<delivery_script>(std::move(deliveries)));
  for (auto& [actor, deliveries] : of_locks)
    acquisitions_.emplace(actor, std::make_shared<delivery_script>(std::move(deliveries)));
}

std::shared_ptr<lock_order> replay::lock_order_of(std::uint32_t id) {
  auto& script = acquisitions_[id];
  if (!script) script = std::make_shared<delivery_script>(std::vector<delivery>{});
  return lock_orders_[id] = std::make_shared<lock_order>(script);
}

delivery_order replay::order_of(std::uint32_t actor) {
  auto& script = scripts_[actor];
  if (!script) script = std::make_shared<delivery_script>(std::vector<delivery>{});
  return {.script = script};
}

std::shared_ptr<worker_gate> replay::gate_of(std::uint32_t rank, std::function<bool(std::uint64_t)> may_go_on) {
  return std::make_shared<replayed_worker>(made_if_missing(requests_[rank]), std::move(may_go_on));
}

void replay::open() {
  for (const auto& [actor, script] : scripts_) script->open();
  for (const auto& [rank, requests] : requests_) requests->clear();
  for (const auto& [actor, script] : acquisitions_) script->open();
  for (const auto& [actor, order] : lock_orders_) order->wake();
}

std::string replay::missing() const {
  std::string text;
  for (const auto& [actor, script] : scripts_) {
    if (!script->due()) continue;
    const auto name = actor == coordinator ? std::string("the coordinator") : "server " + std::to_string(actor);
    text += (text.empty() ? "" : "; ") + name + " waits for " + describe(*script->due());
  }
  for (const auto& [actor, script] : acquisitions_)
    if (script->due())
      text += (text.empty() ? "" : "; ") + std::string("the shared memory waits for ") + describe(*script->due());
  return text;
}

}  // namespace troupe::recording

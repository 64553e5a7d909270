#include "troupe/runtime/recording/replay.hpp"

#include <utility>

namespace troupe::recording {

namespace {

constexpr std::uint32_t coordinator = 0;

}  // namespace

replay::replay(const contents& recorded, bool queued) {
  std::map<std::uint32_t, std::vector<delivery>> of_actors{{coordinator, {}}}, of_locks;
  const auto note = [&](std::uint32_t rank, const recorded_request& request) { requests_of(rank)->push_back(request); };
  for (const auto& [actor, what] : recorded.entries) {
    (what.what == delivery::kind::acquisition ? of_locks : of_actors)[actor].push_back(what);
    if (actor != coordinator) continue;
    if (what.what == delivery::kind::interrupt) ++interrupts_;
    if (what.what == delivery::kind::time_limit) ++time_limits_;
    if (what.what == delivery::kind::halted) note(what.from, {.what = recorded_request::kind::halt, .at = what.step});
    if (queued && what.what == delivery::kind::replica && what.part == 0)
      note(what.from, {.what = recorded_request::kind::show, .at = what.at, .step = what.step});
  }
  for (auto& [actor, all] : of_actors) scripts_.emplace(actor, std::make_shared<delivery_script>(std::move(all)));
  for (auto& [actor, all] : of_locks) acquisitions_.emplace(actor, std::make_shared<delivery_script>(std::move(all)));
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

std::shared_ptr<std::vector<recorded_request>> replay::requests_of(std::uint32_t rank) {
  auto& requests = requests_[rank];
  if (!requests) requests = std::make_shared<std::vector<recorded_request>>();
  return requests;
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

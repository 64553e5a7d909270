#include "troupe/runtime/emulation/slowed_lanes.hpp"

#include "troupe/data/formats/cpu_time.hpp"

#include <caf/actor.hpp>

#include <chrono>
#include <thread>
#include <utility>

namespace troupe::emulation {

namespace {

class slowed_lane final : public lane {
 public:
  slowed_lane(std::unique_ptr<lane> inner, double factor) : inner_(std::move(inner)), factor_(factor) {}

  void post(caf::actor owner, task what, job work) override {
    if (what.what != task::kind::advance) return inner_->post(std::move(owner), what, std::move(work));
    inner_->post(std::move(owner), what, [work = std::move(work), factor = factor_] {
      const auto before = data::cpu_time_of_thread();
      auto result = work();
      const auto used = std::chrono::duration<double, std::nano>(data::cpu_time_of_thread() - before);
      std::this_thread::sleep_for(used * (factor - 1));
      return result;
    });
  }

  std::shared_ptr<rendezvous> meeting_point() override { return inner_->meeting_point(); }
  std::shared_ptr<job_clock> clock() override { return inner_->clock(); }

 private:
  std::unique_ptr<lane> inner_;
  double factor_;
};

}  // namespace

double slowdown_of(const plan& plan, std::uint32_t rank) {
  const auto& factors = plan.file.workers.slowdown;
  if (factors.empty()) return 1;
  return factors.size() == 1 ? factors.front() : factors.at(rank);
}

slowed_lanes::slowed_lanes(lane_factory& inner, const plan& plan) : inner_(inner) {
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) factors_.push_back(slowdown_of(plan, rank));
}

std::unique_ptr<lane> slowed_lanes::make(const actor_label& owner) {
  auto plain = inner_.make(owner);
  if (owner.id.what != role::compute || factors_.at(owner.id.rank) == 1) return plain;
  return std::make_unique<slowed_lane>(std::move(plain), factors_.at(owner.id.rank));
}

}  // namespace troupe::emulation

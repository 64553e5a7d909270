// Lanes of slow workers: workers.slowdown of the topology file.
#pragma once

#include "troupe/actors/wire/lane.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::emulation {

/// Returns the factor by which the computing time of a worker is multiplied.
double slowdown_of(const plan& plan, std::uint32_t rank);

/// Makes lanes with another factory, which must outlive this one. On the lanes of slow workers, each computing job is
/// followed by a pause of its CPU time times the factor minus one.
class slowed_lanes final : public lane_factory {
 public:
  slowed_lanes(lane_factory& inner, const plan& plan);
  std::unique_ptr<lane> make(const actor_label& owner) override;

 private:
  lane_factory& inner_;
  std::vector<double> factors_;  ///< By rank.
};

}  // namespace troupe::emulation

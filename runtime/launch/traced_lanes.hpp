// Lanes whose jobs are reported to a trace.
#pragma once

#include "troupe/actors/wire/lane.hpp"
#include "troupe/algorithms/support/trace.hpp"

#include <memory>
#include <string>

namespace troupe {

/// Adds a job to the track of its lane.
void add_job(const trace_track& track, const task& what, trace_time begin, trace_time end);

/// Makes the lanes of another factory, which must outlive it. Each lane has a track with the name of its owner, which
/// records when its jobs ran on the steady clock.
class traced_lanes final : public lane_factory {
 public:
  traced_lanes(lane_factory& inner, std::shared_ptr<trace_sink> sink) : inner_(inner), sink_(std::move(sink)) {}
  std::unique_ptr<lane> make(const actor_label& owner) override;

 private:
  lane_factory& inner_;
  std::shared_ptr<trace_sink> sink_;
};

}  // namespace troupe

#include "troupe/runtime/launch/traced_lanes.hpp"

#include <chrono>
#include <utility>

namespace troupe {

namespace {

const char* name_of(const task& what) {
  switch (what.what) {
    case task::kind::advance:
      return what.gradients == 0 ? "apply" : what.elements == 0 ? "gradient" : "step";
    case task::kind::fold:
      return "fold";
    case task::kind::assemble:
      return "assemble";
    case task::kind::evaluate:
      return "evaluate";
    case task::kind::digest:
      return "digest";
    case task::kind::state:
      return "state";
    case task::kind::write:
      return "write";
  }
  return "job";
}

class traced_lane final : public lane {
 public:
  traced_lane(std::unique_ptr<lane> inner, trace_track track) : inner_(std::move(inner)), track_(std::move(track)) {}

  void post(caf::actor owner, task what, job work) override {
    inner_->post(std::move(owner), what, [work = std::move(work), what, track = track_] {
      const auto begin = std::chrono::steady_clock::now();
      auto result = work();
      add_job(track, what, trace_time_of(begin), trace_time_of(std::chrono::steady_clock::now()));
      return result;
    });
  }

  std::shared_ptr<rendezvous> meeting_point() override { return inner_->meeting_point(); }
  std::shared_ptr<job_clock> clock() override { return inner_->clock(); }

 private:
  std::unique_ptr<lane> inner_;
  trace_track track_;
};

}  // namespace

void add_job(const trace_track& track, const task& what, trace_time begin, trace_time end) {
  if (what.what == task::kind::advance)
    track.add(name_of(what), begin, end,
              {{"gradients", static_cast<std::int64_t>(what.gradients)}, {"samples", what.samples}});
  else
    track.add(name_of(what), begin, end);
}

std::unique_ptr<lane> traced_lanes::make(const actor_label& owner) {
  return std::make_unique<traced_lane>(inner_.make(owner), trace_track{sink_, owner.name});
}

}  // namespace troupe

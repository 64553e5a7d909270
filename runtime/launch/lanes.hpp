// Lanes implemented by threads, none of which outlives the node unless it is stuck.
#pragma once

#include "troupe/actors/wire/lane.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Makes lanes with one thread each. The destructor waits for the running jobs and joins every thread; a job that waits
/// for its owner is released. make() may be called from any thread: ports make their lanes in their own handlers.
class thread_lanes final : public lane_factory {
 public:
  thread_lanes();
  ~thread_lanes() override;
  std::unique_ptr<lane> make(const actor_label& owner) override;

  /// Reports each job that has not returned for `limit` (run.timeout), once. Call it at most once.
  void report_long_jobs(std::chrono::milliseconds limit, std::function<void(const std::string&)> report);

  /// Closes all lanes and waits for their running jobs: at most `writing` for those that write files, and at most
  /// `computing` for the others. Returns the names of the lanes that have not returned by then; their threads are
  /// detached.
  std::vector<std::string> close(std::chrono::milliseconds computing, std::chrono::milliseconds writing);

 private:
  struct crew;
  std::unique_ptr<crew> crew_;
};

}  // namespace troupe

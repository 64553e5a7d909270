// Lanes that are threads, and the promise that none of them outlives the node.
#pragma once

#include "troupe/actors/support/lane.hpp"

#include <memory>
#include <string>

namespace troupe {

/// Makes lanes with a thread each. The destructor waits for the jobs under way and joins every thread; where one of
/// them waits for its owner, that is over then. One thread makes them.
class thread_lanes final : public lane_factory {
 public:
  thread_lanes();
  ~thread_lanes() override;
  std::unique_ptr<lane> make(const std::string& name) override;

 private:
  struct crew;
  std::unique_ptr<crew> crew_;
};

}  // namespace troupe

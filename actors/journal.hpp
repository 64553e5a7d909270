// Where a run is written down. The recorder actor calls it from its lane, one call at a time; the runtime implements
// it with files and a terminal, tests with a vector.
#pragma once

#include "troupe/actors/messages.hpp"

#include <cstdint>

namespace troupe {

class journal {
 public:
  virtual ~journal() = default;

  /// Takes one line of the metrics.
  virtual void write(const record& line) = 0;

  /// Hears that every worker has completed `step` steps. Often; cheap.
  virtual void progress(std::uint64_t step) = 0;

  /// Saves the best result so far, in place of the one before.
  virtual void keep(const snapshot& best) = 0;

  /// Saves the result of the run, before the `end` record is written.
  virtual void save(const snapshot& result) = 0;
};

}  // namespace troupe

// How long a run would have taken under other conditions: the deployed actors in virtual time, with the gradients, the
// evaluations and the links that the run has measured.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/diagnosis/findings.hpp"
#include "troupe/tools/diagnosis/measured_run.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::diagnosis {

class what_if {
 public:
  /// Reads the data set of a run with the topology `file`, which was loaded from its results folder. `cores` is the
  /// number of cores of this machine, which is assumed to be the one that made the run. Throws std::exception if the
  /// run cannot be simulated here.
  what_if(topology::topology file, const measured_run& run, unsigned cores);
  ~what_if();
  what_if(const what_if&) = delete;
  what_if& operator=(const what_if&) = delete;

  /// Returns the topology of the run.
  const topology::topology& file() const;

  /// Returns the seconds that the run would have taken with these settings (as for --set) for the same number of
  /// samples. Returns nothing if its topology is not valid with them or cannot be simulated.
  std::optional<double> seconds_with(const std::vector<std::string>& settings) const;

  /// Simulates the run without each cause.
  explanation explain() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::diagnosis

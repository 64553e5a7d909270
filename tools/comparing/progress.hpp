// The progress of a comparison: which run is in progress, what the last ones measured, and how long the rest will take.
#pragma once

#include "troupe/tools/comparing/comparison.hpp"

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::comparing {

/// Estimates how long the remaining runs will take from how long earlier ones took.
class time_left {
 public:
  using seconds = std::chrono::duration<double>;

  /// Adds the time that a run of this variant took.
  void add(std::size_t variant, seconds taken);

  /// Returns the time that runs of these variants will take, of which the first has been running for `running`. A
  /// variant that has not been run yet is assumed to take as long as the others on average. Returns nothing before the
  /// first run has ended.
  std::optional<seconds> of(const std::vector<std::size_t>& remaining, seconds running = seconds{0}) const;

 private:
  struct total {
    seconds sum{0};
    std::size_t count{0};
  };
  std::map<std::size_t, total> by_variant_;
  total all_;
};

/// Prints a line for each run when it has ended, and on a terminal a line about the one in progress.
class progress {
 public:
  /// `live`: whether `out` is a terminal, on which a line can be redrawn.
  progress(std::ostream& out, const comparison& what, std::vector<planned_run> remaining, bool live);

  void running(std::chrono::milliseconds since_start);
  /// `problem`: the last line that a failed run has printed.
  void ended(const run_result& result, std::chrono::milliseconds taken, const std::string& problem);
  /// Clears the line that is redrawn.
  void clear();

 private:
  std::string head() const;
  std::string estimate(std::chrono::milliseconds running) const;

  std::ostream& out_;
  const comparison& what_;
  std::vector<planned_run> remaining_;
  std::size_t done_{0};
  bool live_, drawn_{false};
  time_left left_;
};

}  // namespace troupe::comparing

// What a run concludes from its evaluations: which result is the best so far, and whether to stop early.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::rules {

struct stop_options {
  /// Stop once this accuracy is reached in `target_hold` consecutive evaluations.
  std::optional<double> target_accuracy{};
  std::uint64_t target_hold{2};
  std::optional<std::uint64_t> patience{};  ///< Stop after this many consecutive evaluations without improvement.

  bool any() const { return target_accuracy || patience; }
};

class verdicts {
 public:
  struct verdict {
    bool best{false};          ///< Better than all earlier evaluations: by accuracy, or by loss if there is none.
    std::string stopped_by{};  ///< Why training stops here, as in record::stopped_by; empty if it continues.
  };

  explicit verdicts(stop_options options = {}) : options_(options) {}

  /// Judges the next evaluation. Called in order of steps.
  verdict on(const evaluation& found);

  /// Return and restore what the next verdicts depend on.
  state_dict state() const;
  void restore(const state_dict& from);

 private:
  stop_options options_;
  std::optional<double> best_merit_;
  std::uint64_t target_reached_{0}, without_improvement_{0};
};

}  // namespace troupe::rules

// The learning rate over a run as a function of completed steps, on which optimizers, coordinator and plan must agree
// without communicating.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

/// Learning rates that were set while a run trains, instead of optimizer.lr. Optimizers read them on their threads. A
/// rate is set before any step to which it applies may start, so that every optimizer finds it.
class rate_changes {
 public:
  /// A rate, and from when on it applies.
  struct change {
    std::uint64_t from{0};  ///< Completed steps from which on it applies.
    double lr{0};           ///< The rate, before the schedule is applied.
  };

  /// Sets the rate of all steps from `from` on.
  void set(const change& now);

  /// Returns the rate after `completed` steps, which is `lr` before the first change.
  double at(std::uint64_t completed, double lr) const;

  /// Returns the changes, in the order of their steps.
  std::vector<change> all() const;

  /// Returns whether there are changes.
  bool any() const { return any_; }

  /// Forgets all changes.
  void clear();

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> any_{false};  ///< Whether there are changes; most runs have none.
  std::vector<change> changes_;
};

/// Factor of the learning rate over a run: a warm-up, then a decay.
struct learning_rate {
  /// How the factor falls after the warm-up.
  enum class decay : std::uint8_t { none, step, cosine, polynomial };

  /// Steps of linear warm-up from warmup_start to 1 (Goyal et al. 2017, section 2.2).
  std::uint64_t warmup_steps{0};
  double warmup_start{1};                 ///< Factor of the first step of the warm-up.
  decay how{decay::none};                 ///< How the factor falls after the warm-up.
  std::vector<std::uint64_t> decay_at{};  ///< Steps at which `step` multiplies by decay_factor, ascending.
  double decay_factor{0.1};               ///< Factor by which `step` multiplies at each of decay_at.
  double power{1};                        ///< Exponent of `polynomial`.
  double minimum{0};                      ///< Factor at the end of `cosine` and `polynomial`.
  std::uint64_t hold{1};  ///< Interval at which the factor changes, in steps: 1, or the steps of an epoch.
  /// Steps of the whole run; `cosine` and `polynomial` fall from 1 after the warm-up to minimum at the end.
  std::uint64_t steps{0};

  /// Returns the factor applied to the learning rate of the step after `completed` ones: PyTorch's LinearLR, then
  /// MultiStepLR, CosineAnnealingLR or PolynomialLR, each stepped every `hold` steps, in closed form.
  double at(std::uint64_t completed) const;

  /// Rates that were set while the run trains; null if that is not possible. All copies share them.
  std::shared_ptr<rate_changes> changes{};

  /// Returns the learning rate of the step after `completed` ones; `lr` is that before the schedule is applied.
  double rate(double lr, std::uint64_t completed) const {
    return (changes ? changes->at(completed, lr) : lr) * at(completed);
  }

  /// Returns whether the factor is always 1.
  bool constant() const { return warmup_steps == 0 && how == decay::none; }
};

}  // namespace troupe

// Where the time of a run went, as shares, and in one paragraph. Pure functions.
#pragma once

#include "troupe/tools/diagnosis/measured_run.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::diagnosis {

/// Shares of the training time, each from 0 to 1, with the sum 1.
struct shares {
  double compute{0};   ///< Gradients and updates, without waiting for samples.
  double data{0};      ///< Waiting for samples.
  double exchange{0};  ///< Waiting for the answer of an exchange.
  double other{0};     ///< Waiting for verdicts, batches of a queue, slower workers at the end of the run, or a core.
};

struct findings {
  std::vector<shares> workers;                   ///< By rank.
  shares mean{};                                 ///< Over the workers.
  double evaluation{0};                          ///< Share of the run in which an evaluation held the workers back.
  std::size_t slowest{0};                        ///< Rank of the worker whose steps take longest.
  double slowness{1};                            ///< How many times as long as in the median worker a step takes there.
  std::optional<results::link_total> busiest{};  ///< The link that was occupied most, if there are emulated ones.
};

findings findings_of(const measured_run& run);

/// What may hold workers back.
enum class cause : std::uint8_t { exchanges, slow_worker, cores, data, evaluation };

inline constexpr std::array all_causes{cause::exchanges, cause::slow_worker, cause::cores, cause::data,
                                       cause::evaluation};

/// Returns the name of a cause in JSON, such as "slow_worker".
const char* name_of(cause what);

/// The time that the run would have taken without one cause.
struct relief {
  cause of{};
  double seconds{0};
};

/// What simulations of the run have shown.
/// Who takes cores from a worker.
enum class core_users {
  workers,  ///< Of which there are more than cores.
  actors,   ///< The evaluator and servers.
  loaders,  ///< The threads that make samples.
  other_programs,
};

struct explanation {
  std::vector<relief> reliefs{};  ///< The largest first.
  /// How many times as long as with a core of its own each time a worker computed; 1 if that is unknown.
  double contention{1};
  core_users competitors{core_users::workers};

  /// Returns the first relief, if it is noticeable in a run of so many seconds.
  std::optional<relief> main_cause(double run_seconds) const;
};

/// Returns a paragraph about where the time went, for a person who has not seen the numbers. Without an explanation, it
/// names no cause.
std::string summary(const measured_run& run, const findings& found, const std::optional<explanation>& why);

/// Returns 0.123 as "12.3 %".
std::string percent(double share);

}  // namespace troupe::diagnosis

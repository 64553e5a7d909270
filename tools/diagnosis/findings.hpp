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
  shares mean{};                                 ///< Mean over the workers.
  double evaluation{0};                          ///< Share of the run in which an evaluation held the workers back.
  std::size_t slowest{0};                        ///< Rank of the worker whose steps take longest.
  double slowness{1};                            ///< Slowest worker's computing time per step, relative to the median.
  std::optional<results::link_total> busiest{};  ///< The link that was occupied most, if links are emulated.
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

/// What takes cores from a worker.
enum class core_users {
  workers,  ///< There are more workers than cores.
  actors,   ///< The evaluator and servers.
  loaders,  ///< The threads that make samples.
  other_programs,
};

/// What simulations of the run have shown.
struct explanation {
  std::vector<relief> reliefs{};  ///< The largest first.
  /// Time in which workers compute, divided by the time with a core for each worker; 1 if it is unknown.
  double contention{1};
  core_users competitors{core_users::workers};

  /// Returns the first relief if it is noticeable in a run of `run_seconds`.
  std::optional<relief> main_cause(double run_seconds) const;
};

/// Returns a paragraph about where the time went, for readers without the numbers. Without an explanation, it
/// names no cause.
std::string summary(const measured_run& run, const findings& found, const std::optional<explanation>& why);

/// Returns 0.123 as "12.3 %".
std::string percent(double share);

}  // namespace troupe::diagnosis

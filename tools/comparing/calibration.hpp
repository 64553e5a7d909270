// How far a simulated run was from a real one, by quantity, and what explains the difference: `troupe simulate FILE
// --against DIR`. Plain numbers; nothing here simulates.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::comparing {

/// Figures from the files of a finished run. Sums are over all workers.
struct run_figures {
  std::uint64_t workers{0};
  double steps{0};
  double train_seconds{0};
  double busy{0}, data_wait{0}, exchange_wait{0};  ///< Seconds; see workers.csv in docs/outputs.md.
  double bytes_sent{0};
  /// Median over the epochs: the first epoch is longer, because the workers allocate memory.
  std::optional<double> epoch_seconds{};
  std::optional<double> samples_per_second{}, staleness_mean{};
  std::optional<double> busiest_share{};  ///< Share of the time in which the busiest emulated interface was in use.

  double computing_per_step() const { return (busy - data_wait) / steps; }
  double waiting_per_step() const { return data_wait / steps; }
};

/// Reads metrics.jsonl, workers.csv and, if there is one, links.csv. Throws input_error, naming the folder, if the run
/// has not made all its steps, was continued, or has no workers.csv.
run_figures read_figures(const std::filesystem::path& folder);

/// Throws input_error, naming the keys that differ, if the run in `folder` had another topology than `file`. Links,
/// placement and the section [simulate] may differ.
void check_same_run(const topology::topology& file, const std::filesystem::path& folder);

struct quantity {
  enum class unit : std::uint8_t { seconds, share, number, bytes };
  std::string name;  ///< Such as "train_seconds".
  unit in{};
  std::optional<double> real{}, predicted{};

  /// Returns predicted / real - 1.
  std::optional<double> difference() const;
};

/// Returns all quantities that both runs may have.
std::vector<quantity> quantities_of(const run_figures& real, const run_figures& predicted);

/// Simulates the timing of the run with the given gradient time.
using simulate_timing = std::function<run_figures(std::chrono::microseconds gradient)>;

/// How much of the difference in training time, real minus predicted, each cause explains. The parts add up to the
/// whole.
struct attribution {
  std::chrono::microseconds gradient{0};  ///< Gradient time with which computing takes as long as in the real run.
  double whole{0};                        ///< Seconds, as are the following.
  double of_gradient{0};                  ///< Explained by that gradient time.
  double of_data{0};                      ///< Explained by waiting for samples, which is not modelled.
  double rest{0};                         ///< Explained by neither.
};

/// Attributes the difference between two runs by simulating: first with gradients that take as long as in the real run,
/// then also with the time for which workers waited for samples.
attribution explain(const run_figures& real, const run_figures& predicted, std::chrono::microseconds gradient,
                    const simulate_timing& simulate);

/// Returns the comparison as lines of text, and as a JSON object without a line break.
std::string text_of(const std::filesystem::path& folder, const std::vector<quantity>& all, const attribution& why,
                    std::chrono::microseconds gradient);
std::string json_of(const std::filesystem::path& folder, const std::vector<quantity>& all, const attribution& why,
                    std::chrono::microseconds gradient);

}  // namespace troupe::comparing

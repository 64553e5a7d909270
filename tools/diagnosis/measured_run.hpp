// What a finished run has measured about where its time went: its metrics.jsonl, workers.csv and, if it has emulated
// links, links.csv.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::diagnosis {

/// A row of workers.csv. Times are in seconds.
struct measured_worker {
  std::uint64_t steps{0}, samples{0};
  double busy{0};           ///< Its compute actor worked, including waiting for samples and for a core.
  double data_wait{0};      ///< Of these, waiting for samples.
  double exchange_wait{0};  ///< It waited for exchanges.
  double cpu{0};            ///< CPU time of its compute actor; 0 in a simulation, and if it was not measured.
  double loading_cpu{0};    ///< CPU time of the threads that made its batches; 0 if there are none, or not measured.
};

/// A row of links.csv: one direction of an emulated network interface or link.
struct measured_link {
  std::string name;  ///< Such as "w0 sends".
  std::uint64_t bytes{0};
  double busy_share{0};  ///< Share of the run in which it was occupied, from 0 to 1.
  double wait_mean{0};   ///< Mean seconds that a message waited for it to be free.
};

struct measured_run {
  std::string status;       ///< Of the `end` line, such as "done".
  double seconds{0};        ///< From the first step to the end.
  double train_seconds{0};  ///< Without the time in which an evaluation held the workers back.
  std::uint64_t evaluations{0};
  std::vector<measured_worker> workers;
  std::vector<measured_link> links{};  ///< Empty if the run has no emulated links.

  std::uint64_t samples() const;  ///< Of all workers.
};

/// Reads the files of the run in `folder`. Throws input_error if there is no finished run.
measured_run read_run(const std::filesystem::path& folder);

/// Does the same from the contents of the files; `links` is empty without links.csv. `name` is that of the
/// folder in messages.
measured_run parse_run(std::string_view metrics, const std::string& workers, const std::string& links,
                       const std::string& name);

}  // namespace troupe::diagnosis

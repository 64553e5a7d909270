// What a finished run has measured about where its time went: its metrics.jsonl, workers.csv and, if it has emulated
// links, links.csv.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/tools/results/tables.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::diagnosis {

struct measured_run {
  std::string status;       ///< Status of the `end` line, such as "done".
  double seconds{0};        ///< From the first step to the end.
  double train_seconds{0};  ///< Without the time in which an evaluation held the workers back.
  std::uint64_t evaluations{0};
  std::vector<worker_total> workers;
  std::vector<results::link_total> links{};  ///< Empty if the run has no emulated links.

  std::int64_t samples() const;  ///< Returns the sum over all workers.
};

/// Reads the files of the run in `folder`. Throws input_error if there is no finished run.
measured_run read_run(const std::filesystem::path& folder);

/// Does the same with the contents of the files; `links` is empty if there is no links.csv. `name` is the name of the
/// folder in messages.
measured_run parse_run(std::string_view metrics, const std::string& workers, const std::string& links,
                       const std::string& name);

}  // namespace troupe::diagnosis

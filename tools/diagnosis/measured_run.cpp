#include "troupe/tools/diagnosis/measured_run.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"

namespace troupe::diagnosis {

std::int64_t measured_run::samples() const {
  std::int64_t sum = 0;
  for (const auto& worker : workers) sum += worker.samples;
  return sum;
}

measured_run parse_run(std::string_view metrics, const std::string& workers, const std::string& links,
                       const std::string& name) {
  measured_run run;
  run.workers = results::workers_in(workers, name + "/workers.csv");
  run.links = results::links_in(links, name + "/links.csv");
  for (const auto& line : telemetry::records_of(metrics)) {
    if (line.event == "evaluation") ++run.evaluations;
    if (line.event != "end") continue;
    run.status = line.status;
    run.seconds = line.seconds;
    run.train_seconds = line.train_seconds;
  }
  if (run.status.empty())
    throw input_error(name + ": the run has not ended: the last line of metrics.jsonl is not an `end` line; expected " +
                      "the results folder of a finished run");
  if (run.workers.empty() || run.train_seconds <= 0)
    throw input_error(name +
                      ": there are no times to explain: the run has made no steps, or is a replay, which has no times; "
                      "expected the results folder of a run or a simulation");
  return run;
}

measured_run read_run(const std::filesystem::path& folder) {
  const auto metrics = folder / "metrics.jsonl", workers = folder / "workers.csv", links = folder / "links.csv";
  if (!exists(metrics))
    throw input_error(folder.string() + ": there is no metrics.jsonl; expected the results folder of a run");
  if (!exists(workers))
    throw input_error(folder.string() +
                      ": there is no workers.csv, which a run writes when it ends without an error; expected the "
                      "results folder of a finished run");
  return parse_run(read_text(metrics), read_text(workers), exists(links) ? read_text(links) : "", folder.string());
}

}  // namespace troupe::diagnosis

// Names of the text outputs in a results folder.
#pragma once

namespace troupe::telemetry {

inline constexpr auto *metrics_name = "metrics.jsonl", *epochs_name = "epochs.csv";

}  // namespace troupe::telemetry

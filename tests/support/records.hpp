// Records of a run, as the coordinator sends them.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::testing {

inline record epoch_record(std::uint64_t epoch, std::uint64_t step, double seconds, double loss,
                           std::optional<double> accuracy = std::nullopt) {
  record line;
  line.event = "epoch";
  line.epoch = epoch;
  line.step = step;
  line.seconds = seconds;
  line.train_seconds = seconds - 0.25;
  line.samples_per_second = 1203;
  line.train_loss = loss;
  line.val_accuracy = accuracy;
  if (accuracy) line.val_loss = 0.25;
  line.epoch_seconds = seconds;
  line.epoch_train_loss = loss;
  line.lr = 0.05;
  return line;
}

inline record evaluation_record(std::uint64_t epoch, std::uint64_t step, double seconds, double accuracy) {
  record line;
  line.event = "evaluation";
  line.epoch = epoch;
  line.step = step;
  line.seconds = seconds;
  line.train_seconds = seconds - 0.25;
  line.val_loss = 0.25;
  line.val_accuracy = accuracy;
  return line;
}

/// A record without measurements.
inline record of_event(const std::string& event, std::uint64_t step = 0, double seconds = 0) {
  record line;
  line.event = event;
  line.step = step;
  line.seconds = seconds;
  if (event == "end") line.status = "done";
  return line;
}

}  // namespace troupe::testing

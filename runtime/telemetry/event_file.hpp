// The format of TensorBoard's event files: a sequence of TFRecords, each of which holds one Event message of Protocol
// Buffers. Supports only the fields that a run needs. Pure functions; they do not handle files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::telemetry::event_file {

/// Values of one step.
struct summary {
  std::vector<std::pair<std::string, double>> scalars{};  ///< By tag; stored as float32.
  /// By tag: how often each of the values 0, 1, 2, … occurred.
  std::vector<std::pair<std::string, std::vector<double>>> histograms{};

  bool empty() const { return scalars.empty() && histograms.empty(); }
};

/// Returns the record with which every event file begins. Times are in seconds since 1970.
std::string beginning(double time);

/// Returns a record that makes TensorBoard discard the values of earlier files in the folder.
std::string restart(double time);

/// Returns a record with values.
std::string values(double time, std::uint64_t step, const summary& of);

/// Returns `payload` as a TFRecord: its length, the masked CRC-32C of the length, the payload, and the masked CRC-32C
/// of the payload.
std::string record_of(std::string_view payload);

}  // namespace troupe::telemetry::event_file

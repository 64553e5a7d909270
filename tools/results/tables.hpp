// The tables that a run leaves in its folder, workers.csv and links.csv: docs/outputs.md describes their columns.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::results {

/// A row of links.csv: one direction of an emulated network interface or link.
struct link_total {
  std::string name;  ///< Such as "w0 sends".
  std::uint64_t bytes{0};
  double busy_share{0};  ///< Share of the run in which it was occupied, from 0 to 1.
  double wait_mean{0};   ///< Mean seconds that a message waited for it to be free.
};

/// Returns the rows of workers.csv, by rank. Throws input_error, naming `path` and the line, if one lacks a value.
std::vector<worker_total> workers_in(const std::string& table, const std::string& path);

/// Returns the rows of links.csv. Throws like workers_in().
std::vector<link_total> links_in(const std::string& table, const std::string& path);

}  // namespace troupe::results

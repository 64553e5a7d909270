// A search for the way to train that reaches the target soonest on a network, and its folder.
#pragma once

#include "troupe/tools/comparing/child_run.hpp"
#include "troupe/tools/probing/probe.hpp"
#include "troupe/tools/tuning/report.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tuning {

/// The name of the file that describes a search; a folder that contains it is that of a search.
constexpr auto* description_file = "tune.json";

/// Everything about a search that is known before it begins, and that --resume needs to continue it.
struct request {
  std::string file{};                           ///< The topology file, as given.
  topology::topology base{};                    ///< With the links of the network, which are real.
  std::string gradient{};                       ///< simulate.gradient of the file, before it was measured.
  std::vector<comparing::varied_key> varied{};  ///< If empty, the usual candidates are tried.
  std::optional<double> target{};               ///< Validation accuracy, from 0 to 1.
  double budget{120};                           ///< Seconds.
  std::optional<real_times> real{};             ///< What was measured, if it was.
};

/// Reads "BANDWIDTH" or "BANDWIDTH,LATENCY", such as "50Mbit/s,20ms", as the interface of each node of `base`, or of
/// each worker and server if it has no nodes. Throws input_error.
std::vector<topology::link_settings> links_of(const std::string& text, const topology::topology& base);

/// Returns a rate with three digits, as topology files have it, such as "48.1Mbit/s".
std::string rate_text(double bytes_per_second);

/// Returns the network that was measured between two machines, as the interface of each node of `base`, or of each
/// worker and server. Links have the same bandwidth in both directions, so it is that of the slower one.
std::vector<topology::link_settings> links_of(const probing::measured_link& measured, const topology::topology& base);

/// Describes links in words, such as "50 Mbit/s, 20 ms".
std::string network_text(const std::vector<topology::link_settings>& links);

/// Throws input_error unless the folder is new, is empty, or contains a search that may be overwritten.
void check_replaceable(const std::filesystem::path& folder, bool overwrite);

/// Removes what a search in the folder has written, and nothing else.
void make_way(const std::filesystem::path& folder);

/// Reads the search in a folder. Throws input_error.
request read_request(const std::filesystem::path& folder);

/// Searches. Writes into the folder what --resume needs, and the reports at the end. `say` receives lines of progress.
findings search(request what, const std::filesystem::path& folder, comparing::child_runner& runner,
                const std::function<void(const std::string&)>& say);

}  // namespace troupe::tuning

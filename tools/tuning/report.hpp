// What `troupe tune` has found: tune.html, tune.md, tune.csv, and best.toml, which `troupe run` takes as it is.
#pragma once

#include "troupe/tools/tuning/race.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tuning {

struct findings {
  std::string file{};     ///< The topology file, as given.
  std::string network{};  ///< The links, in words.
  std::optional<double> target{};
  double budget{0}, took{0};          ///< Seconds of this machine.
  std::string gradient{};             ///< simulate.gradient of the file, before it was measured.
  std::vector<std::string> device{};  ///< workers.device of the file; a search trains on CPUs.
  std::vector<contender> all{};
  std::vector<std::size_t> order{};                            ///< From the best to the worst.
  std::vector<std::pair<std::string, std::string>> refused{};  ///< Candidates that cannot be trained, and why.
  std::map<std::string, std::string> machine{};
  bool is_whole{true};  ///< Whether the search was not interrupted.

  bool has_answer() const;  ///< Whether the best candidate was trained.
};

/// Returns what to use, what it costs, and how sure that is: sentences, the most important first.
std::vector<std::string> conclusion_of(const findings& of);

/// Returns what the figures cannot say, as sentences.
std::vector<std::string> limits_of(const findings& of);

/// Returns what a candidate reached, in words.
std::string outcome_of(const contender& of, const findings& in);

/// Return the files. The columns of the CSV are described in docs/tuning.md.
std::string csv_of(const findings& of);
std::string markdown_of(const findings& of);
std::string html_of(const findings& of);
std::string best_topology(const findings& of);

/// Returns the findings as one JSON object.
std::string json_of(const findings& of);

/// Writes all of them. Throws std::runtime_error.
void write_reports(const std::filesystem::path& folder, const findings& of);

}  // namespace troupe::tuning

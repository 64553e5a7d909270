// The reports of a comparison: everything that compare.html, compare.md and the JSON output show, and the files.
#pragma once

#include "troupe/tools/comparing/conclusion.hpp"
#include "troupe/tools/comparing/statistics.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::comparing {

/// A comparison with all that was measured and concluded.
struct report {
  comparison what{};
  std::vector<made_run> runs{};
  std::vector<summary> summaries{};  ///< By variant.
  conclusion found{};
};

/// Computes the report of the runs that were made.
report make_report(comparison what, std::vector<made_run> runs);

/// Returns compare.html: one page that loads nothing.
std::string html_of(const report& of);

/// Returns compare.md, which shows the drawings of pictures_of() and the wirings.
std::string markdown_of(const report& of);

/// A file that compare.md shows; the path is relative to it.
struct picture_file {
  std::filesystem::path path{};
  std::string content{};
};
std::vector<picture_file> pictures_of(const report& of);

/// Returns the results as one JSON object.
std::string json_of(const report& of);

/// Writes compare.csv, curves.csv, compare.md with its pictures, and compare.html. Throws std::runtime_error.
void write_reports(const std::filesystem::path& folder, const report& of);

/// The columns of the table of results that both reports show.
struct result_table {
  struct cell {
    std::string text{};
    double rank{0};  ///< Value by which a column is sorted.
  };
  std::vector<std::string> header;
  std::vector<std::vector<cell>> rows;  ///< By variant.
};
result_table table_of(const report& of);

/// Return sentences about the curves, and about the figures of the target, that are left out because no run has values
/// for them.
std::vector<std::string> missing_figures(const report& of);
std::string missing_target(const report& of);

/// Returns whether the drawing of a wiring shows all workers as one box, because there are too many.
bool is_summary(const variant& of);

/// Returns a sentence about the wirings whose drawings are left out; empty if none is.
std::string undrawn_wirings(const report& of);

/// Returns the versions and the machine on one line, with "several" for values in which machines differ.
std::string machine_of(const report& of);

/// Returns a sentence about the comparison: how many variants and repeats, real or simulated, and when.
std::string subtitle_of(const report& of);

}  // namespace troupe::comparing

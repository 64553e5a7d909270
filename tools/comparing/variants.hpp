// Makes the variants of a comparison: topology files, each with every combination of the varied settings. All problems
// with them are found here, before anything is run.
#pragma once

#include "troupe/tools/comparing/comparison.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::comparing {

/// Parses "key=a,b,c". Commas inside brackets and quotes belong to a value. Throws input_error.
varied_key parse_varied(const std::string& text);

/// A combination of varied settings: keys and values.
using setting_point = std::vector<std::pair<std::string, std::string>>;

/// Refuses more variants than a comparison can have, before any of them is made. Throws input_error.
void check_count(std::size_t files, const std::vector<varied_key>& varied);

/// Returns every combination of the varied settings; the last key varies fastest. Throws input_error if a key is given
/// twice.
std::vector<setting_point> grid(const std::vector<varied_key>& varied);

/// Returns a name for the files of a variant, made from its label, that is not among those that are taken, and adds it.
std::string folder_name(const std::string& label, std::set<std::string>& taken);

/// Returns an error message in which settings that follow `others` others are named as --vary instead of by number.
std::string with_vary(std::string text, std::size_t others, const setting_point& varied);

/// What to compare.
struct request {
  std::vector<std::filesystem::path> files{};  ///< A folder stands for the .toml files in it.
  std::vector<std::string> overrides{};        ///< "section.key=value", for every variant.
  std::vector<varied_key> varied{};
  bool simulated{false};
  bool measures{true};  ///< Whether simulate.gradient = "measure" is replaced by the measured time.
};

/// The variants, and the seed of the first file.
struct variants_made {
  std::vector<variant> variants{};
  std::uint64_t first_seed{0};
};

/// Maximum number of variants: their plans and drawings are held in memory, and a page shows all of them.
constexpr std::size_t most_variants = 10'000;

/// Loads every file with every combination of the varied settings, reads its data, makes its plan and draws its
/// wiring. For simulations with simulate.gradient = "measure", the time of a gradient is measured once for all variants
/// that compute the same, at the same number of lanes. `warn` receives the warnings of the plans. Throws input_error.
variants_made make_variants(const request& what, const std::function<void(const std::string&)>& warn);

/// Sets the settings of a variant from its topology; those of a simulation include the section [simulate]. `file` is
/// named in errors. Throws input_error.
void read_settings(variant& what, const std::filesystem::path& file, bool simulated);

}  // namespace troupe::comparing

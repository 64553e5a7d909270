#include "troupe/tools/comparing/comparison.hpp"

namespace troupe::comparing {

std::string variant::file_column() const {
  auto text = file;
  for (const auto& [key, value] : varied) text += " " + key + "=" + value;
  return text;
}

std::vector<planned_run> runs_of(const comparison& what) {
  std::vector<planned_run> runs;
  const auto count = what.variants.size();
  for (std::uint32_t repeat = 0; repeat < what.repeats; ++repeat)
    for (std::size_t i = 0; i < count; ++i)
      runs.push_back({.variant = (i + repeat) % count, .repeat = repeat + 1, .seed = what.first_seed + repeat});
  return runs;
}

std::filesystem::path folder_of(const comparison& what, const planned_run& run) {
  return std::filesystem::path("runs") / what.variants.at(run.variant).folder / ("seed-" + std::to_string(run.seed));
}

}  // namespace troupe::comparing

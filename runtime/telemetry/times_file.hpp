// The file that `--csv PATTERN` asks for, with the time and the validation accuracy of each evaluation, under a name
// that says what was run: what scripts that plot many runs look for.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <filesystem>
#include <string>

namespace troupe::telemetry {

/// Fills in the placeholders of a pattern such as "{ranks}ranks-{batch}bs.csv" by what the plan says. Throws
/// input_error for one that is not known, naming those there are, and for a brace without its other one.
std::filesystem::path times_path(const std::string& pattern, const plan& plan);

/// Makes the folders above `path`. Throws input_error where something lies there that may not be replaced: nothing of
/// the run's own, which are its `folder` and the `topology` file.
void make_way_for(const std::filesystem::path& path, bool overwrite, const std::filesystem::path& folder,
                  const std::filesystem::path& topology);

}  // namespace troupe::telemetry

#include "troupe/tools/comparing/perform.hpp"

#include "troupe/runtime/support/read_text.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/comparing/measure.hpp"
#include "troupe/tools/comparing/progress.hpp"

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace troupe::comparing {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> arguments_of(const comparison& what, const planned_run& run, const fs::path& given) {
  const auto folder = fs::absolute(given);  // a relative path may look like an option
  const auto seed = std::to_string(run.seed);
  std::vector<std::string> arguments{"troupe",
                                     what.simulated ? "simulate" : "run",
                                     topology_of(folder, what.variants.at(run.variant)).string(),
                                     "--set",
                                     "run.seed=" + seed,
                                     "--out",
                                     (folder / folder_of(what, run)).string(),
                                     "--overwrite",
                                     "--quiet"};
  if (what.simulated) arguments.insert(arguments.end(), {"--seed", seed});
  return arguments;
}

/// Returns the last non-empty line of a file; empty if the file is missing.
std::string last_line(const fs::path& path) {
  if (!exists(path)) return {};
  auto text = read_text(path);
  text.erase(text.find_last_not_of(" \n\r") + 1);
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::size_t perform(const comparison& what, child_runner& runner, const perform_options& options) {
  const auto& folder = options.folder;
  std::vector<planned_run> remaining;
  for (const auto& run : runs_of(what)) {
    const auto known = read_result(folder / folder_of(what, run), what.target);
    if (!known || !known->finished()) remaining.push_back(run);
  }
  std::optional<progress> shown;
  if (options.out != nullptr) shown.emplace(*options.out, what, remaining, options.live);
  std::size_t failed = 0;
  for (const auto& run : remaining) {
    if (runner.signal() != 0) break;
    const auto out = folder / folder_of(what, run);
    fs::create_directories(out.parent_path());
    forget_run(out);  // metrics of an earlier attempt must not be mistaken for those of this one
    const auto begin = std::chrono::steady_clock::now();
    const auto status = runner.run(arguments_of(what, run, folder), log_of(out), [&](auto since_start) {
      if (shown) shown->running(since_start);
    });
    auto result = read_result(out, what.target).value_or(run_result{});
    if (runner.signal() != 0) {
      if (!result.finished()) forget_run(out);  // not a failure: the run is made when the comparison is continued
      break;
    }
    if (status != 0 && result.finished()) {
      fs::remove(out / "metrics.jsonl");  // the run failed after its metrics had reported its end
      result = {};
    }
    if (!result.finished()) ++failed;
    const auto taken = std::chrono::steady_clock::now() - begin;
    if (shown)
      shown->ended(result, std::chrono::duration_cast<std::chrono::milliseconds>(taken),
                   result.finished() ? "" : last_line(log_of(out)));
  }
  if (shown) shown->clear();
  return failed;
}

}  // namespace troupe::comparing

#include "troupe/tools/tuning/report.hpp"

#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/csv.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <chrono>

namespace troupe::tuning {

namespace {

using comparing::percent_text;
using comparing::plain;
using comparing::seconds_text;

const contender& best_of(const findings& of) {
  return of.all.at(of.order.front());
}

std::optional<comparing::to_target> taken_by(const contender& of) {
  return comparing::to_target_of(of.to_target());
}

bool has_reached(const contender& of) {
  const auto taken = taken_by(of);
  return taken && taken->is_finite();
}

const comparing::point* last_point(const contender& of) {
  if (of.trainings.empty() || of.trainings.front().result.points.empty()) return nullptr;
  return &of.trainings.front().result.points.back();
}

std::string quality_text(const comparing::point& at) {
  if (at.val_accuracy) return percent_text(*at.val_accuracy);
  return at.val_loss ? "a loss of " + human_number(*at.val_loss, 4) : "no result";
}

/// Returns the first contender of a family that was trained.
const contender* trained_of(const findings& of, const std::string& family) {
  for (const auto i : of.order)
    if (of.all[i].what.family == family && last_point(of.all[i]) != nullptr) return &of.all[i];
  return nullptr;
}

/// Compares the accuracy with that of exact averages after the same number of steps.
std::string cost_of_accuracy(const findings& of) {
  const auto& best = best_of(of);
  const auto* exact = trained_of(of, exact_family);
  if (exact == nullptr || exact == &best) return {};
  const comparing::point *ours = nullptr, *theirs = nullptr;
  for (const auto& point : best.trainings.front().result.points)
    for (const auto& other : exact->trainings.front().result.points)
      if (point.val_accuracy && other.val_accuracy && other.step <= point.step && other.step * 10 >= point.step * 9)
        ours = &point, theirs = &other;
  if (ours == nullptr) return {};
  return "What it costs: after about " + grouped(ours->step) + " steps it is at " + quality_text(*ours) + ", and " +
         exact->what.label + " at " + quality_text(*theirs) + ".";
}

/// Returns a delay of a topology file, such as "1945us", in milliseconds with three digits: "1.95 ms".
std::string gradient_text(const std::string& delay) {
  return human_number(std::chrono::duration<double, std::milli>(*topology::parse_delay(delay)).count(), 3) + " ms";
}

}  // namespace

bool findings::has_answer() const {
  return last_point(best_of(*this)) != nullptr;
}

std::string outcome_of(const contender& of, const findings& in) {
  if (const auto taken = in.target ? taken_by(of) : std::nullopt; taken && taken->reached > 0)
    return comparing::target_text(taken, seconds_text);
  if (const auto* last = last_point(of)) return quality_text(*last) + " after " + seconds_text(last->seconds);
  return "–";
}

std::vector<std::string> conclusion_of(const findings& of) {
  const auto& best = best_of(of);
  const auto* last = last_point(best);
  if (!of.has_answer())
    return {"No candidate was trained: the budget of " + seconds_text(of.budget) +
            " is too short, or the trainings failed; see runs/*/*.log in the folder. The shortest steps are those of " +
            best.what.label + ", with " + seconds_text(best.step.seconds) + "."};
  std::vector<std::string> said;
  const auto seeds = best.trainings.size();
  if (has_reached(best))
    said.push_back("Use " + best.what.label + ": it reaches " + percent_text(*of.target) + " after " +
                   comparing::target_text(taken_by(best), seconds_text) +
                   (seeds > 1 ? ", with " + counted(seeds, "seed") : "") + ".");
  else
    said.push_back("Use " + best.what.label + ": it is ahead with " + quality_text(*last) + " after " +
                   seconds_text(last->seconds) +
                   (of.target ? ", but no candidate has reached " + percent_text(*of.target) + " within the budget"
                              : std::string()) +
                   ".");
  for (const auto i : of.order) {
    const auto& other = of.all[i];
    if (&other == &best || last_point(other) == nullptr) continue;
    auto text = "Next is " + other.what.label + ": " + outcome_of(other, of);
    const auto ours = taken_by(best), theirs = taken_by(other);
    if (ours && theirs && theirs->is_finite() && theirs->taken.low <= ours->taken.high && seeds > 1)
      text += "; the ranges overlap, so that either may be the faster";
    said.push_back(text + ".");
    break;
  }
  const auto& given = of.all.front();
  if (given.what.settings.empty() && &given != &best)
    said.push_back("The file as it is takes " + seconds_text(given.step.seconds) + " per step instead of " +
                   seconds_text(best.step.seconds) +
                   (last_point(given) == nullptr ? ""
                    : has_reached(given)         ? ", and reaches it after " + outcome_of(given, of)
                                                 : ", and is at " + outcome_of(given, of)) +
                   ".");
  if (auto cost = cost_of_accuracy(of); !cost.empty()) said.push_back(std::move(cost));
  return said;
}

std::vector<std::string> limits_of(const findings& of) {
  std::size_t trained = 0;
  for (const auto& each : of.all) trained += each.trainings.empty() ? 0 : 1;
  const auto& best = best_of(of);
  std::vector<std::string> said{
      "Of " + counted(of.all.size(), "candidate") + ", " + grouped(trained) +
          " were trained; the others are no faster per step than one that sends more, or too slow.",
      "Accuracy was measured on this model and these data only, with " +
          counted(std::max<std::size_t>(best.trainings.size(), 1), "seed") +
          ": another learning rate or a longer run may change the order.",
      "Times are simulated: a gradient takes " + gradient_text(best.what.file.simulate.gradient) +
          (of.gradient == "measure" ? ", as measured on this machine" : "") +
          ", and messages take as long as the links say."};
  if (!of.is_whole) said.emplace_back("The search was interrupted; continue it with --resume.");
  return said;
}

std::string csv_of(const findings& of) {
  std::string text = "settings,seconds_per_step,megabytes_per_worker,predicted_seconds_to_target,accuracy,seed,kind\n";
  const auto optional_number = [](const std::optional<double>& value) {
    return value ? csv_number(*value) : std::string();
  };
  for (const auto i : of.order) {
    const auto& each = of.all[i];
    const auto head = csv_field(text::joined(each.what.settings, " ")) + "," + csv_number(each.step.seconds) + "," +
                      csv_number(each.step.megabytes) + ",";
    for (const auto& training : each.trainings) {
      const auto& points = training.result.points;
      text += head + optional_number(training.to_target) + "," +
              optional_number(points.empty() ? std::nullopt : points.back().val_accuracy) + "," +
              std::to_string(training.seed) + ",curve\n";
    }
    if (each.trainings.empty()) text += head + ",,,timing\n";
  }
  return text;
}

std::string markdown_of(const findings& of) {
  std::string text = "# Which exchange on " + plain(of.network) + "?\n\n";
  for (const auto& sentence : conclusion_of(of)) text += plain(sentence) + "\n";
  text += "\n| candidate | seconds per step | MB per worker and step | " +
          (of.target ? "time to " + percent_text(*of.target) : std::string("result")) +
          " | why not |\n|---|---|---|---|---|\n";
  for (const auto i : of.order) {
    const auto& each = of.all[i];
    text += "| " + plain(each.what.label) + " | " + human_number(each.step.seconds, 3) + " | " +
            human_number(each.step.megabytes, 3) + " | " + plain(outcome_of(each, of)) + " | " + plain(each.out) +
            " |\n";
  }
  for (const auto& [label, reason] : of.refused) text += "| " + plain(label) + " | | | | " + plain(reason) + " |\n";
  text += "\n";
  for (const auto& sentence : limits_of(of)) text += plain(sentence) + "\n";
  return text;
}

std::string json_of(const findings& of) {
  using json = files::json;
  const auto value_of = [](const std::optional<double>& value) { return value ? json(*value) : json(nullptr); };
  json all = json::array();
  for (const auto i : of.order) {
    const auto& each = of.all[i];
    json trainings = json::array();
    for (const auto& training : each.trainings) {
      const auto& points = training.result.points;
      trainings.push_back({{"seed", training.seed},
                           {"seconds_to_target", value_of(training.to_target)},
                           {"seconds", points.empty() ? json(nullptr) : json(points.back().seconds)},
                           {"accuracy", points.empty() ? json(nullptr) : value_of(points.back().val_accuracy)},
                           {"loss", points.empty() ? json(nullptr) : value_of(points.back().val_loss)}});
    }
    all.push_back({{"label", each.what.label},
                   {"settings", each.what.settings},
                   {"seconds_per_step", each.step.seconds},
                   {"megabytes_per_worker", each.step.megabytes},
                   {"trainings", trainings},
                   {"left_out", each.out}});
  }
  return files::json_text(json{{"file", of.file},
                               {"network", of.network},
                               {"target", value_of(of.target)},
                               {"conclusion", text::joined(conclusion_of(of), " ")},
                               {"limits", limits_of(of)},
                               {"candidates", all}});
}

std::string best_topology(const findings& of) {
  const auto& best = best_of(of);
  auto file = best.what.file;
  file.simulate.gradient = of.gradient;
  file.workers.device = of.device;
  return "# " + best.what.label + ", the best of " + counted(of.all.size(), "candidate") +
         " that `troupe tune` tried for " + of.file + "\n# on " + of.network + ".\n" + topology::print(file);
}

void write_reports(const std::filesystem::path& folder, const findings& of) {
  write_aside(folder / "tune.csv", csv_of(of));
  write_aside(folder / "tune.md", markdown_of(of));
  write_aside(folder / "tune.html", html_of(of));
  write_aside(folder / "best.toml", best_topology(of));
}

}  // namespace troupe::tuning

#include "troupe/tools/tuning/race.hpp"

#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/comparing/measure.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

namespace troupe::tuning {

namespace {

namespace fs = std::filesystem;
using comparing::seconds_text;

constexpr double evaluations = 6;    ///< Number for each training.
constexpr double noticeable = 1.05;  ///< Paces closer than this are taken for equal.
constexpr std::size_t kept_of = 3;   ///< One candidate of so many goes on after a round.
constexpr std::size_t finalists = 2, further_seeds = 2;

double steps_until(double horizon, const contender& of) {
  return std::min(horizon / of.step.seconds, static_cast<double>(of.steps));
}

/// Returns the seconds of this machine that a training takes.
double cost_of(const contender& of, double horizon, const race_options& how) {
  constexpr double start = 1, overhead = 1.2;  // of a process; of messages, as a factor
  const auto gradients = steps_until(horizon, of) * static_cast<double>(of.what.file.workers.count);
  return start + overhead * gradients * how.real.gradient + evaluations * how.real.evaluation;
}

struct job {
  contender* of{nullptr};
  std::uint64_t seed{0};
  double horizon{0};
};

fs::path folder_of(const job& what, const race_options& how) {
  const auto horizon = std::to_string(std::llround(1000 * what.horizon));
  return how.folder / "runs" / what.of->folder / ("seed-" + std::to_string(what.seed) + "-" + horizon + "ms");
}

std::vector<std::string> arguments_of(const job& what, const race_options& how) {
  const auto seed = std::to_string(what.seed);
  const auto every = std::max<long long>(1, std::llround(steps_until(what.horizon, *what.of) / evaluations));
  std::vector<std::string> words{
      "troupe",  "simulate", (fs::absolute(how.folder) / "topologies" / (what.of->folder + ".toml")).string(),
      "--seed",  seed,       "--overwrite",
      "--quiet", "--out",    fs::absolute(folder_of(what, how)).string()};
  std::vector<std::string> settings{"run.seed=" + seed, "run.max_seconds=" + std::to_string(what.horizon),
                                    "evaluate.every=" + std::to_string(every) + " steps"};
  if (how.target) {
    settings.push_back("evaluate.target_accuracy=" + std::to_string(*how.target));
    settings.emplace_back("evaluate.target_hold=1");
  }
  for (const auto& setting : settings) words.insert(words.end(), {"--set", setting});
  return words;
}

/// Returns the training of a job, which is simulated unless the folder has it.
contender::training train(const job& what, comparing::child_runner& runner, const race_options& how) {
  const auto folder = folder_of(what, how);
  auto known = comparing::read_result(folder, how.target);
  if (!known || !known->finished()) {
    fs::create_directories(folder.parent_path());
    comparing::forget_run(folder);
    runner.run(arguments_of(what, how), comparing::log_of(folder), [](auto) {});
    known = comparing::read_result(folder, how.target);
  }
  contender::training made{
      .seed = what.seed, .horizon = what.horizon, .result = known.value_or(comparing::run_result{})};
  if (how.target) made.to_target = seconds_to(*how.target, made.result.points);
  return made;
}

/// Trains all of them, several at once, and keeps the results of those that have ended well.
void train_all(const std::vector<job>& jobs, comparing::child_runner& runner, const race_options& how) {
  std::vector<contender::training> made(jobs.size());
  std::atomic<std::size_t> next{0};
  std::mutex one_at_a_time;
  std::exception_ptr problem;
  const auto work = [&] {
    try {
      for (auto i = next++; i < jobs.size() && runner.signal() == 0; i = next++) made[i] = train(jobs[i], runner, how);
    } catch (...) {
      next = jobs.size();
      const std::scoped_lock lock(one_at_a_time);
      problem = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < how.parallel; ++i) others.emplace_back(work);
    work();
  }
  if (problem) std::rethrow_exception(problem);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    auto& of = *jobs[i].of;
    if (!made[i].result.finished()) {
      if (runner.signal() == 0 && of.trainings.empty())
        of.out = "its training failed; see " + comparing::log_of(folder_of(jobs[i], how)).string();
      continue;
    }
    std::erase_if(of.trainings, [&](const auto& training) { return training.seed == made[i].seed; });
    of.trainings.push_back(std::move(made[i]));
  }
}

/// Returns how good a contender is at the end of its training: the larger, the better.
double merit_of(const contender& of) {
  constexpr auto none = -std::numeric_limits<double>::infinity();
  if (of.trainings.empty()) return none;
  const auto& points = of.trainings.front().result.points;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (point->val_accuracy) return *point->val_accuracy;
    if (point->val_loss && std::isfinite(*point->val_loss)) return -*point->val_loss;
  }
  return none;
}

std::vector<contender*> those_in(std::vector<contender>& all) {
  std::vector<contender*> in;
  for (auto& each : all)
    if (each.is_in()) in.push_back(&each);
  return in;
}

std::string accuracy_text(const contender& of) {
  const auto merit = merit_of(of);
  return merit < 0 ? "loss " + human_number(-merit, 4) : comparing::percent_text(merit);
}

}  // namespace

std::vector<std::optional<double>> contender::to_target() const {
  std::vector<std::optional<double>> result;
  for (const auto& each : trainings) result.push_back(each.to_target);
  return result;
}

std::optional<double> seconds_to(double target, const std::vector<comparing::point>& curve) {
  const comparing::point* before = nullptr;
  for (const auto& point : curve) {
    if (!point.val_accuracy) continue;
    if (*point.val_accuracy >= target) {
      if (before == nullptr || *point.val_accuracy <= *before->val_accuracy) return point.seconds;
      const auto share = (target - *before->val_accuracy) / (*point.val_accuracy - *before->val_accuracy);
      return before->seconds + share * (point.seconds - before->seconds);
    }
    before = &point;
  }
  return std::nullopt;
}

void cut_by_pace(std::vector<contender>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& one = all[i];
    if (!one.is_in() || one.what.family.empty()) continue;
    for (std::size_t j = 0; j < all.size() && one.is_in(); ++j) {
      const auto& other = all[j];
      if (i == j) continue;
      const auto ratio = other.step.seconds / one.step.seconds;
      const bool same = other.what.family == one.what.family;
      if (same && other.what.coarseness == one.what.coarseness) {
        if (ratio < 1 || (ratio == 1 && j < i)) one.out = "the same steps as " + other.what.label + ", which is faster";
      } else if ((same && other.what.coarseness < one.what.coarseness) ||
                 (!same && other.what.family == exact_family)) {
        if (ratio <= noticeable) one.out = "no faster per step than " + other.what.label + ", which sends more";
      }
    }
  }
}

double horizon_within(double seconds, const std::vector<const contender*>& of, const race_options& how) {
  double low = 0, high = 0;
  for (const auto* each : of) high = std::max(high, each->step.seconds * static_cast<double>(each->steps));
  const auto cost = [&](double horizon) {
    double sum = 0;
    for (const auto* each : of) sum += cost_of(*each, horizon, how);
    return sum;
  };
  const auto most = seconds * how.parallel;
  if (cost(high) <= most) return high;
  constexpr int halvings = 40;
  for (int i = 0; i < halvings; ++i) {
    const auto middle = (low + high) / 2;
    (cost(middle) <= most ? low : high) = middle;
  }
  return low;
}

std::vector<std::size_t> ranking(const std::vector<contender>& all, const race_options& how) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  constexpr auto never = std::numeric_limits<double>::infinity();
  const auto key = [&](std::size_t i) {
    const auto& each = all[i];
    const auto taken = how.target ? comparing::to_target_of(each.to_target()) : std::nullopt;
    const auto horizon = each.trainings.empty() ? 0 : each.trainings.front().horizon;
    return std::tuple(taken ? taken->taken.median : never, -horizon, -merit_of(each), each.step.seconds);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  return order;
}

void race(std::vector<contender>& all, comparing::child_runner& runner, const race_options& how) {
  auto in = those_in(all);
  if (in.empty()) return;
  // Each round takes as long as the others; the last is for the seeds.
  const auto rounds =
      2 +
      static_cast<int>(std::ceil(std::log(static_cast<double>(in.size())) / std::log(static_cast<double>(kept_of))));
  const auto each_round = how.budget / rounds;
  double horizon = 0;
  for (int round = 1; round < rounds && runner.signal() == 0; ++round) {
    const auto longer = horizon_within(each_round, {in.begin(), in.end()}, how);
    if (longer <= horizon) break;
    horizon = longer;
    how.say(counted(in.size(), "candidate") + " for " + seconds_text(horizon) + " of virtual time");
    std::vector<job> jobs;
    for (auto* each : in) jobs.push_back({.of = each, .seed = each->what.file.run.seed, .horizon = horizon});
    train_all(jobs, runner, how);
    if (runner.signal() != 0) return;
    in = those_in(all);
    const auto reached = [](const contender* each) {
      return !each->trainings.empty() && each->trainings.front().to_target.has_value();
    };
    const auto first = std::find_if(in.begin(), in.end(), reached);
    std::stable_sort(in.begin(), in.end(), [](auto* a, auto* b) { return merit_of(*a) > merit_of(*b); });
    if (first != in.end()) {
      for (auto* each : in)
        if (!reached(each)) each->out = "after " + seconds_text(horizon) + " at " + accuracy_text(*each);
      break;
    }
    if (in.size() <= finalists) continue;
    const auto kept = std::max(finalists, (in.size() + kept_of - 1) / kept_of);
    for (std::size_t i = kept; i < in.size(); ++i)
      in[i]->out = "after " + seconds_text(horizon) + " at " + accuracy_text(*in[i]) + ", behind " +
                   std::to_string(kept) + " others";
    in.resize(kept);
  }
  std::vector<job> jobs;
  for (const auto i : ranking(all, how)) {
    auto& each = all[i];
    if (!each.is_in() || each.trainings.empty() || jobs.size() == finalists * further_seeds) continue;
    const auto& known = each.trainings.front();
    constexpr double more = 1.5;  // another seed may take longer
    const auto until = known.to_target ? more * *known.to_target : known.horizon;
    for (std::uint64_t seed = 1; seed <= further_seeds; ++seed)
      jobs.push_back({.of = &each, .seed = known.seed + seed, .horizon = until});
  }
  double cost = 0;
  for (const auto& each : jobs) cost += cost_of(*each.of, each.horizon, how);
  if (jobs.empty() || cost > 2 * each_round * how.parallel) return;
  how.say("the best " + std::to_string(jobs.size() / further_seeds) + " with " + std::to_string(further_seeds) +
          " further seeds");
  train_all(jobs, runner, how);
}

}  // namespace troupe::tuning

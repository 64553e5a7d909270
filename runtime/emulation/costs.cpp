#include "troupe/runtime/emulation/costs.hpp"

#include "troupe/algorithms/training/replica.hpp"
#include "troupe/data/formats/cpu_time.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/support/activity.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe::emulation {

namespace {

using std::chrono::microseconds;

/// Separates the draws for durations from other draws with the same seed.
constexpr std::uint64_t of_durations = 0x636f737473;

/// Returns a time in whole microseconds. It is limited so that no sum of times overflows, whatever rates and factors
/// the file has. The limit exceeds the hundred years after which a simulation ends with an error.
microseconds rounded(double seconds) {
  constexpr double longest = 101 * 365.25 * 24 * 3600;
  return microseconds{std::llround(1e6 * std::min(seconds, longest))};
}

}  // namespace

std::uint32_t lanes_at_work(const plan& plan) {
  // Workers that share cores slow each other down by displacing each other's data from the caches.
  if (plan.file.simulate.cores <= 0) return 1;  // no two workers share cores
  std::uint32_t workers = 1;
  for (const auto& node : plan.nodes) workers = std::max(workers, node.workers);
  return std::min(workers, 4 * std::max(1u, std::thread::hardware_concurrency()));
}

microseconds measure_gradient(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                              models::buffer_pool pool) {
  constexpr std::size_t measured = 10;
  // Each time is the mean over the gradients of this period, because any of them may be slow for a moment.
  constexpr std::chrono::milliseconds at_least{50};
  // The first gradients are slower: they allocate memory, and the branch predictors are not trained yet.
  constexpr std::size_t first_ones = 3;
  constexpr std::chrono::milliseconds at_first{300};
  struct mark {
    std::chrono::steady_clock::time_point at;
    std::size_t rounds;
    std::chrono::nanoseconds cpu;
  };
  const activity measuring{"measuring a gradient", plan.file.run.timeout, "run.timeout"};
  const auto begin = std::chrono::steady_clock::now();
  const auto lanes = lanes_at_work(plan);
  std::size_t rounds = 0;
  std::vector<mark> marks;  // before and after each measured time
  marks.reserve(measured + 1);
  const auto end_round = [&]() noexcept {
    ++rounds;
    activity::goes_on();
    const auto now = std::chrono::steady_clock::now();
    const auto due =
        marks.empty() ? rounds >= first_ones && now - begin >= at_first : now - marks.back().at >= at_least;
    if (due) marks.push_back({now, rounds, data::cpu_time_of_process()});
  };
  std::barrier round{static_cast<std::ptrdiff_t>(lanes), end_round};
  const auto work = [&](std::uint32_t rank) {
    const std::atomic<bool> never{false};
    auto options = replica_options_of(plan, data, rank, pool);
    options.local_steps = 1;
    options.sampling.queue = false;
    replica engine{std::move(options)};
    while (marks.size() <= measured) {
      engine.run({.verbs = {verb::gradient}, .from = {{.run = run_id_of(plan)}, initial}}, never, {});
      round.arrive_and_wait();
    }
  };
  std::vector<std::future<void>> others;
  try {
    for (std::uint32_t rank = 1; rank < lanes; ++rank)
      others.push_back(std::async(std::launch::async, [&work, &round, rank] {
        try {
          work(rank);
        } catch (...) {
          round.arrive_and_drop();  // the others continue without it
          throw;
        }
      }));
    work(0);
  } catch (...) {
    // The barrier must not wait for this thread, nor for those that could not be started.
    for (auto missing = others.size(); missing < lanes; ++missing) round.arrive_and_drop();
    throw;  // the destructors of `others` wait for the threads
  }
  for (auto& other : others) other.get();
  std::vector<double> seconds;
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    const auto gradients = static_cast<double>(lanes * (marks[i + 1].rounds - marks[i].rounds));
    seconds.push_back(std::chrono::duration<double>(marks[i + 1].cpu - marks[i].cpu).count() / gradients);
  }
  std::nth_element(seconds.begin(), seconds.begin() + measured / 2, seconds.end());
  return std::max(microseconds{1}, rounded(seconds[measured / 2]));
}

costs::costs(const plan& plan, microseconds gradient, std::uint64_t seed)
    : gradient_(1e-6 * static_cast<double>(gradient.count())),
      jitter_(plan.file.simulate.jitter),
      bytes_per_second_(plan.file.simulate.memory.bytes_per_second),
      evaluation_(1e-6 * static_cast<double>(plan.file.simulate.evaluate.count())),
      seed_(seed ^ of_durations),
      gradients_(plan.workers),
      mean_batch_(plan.sampling.sizes.empty() ? 0
                                              : static_cast<double>(data::samples_per_step(plan.sampling)) /
                                                    static_cast<double>(plan.workers)) {}

microseconds costs::of(const actor_label& actor, const task& what) {
  if (what.what == task::kind::evaluate) return rounded(evaluation_);
  const auto copying = static_cast<double>(what.elements) * sizeof(float) / bytes_per_second_;
  if (what.what != task::kind::advance) return rounded(copying);
  if (actor.id.what != role::compute)
    throw std::logic_error("the lane of \"" + actor.name + "\" computes gradients, but is not that of a compute actor");
  const auto rank = actor.id.rank;
  double seconds = copying;
  const auto gradient = mean_batch_ == 0 ? gradient_ : gradient_ * static_cast<double>(what.samples) / mean_batch_;
  for (std::uint64_t i = 0; i < what.gradients; ++i) {
    data::random_stream random{data::keyed(seed_, data::purpose::exchange, rank, gradients_.at(rank)++)};
    seconds += gradient * (1 + random.between(-jitter_, jitter_));
  }
  return rounded(seconds);
}

}  // namespace troupe::emulation

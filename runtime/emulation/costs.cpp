#include "troupe/runtime/emulation/costs.hpp"

#include "troupe/actors/training/replica.hpp"
#include "troupe/data/random.hpp"
#include "troupe/runtime/emulation/slowed_lanes.hpp"
#include "troupe/runtime/node/worker_of_plan.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <utility>

namespace troupe::emulation {

namespace {

using std::chrono::microseconds;

/// Keeps what is drawn for durations apart from other draws with the same seed.
constexpr std::uint64_t of_durations = 0x636f737473;

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Ten years at most, so that no sum of times overflows, whatever rates and factors the file has.
microseconds rounded(double seconds) {
  constexpr double longest = 10 * 365.25 * 24 * 3600;
  return microseconds{std::llround(1e6 * std::min(seconds, longest))};
}

}  // namespace

microseconds measure_gradient(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                              models::buffer_pool pool) {
  constexpr int first_ones = 3, measured = 10;  // the first gradients allocate memory
  auto options = replica_options_of(plan, data, 0, std::move(pool));
  options.local_steps = 1;
  options.sampling.queue = false;
  replica engine{std::move(options)};
  const std::atomic<bool> never{false};
  std::vector<double> seconds;
  for (int i = 0; i < first_ones + measured; ++i) {
    advance request{.verbs = {verb::gradient}, .from = {{.run = id_of(plan)}, initial}};
    const auto before = cpu_seconds();
    engine.run(request, never, {});
    if (i >= first_ones) seconds.push_back(cpu_seconds() - before);
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
      gradients_(plan.workers) {
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) slowdown_.push_back(slowdown_of(plan, rank));
}

microseconds costs::of(const std::string& actor, const task& what) {
  if (what.what == task::kind::evaluate) return rounded(evaluation_);
  const auto copying = static_cast<double>(what.elements) * sizeof(float) / bytes_per_second_;
  if (what.what != task::kind::advance) return rounded(copying);
  const auto rank = *rank_of_compute(actor);
  double seconds = copying;
  for (std::uint64_t i = 0; i < what.gradients; ++i) {
    data::random_stream random{data::keyed(seed_, data::purpose::exchange, rank, gradients_.at(rank)++)};
    seconds += gradient_ * (1 + random.between(-jitter_, jitter_));
  }
  return rounded(slowdown_.at(rank) * seconds);
}

}  // namespace troupe::emulation

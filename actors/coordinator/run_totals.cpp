#include "troupe/actors/coordinator/run_totals.hpp"

#include "troupe/algorithms/messages/message_state.hpp"
#include "troupe/algorithms/rules/staleness.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::rules {

namespace {

constexpr std::uint32_t most_listed = 64;  ///< Number of workers up to which a line lists them before the end.

std::optional<double> share_of(double part, double whole) {
  return whole > 0 ? std::optional{part / whole} : std::nullopt;
}

training_tally tally_of(const state_dict& from, const std::string& name) {
  milestone sums;
  restore(sums, from.all(name));
  training_tally tally;
  tally.add(sums);
  return tally;
}

}  // namespace

report run_totals::report_of(std::uint64_t step, const std::vector<milestone>& all, run_clock::time_point now) {
  report result;
  auto& line = result.line;
  double data_wait = 0, computing = 0;
  training_tally trained;
  for (const auto& reached : all) {
    trained.add(reached);
    data_wait += reached.data_wait;
    computing += reached.busy;
    auto& total = of_workers_[reached.rank];
    total.steps = reached.step;
    total.samples += reached.sample_count;
    total.bytes_sent = reached.bytes_sent;
    total.busy += reached.busy;
    total.cpu += reached.cpu;
    total.loading_cpu += reached.loading_cpu;
    total.data_wait += reached.data_wait;
    total.exchange_wait += reached.exchange_wait;
  }
  line.bytes_sent = bytes_sent();
  line.train_loss_workers = losses_by_worker(all, options_.workers);
  if (options_.workers <= most_listed) line.workers = workers();
  of_run_.add(trained);
  of_epoch_.add(trained);
  data_wait_ += data_wait;
  computing_ += computing;
  line.data_wait = share_of(data_wait, computing);
  if (step > 0) line.lr = options_.lr_over_time.rate(options_.lr, step - 1);
  if (const auto loss = line.train_loss = trained.loss()) train_loss_ = loss;
  if (const auto accuracy = line.train_accuracy = trained.accuracy()) train_accuracy_ = accuracy;
  line.epoch = step / options_.when.steps_per_epoch;
  line.step = line.updates = step;
  line.seconds = clock.seconds(now);
  const auto training = line.train_seconds = clock.train_seconds(now);
  const auto interval = training - std::exchange(interval_start_, training);
  const auto samples = arrived_ - std::exchange(arrived_before_, arrived_);
  if (samples > 0 && interval > 0) line.samples_per_second = static_cast<double>(samples) / interval;
  result.epoch_ends = options_.when.epoch_ends_at(step);
  result.evaluated = options_.when.evaluated_at(step);
  if (result.epoch_ends) {
    result.epoch_train_loss = std::exchange(of_epoch_, {}).loss();
    result.epoch_seconds = training - std::exchange(epoch_start_, training);
  }
  reported_ = step;
  return result;
}

void run_totals::count_updates(const std::vector<holding>& held, bool are_replicas, record& line) {
  std::vector<staleness_tally> tallies;
  line.updates = ~std::uint64_t{0};  // if servers hold shares: the updates that all servers have made
  std::uint64_t sum = 0;             // if servers hold replicas: the sum of their updates
  for (const auto& server : held) {
    if (!server.piece.values.defined()) continue;
    line.updates = std::min(line.updates, server.version);
    sum += server.version;
    tallies.push_back(server.staleness);
  }
  if (are_replicas) line.updates = sum;
  auto total = pooled(tallies);
  if (total.applied > 0) line.staleness_counts = total.counts;
  if (const auto latest = since(staleness_, total); latest.applied > 0) {
    line.staleness_mean = mean(latest);
    line.staleness_max = static_cast<double>(latest.most);
  }
  if (total.refused > 0) line.gradients_refused = static_cast<double>(total.refused);
  staleness_ = std::move(total);
}

void run_totals::note_distances(const step_result& found, record& line) {
  line.consensus_distance = found.distance;
  line.consensus_distance_before = found.distance_before;
  line.consensus_distance_after = found.distance_after;
  const auto& before = found.distance_before;
  // It stays NaN after the first NaN.
  if (before && (!distance_max_ || std::isnan(*before) || *before > *distance_max_)) distance_max_ = before;
}

record run_totals::end_of(const record& latest, const std::string& status, const std::string& stopped_by) const {
  record end = latest;
  end.event = "end";
  end.status = status;
  end.stopped_by = stopped_by;
  end.train_loss = train_loss_;
  end.train_accuracy = train_accuracy_;
  if (staleness_.applied > 0) {
    end.staleness_mean = mean(staleness_);
    end.staleness_max = static_cast<double>(staleness_.most);
    end.staleness_counts = staleness_.counts;
  }
  if (staleness_.refused > 0) end.gradients_refused = static_cast<double>(staleness_.refused);
  end.consensus_distance_max = distance_max_;
  end.data_wait = share_of(data_wait_, computing_);
  end.samples_per_second = of_run_.rate(end.train_seconds);
  end.workers = workers();
  return end;
}

std::vector<worker_total> run_totals::workers() const {
  std::vector<worker_total> totals;
  for (const auto& [rank, total] : of_workers_) totals.push_back(total);
  return totals;
}

std::uint64_t run_totals::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& [rank, total] : of_workers_) sum += total.bytes_sent;
  return sum;
}

record run_totals::line_at(std::uint64_t step, run_clock::time_point now) const {
  record line;
  line.epoch = step / options_.when.steps_per_epoch;
  line.step = line.updates = step;
  line.seconds = clock.seconds(now);
  line.train_seconds = clock.train_seconds(now);
  line.bytes_sent = bytes_sent();
  return line;
}

state_dict run_totals::state(run_clock::time_point now) const {
  state_dict saved;
  saved.put_counts("clock", clock.state(now));
  put_if_any(saved, "reported", reported_);
  std::vector<std::uint64_t> counts;
  std::vector<double> seconds, cpu, loading_cpu;
  for (const auto& [rank, total] : of_workers_) {
    counts.insert(counts.end(), {static_cast<std::uint64_t>(rank), total.steps,
                                 static_cast<std::uint64_t>(total.samples), total.bytes_sent});
    seconds.insert(seconds.end(), {total.busy, total.data_wait, total.exchange_wait});
    cpu.push_back(total.cpu);
    loading_cpu.push_back(total.loading_cpu);
  }
  saved.put_counts("of_workers", counts);
  put_numbers(saved, "seconds_of_workers", seconds);
  put_numbers(saved, "cpu_of_workers", cpu);
  put_numbers(saved, "loading_cpu_of_workers", loading_cpu);
  saved.put_all("staleness", state_of(staleness_));
  put_if_any(saved, "distance_max", distance_max_);
  saved.put_all("of_run", state_of(of_run_.sums()));
  saved.put_all("of_epoch", state_of(of_epoch_.sums()));
  saved.put_number("interval_start", interval_start_);
  saved.put_number("epoch_start", epoch_start_);
  saved.put_counts("arrived", {static_cast<std::uint64_t>(arrived_), static_cast<std::uint64_t>(arrived_before_)});
  saved.put_number("data_wait", data_wait_);
  saved.put_number("computing", computing_);
  put_if_any(saved, "train_loss", train_loss_);
  put_if_any(saved, "train_accuracy", train_accuracy_);
  return saved;
}

void run_totals::restore(const state_dict& from, run_clock::time_point now) {
  clock.resume(from.counts("clock", 3), now);
  reported_ = find_if_any<std::uint64_t>(from, "reported");
  const auto counts = from.counts("of_workers");
  const auto seconds = numbers_of(from, "seconds_of_workers");
  // Older checkpoints lack the CPU times.
  const auto cpu_times = [&](const std::string& name) {
    return from.has(name) ? numbers_of(from, name) : std::vector<double>(counts.size() / 4);
  };
  const auto cpu = cpu_times("cpu_of_workers"), loading_cpu = cpu_times("loading_cpu_of_workers");
  if (counts.size() % 4 != 0 || seconds.size() != counts.size() / 4 * 3 || cpu.size() != counts.size() / 4 ||
      loading_cpu.size() != cpu.size())
    throw state_error("the totals of the workers do not fit together");
  of_workers_.clear();
  for (std::size_t i = 0; i < counts.size() / 4; ++i)
    of_workers_[static_cast<rank_id>(counts[4 * i])] = {.steps = counts[4 * i + 1],
                                                        .samples = static_cast<std::int64_t>(counts[4 * i + 2]),
                                                        .bytes_sent = counts[4 * i + 3],
                                                        .busy = seconds[3 * i],
                                                        .data_wait = seconds[3 * i + 1],
                                                        .exchange_wait = seconds[3 * i + 2],
                                                        .cpu = cpu[i],
                                                        .loading_cpu = loading_cpu[i]};
  troupe::restore(staleness_, from.all("staleness"));
  distance_max_ = find_if_any<double>(from, "distance_max");
  of_run_ = tally_of(from, "of_run");
  of_epoch_ = tally_of(from, "of_epoch");
  interval_start_ = from.number("interval_start");
  epoch_start_ = from.number("epoch_start");
  arrived_ = arrived_before_ = of_run_.samples();
  if (from.has("arrived")) {  // checkpoints of earlier versions have no such entry
    const auto arrived = from.counts("arrived", 2);
    arrived_ = static_cast<std::int64_t>(arrived[0]);
    arrived_before_ = static_cast<std::int64_t>(arrived[1]);
  }
  data_wait_ = from.number("data_wait");
  computing_ = from.number("computing");
  train_loss_ = find_if_any<double>(from, "train_loss");
  train_accuracy_ = find_if_any<double>(from, "train_accuracy");
}

}  // namespace troupe::rules

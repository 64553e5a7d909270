#include "troupe/actors/rules/run_totals.hpp"

#include "troupe/actors/rules/staleness.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::rules {

namespace {

std::optional<double> share_of(double part, double whole) {
  return whole > 0 ? std::optional{part / whole} : std::nullopt;
}

}  // namespace

report run_totals::report_of(std::uint64_t step, const std::vector<milestone>& all, run_clock::time_point now) {
  report made;
  auto& line = made.line;
  double data_wait = 0, computing = 0;
  training_tally trained;
  for (const auto& one : all) {
    trained.add(one);
    data_wait += one.data_wait;
    computing += one.busy;
    bytes_sent_[one.rank] = one.bytes_sent;
  }
  for (const auto& [rank, bytes] : bytes_sent_) line.bytes_sent += bytes;
  line.train_loss_workers = losses_by_worker(all, options_.workers);
  of_run_.add(trained);
  of_epoch_.add(trained);
  data_wait_ += data_wait;
  computing_ += computing;
  line.data_wait = share_of(data_wait, computing);
  if (step > 0) line.lr = options_.lr * options_.lr_over_time.at(step - 1);
  if (const auto loss = line.train_loss = trained.loss()) train_loss_ = loss;
  if (const auto accuracy = line.train_accuracy = trained.accuracy()) train_accuracy_ = accuracy;
  line.epoch = step / options_.when.steps_per_epoch;
  line.step = line.updates = step;
  line.seconds = clock.seconds(now);
  const auto training = line.train_seconds = clock.train_seconds(now);
  line.samples_per_second = trained.rate(training - std::exchange(interval_start_, training));
  made.epoch_ends = options_.when.epoch_ends_at(step);
  made.evaluated = options_.when.evaluated_at(step);
  if (made.epoch_ends) {
    made.epoch_train_loss = std::exchange(of_epoch_, {}).loss();
    made.epoch_seconds = training - std::exchange(epoch_start_, training);
  }
  reported_ = step;
  return made;
}

void run_totals::count_updates(const std::vector<holding>& held, bool are_replicas, record& line) {
  std::vector<staleness_tally> tallies;
  line.updates = ~std::uint64_t{0};  // of shares, the updates that all have made
  std::uint64_t made = 0;            // of replicas, the sum
  for (const auto& one : held) {
    if (!one.piece.values.defined()) continue;
    line.updates = std::min(line.updates, one.version);
    made += one.version;
    tallies.push_back(one.staleness);
  }
  if (are_replicas) line.updates = made;
  auto all = pooled(tallies);
  if (const auto latest = since(staleness_, all); latest.applied > 0) {
    line.staleness_mean = mean(latest);
    line.staleness_max = static_cast<double>(latest.most);
  }
  staleness_ = std::move(all);
}

void run_totals::note_distances(std::optional<double> now, std::optional<double> before, record& line) {
  line.consensus_distance = now;
  line.consensus_distance_before = before;
  // NaN once there was one.
  if (before && (!distance_max_ || std::isnan(*before) || *before > *distance_max_)) distance_max_ = before;
}

record run_totals::end_of(const record& latest, const std::string& status) const {
  record end = latest;
  end.event = "end";
  end.status = status;
  end.train_loss = train_loss_;
  end.train_accuracy = train_accuracy_;
  if (staleness_.applied > 0) {
    end.staleness_mean = mean(staleness_);
    end.staleness_max = static_cast<double>(staleness_.most);
    end.staleness_counts = staleness_.counts;
  }
  end.consensus_distance_max = distance_max_;
  end.data_wait = share_of(data_wait_, computing_);
  end.samples_per_second = of_run_.rate(end.train_seconds);
  return end;
}

}  // namespace troupe::rules

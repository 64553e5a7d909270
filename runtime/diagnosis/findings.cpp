#include "troupe/runtime/diagnosis/findings.hpp"

#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace troupe::diagnosis {

namespace {

/// From here on, a share is worth a sentence.
constexpr double noticeable = 0.1;
constexpr double slower = 1.25;

std::string fixed(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

shares shares_of(const measured_worker& worker, double whole) {
  const auto share = [&](double seconds) { return std::clamp(seconds / whole, 0.0, 1.0); };
  shares of{.compute = share(worker.busy - worker.data_wait),
            .data = share(worker.data_wait),
            .exchange = share(worker.exchange_wait)};
  const auto sum = of.compute + of.data + of.exchange;
  of.other = std::max(0.0, 1 - sum);
  if (sum > 1)  // clocks are read one after the other
    for (auto* each : {&of.compute, &of.data, &of.exchange}) *each /= sum;
  return of;
}

void find_slowest(const measured_run& run, findings& found) {
  std::vector<double> of_step;
  for (const auto& worker : run.workers)
    of_step.push_back(worker.steps > 0 ? (worker.busy - worker.data_wait) / static_cast<double>(worker.steps) : 0);
  const auto most = std::max_element(of_step.begin(), of_step.end());
  found.slowest = static_cast<std::size_t>(most - of_step.begin());
  const auto longest = *most;
  const auto middle = of_step.begin() + static_cast<std::ptrdiff_t>((of_step.size() - 1) / 2);
  std::nth_element(of_step.begin(), middle, of_step.end());
  found.slowness = *middle > 0 ? longest / *middle : 1;
}

/// Names what takes most of the time, apart from computing.
std::string verdict(const findings& found) {
  const auto& [compute, data, exchange, other] = found.mean;
  const auto worker = "worker " + std::to_string(found.slowest);
  if (std::max({data, exchange, other, found.evaluation}) < noticeable)
    return "The workers compute almost all the time: a faster run needs faster computing, or more workers.";
  if (found.evaluation >= std::max({data, exchange, other})) return "Evaluation holds the workers back most.";
  if (data >= std::max(exchange, other)) return "Samples arrive too late: reading and decoding them is the bottleneck.";
  if (other >= exchange)
    return "Most of the waiting is for something else: a core, a verdict of an evaluation, a batch of the queue, or, "
           "at the end, slower workers.";
  if (waits_for_slowest(found))
    return "The others wait for " + worker + ", which waits for exchanges itself in only " +
           percent(found.workers[found.slowest].exchange) + " of the time.";
  return "The exchanges themselves are the bottleneck: even the worker that waits least waits for them in " +
         percent(found.exchange_least) + " of the time.";
}

}  // namespace

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

findings findings_of(const measured_run& run) {
  findings found;
  for (const auto& worker : run.workers) found.workers.push_back(shares_of(worker, run.train_seconds));
  const auto count = static_cast<double>(std::max<std::size_t>(found.workers.size(), 1));
  found.exchange_least = 1;
  for (const auto& of : found.workers) {
    found.mean.compute += of.compute / count;
    found.mean.data += of.data / count;
    found.mean.exchange += of.exchange / count;
    found.mean.other += of.other / count;
    found.exchange_least = std::min(found.exchange_least, of.exchange);
    found.exchange_most = std::max(found.exchange_most, of.exchange);
  }
  if (run.seconds > 0) found.evaluation = std::clamp(1 - run.train_seconds / run.seconds, 0.0, 1.0);
  if (!run.workers.empty()) find_slowest(run, found);
  const auto less_busy = [](const auto& one, const auto& other) { return one.busy_share < other.busy_share; };
  const auto busiest = std::max_element(run.links.begin(), run.links.end(), less_busy);
  if (busiest != run.links.end()) found.busiest = *busiest;
  return found;
}

bool waits_for_slowest(const findings& found) {
  return found.workers.size() > 1 && found.slowness >= slower &&
         found.mean.exchange - found.workers[found.slowest].exchange >= noticeable / 2;
}

std::string summary(const measured_run& run, const findings& found) {
  const auto& [compute, data, exchange, other] = found.mean;
  const auto count = run.workers.size();
  auto text = "The run took " + human_number(run.seconds, 4) + " s";
  if (found.evaluation >= 0.001)
    text += ", in " + percent(found.evaluation) + " of which training waited for evaluation";
  text += count == 1 ? ". Of the training time, the worker spent "
                     : ". Of the training time, the " + grouped(count) + " workers spent on average ";
  text += percent(compute) + " computing, " + percent(data) + " waiting for samples, " + percent(exchange) +
          " waiting for exchanges and " + percent(other) + " waiting for something else. " + verdict(found);
  if (count > 1 && found.slowness >= slower)
    text += " Worker " + std::to_string(found.slowest) + " is the slowest: its steps take " + fixed(found.slowness, 1) +
            " times as long to compute as those of the median worker.";
  if (found.busiest && found.busiest->busy_share >= noticeable)
    text += " The busiest link, " + found.busiest->name + ", is occupied for " + percent(found.busiest->busy_share) +
            " of the run; a message waits " + human_number(1000 * found.busiest->wait_mean, 3) +
            " ms for it on average.";
  return text;
}

}  // namespace troupe::diagnosis

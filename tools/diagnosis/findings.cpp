#include "troupe/tools/diagnosis/findings.hpp"

#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace troupe::diagnosis {

namespace {

/// Smallest share that is worth a sentence.
constexpr double noticeable_share = 0.1;
constexpr double slower = 1.25;

constexpr auto computes_all_the_time =
    "The workers compute almost all the time: a faster run needs faster computing, or more workers.";
constexpr auto waits_for_something_else =
    "Most of the waiting is for something else: a core, a verdict of an evaluation, a batch of the queue, or, at the "
    "end, slower workers.";

std::string fixed(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

shares shares_of(const worker_total& worker, double whole) {
  const auto share = [&](double seconds) { return std::clamp(seconds / whole, 0.0, 1.0); };
  shares result{.compute = share(worker.busy - worker.data_wait),
                .data = share(worker.data_wait),
                .exchange = share(worker.exchange_wait)};
  const auto sum = result.compute + result.data + result.exchange;
  result.other = std::max(0.0, 1 - sum);
  if (sum > 1)  // possible, because clocks are read one after the other
    for (auto* part : {&result.compute, &result.data, &result.exchange}) *part /= sum;
  return result;
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

/// Names what takes most of the time, apart from computing, if the run could not be simulated.
std::string largest_share(const findings& found) {
  const auto& [compute, data, exchange, other] = found.mean;
  const auto most = std::max({data, exchange, other, found.evaluation});
  if (most < noticeable_share) return computes_all_the_time;
  if (found.evaluation == most) return "Evaluation holds the workers back most.";
  if (data == most) return "Samples arrive too late: reading and decoding them takes most of the waiting time.";
  if (exchange == most) return "Most of the waiting is for exchanges.";
  return waits_for_something_else;
}

std::string seconds_text(double seconds) {
  return human_number(seconds, 3) + " s";
}

/// Names the main cause and how long the run would take without it.
std::string verdict(const findings& found, const explanation& why, double run_seconds) {
  const auto& [compute, data, exchange, other] = found.mean;
  const auto main = why.main_cause(run_seconds);
  if (!main) {
    if (other >= noticeable_share && other >= exchange) return waits_for_something_else;
    if (exchange >= noticeable_share)
      return "Workers wait for exchanges, but neither links nor a slow worker explain it: it is the handling of "
             "messages, and workers that take turns on the cores.";
    return computes_all_the_time;
  }
  const auto would_take = ", the run would take " + seconds_text(main->seconds) + ".";
  switch (main->of) {
    case cause::exchanges:
      return "The links hold the workers back most: if messages took no time" + would_take;
    case cause::slow_worker:
      return "Worker " + std::to_string(found.slowest) +
             " holds the others back most: if all workers computed as fast as the median worker" + would_take;
    case cause::cores:
      return "The workers wait most for cores: each had one in " + percent(1 / why.contention) +
             " of the time in which it computed, because " +
             (why.competitors == core_users::other_programs ? "other programs used them"
              : why.competitors == core_users::actors       ? "evaluation and servers use them as well"
                                                            : "there are more workers than cores") +
             ". With a core for each worker" + would_take;
    case cause::data:
      if (why.competitors == core_users::loaders)
        return "The threads that make samples use the cores that the workers need: if samples were always there" +
               would_take;
      return "Samples arrive too late: if no worker waited for them" + would_take;
    case cause::evaluation:
      return "Evaluation holds the workers back most: if they did not wait for it" + would_take;
  }
  return "";
}

}  // namespace

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

findings findings_of(const measured_run& run) {
  findings result;
  for (const auto& worker : run.workers) result.workers.push_back(shares_of(worker, run.train_seconds));
  const auto count = static_cast<double>(std::max<std::size_t>(result.workers.size(), 1));
  for (const auto& worker : result.workers) {
    result.mean.compute += worker.compute / count;
    result.mean.data += worker.data / count;
    result.mean.exchange += worker.exchange / count;
    result.mean.other += worker.other / count;
  }
  if (run.seconds > 0) result.evaluation = std::clamp(1 - run.train_seconds / run.seconds, 0.0, 1.0);
  if (!run.workers.empty()) find_slowest(run, result);
  const auto less_busy = [](const auto& a, const auto& b) { return a.busy_share < b.busy_share; };
  const auto busiest = std::max_element(run.links.begin(), run.links.end(), less_busy);
  if (busiest != run.links.end()) result.busiest = *busiest;
  return result;
}

const char* name_of(cause what) {
  switch (what) {
    case cause::exchanges:
      return "exchanges";
    case cause::slow_worker:
      return "slow_worker";
    case cause::cores:
      return "cores";
    case cause::data:
      return "data";
    case cause::evaluation:
      return "evaluation";
  }
  return "";
}

std::optional<relief> explanation::main_cause(double run_seconds) const {
  constexpr double worth_naming = 0.05;
  if (reliefs.empty() || reliefs.front().seconds > (1 - worth_naming) * run_seconds) return std::nullopt;
  return reliefs.front();
}

std::string summary(const measured_run& run, const findings& found, const std::optional<explanation>& why) {
  const auto& [compute, data, exchange, other] = found.mean;
  const auto count = run.workers.size();
  auto text = "The run took " + human_number(run.seconds, 4) + " s";
  if (found.evaluation >= 0.001)
    text += ", in " + percent(found.evaluation) + " of which training waited for evaluation";
  text += count == 1 ? ". Of the training time, the worker spent "
                     : ". Of the training time, the " + grouped(count) + " workers spent on average ";
  text += percent(compute) + " computing, " + percent(data) + " waiting for samples, " + percent(exchange) +
          " waiting for exchanges and " + percent(other) + " waiting for something else. " +
          (why ? verdict(found, *why, run.seconds) : largest_share(found));
  if (count > 1 && found.slowness >= slower)
    text += " Worker " + std::to_string(found.slowest) + " is the slowest: its steps take " + fixed(found.slowness, 1) +
            " times as long to compute as those of the median worker.";
  if (found.busiest && found.busiest->busy_share >= noticeable_share)
    text += " The busiest link, " + found.busiest->name + ", is occupied for " + percent(found.busiest->busy_share) +
            " of the run; a message waits " + human_number(1000 * found.busiest->wait_mean, 3) +
            " ms for it on average.";
  return text;
}

}  // namespace troupe::diagnosis

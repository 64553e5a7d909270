#include "troupe/tools/diagnosis/what_if.hpp"

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/data/sampling/loader.hpp"
#include "troupe/runtime/emulation/slowed_lanes.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe::diagnosis {

namespace {

using std::chrono::microseconds;

/// Conditions of a simulation. Times are in seconds.
struct conditions {
  double compute{0};    ///< Computing time of the median worker for one batch of the run.
  double data_wait{0};  ///< Time for which a worker waits for one batch.
  double evaluation{0};
  std::vector<double> slowdown{};  ///< By rank; empty if all workers compute equally fast.
  std::int64_t cores{0};           ///< Cores of each node, as in simulate.cores.
  double jitter{0.1};
  std::vector<topology::link_settings> links{};
  bool messages_take_time{true};
};

/// Results of a simulation.
struct simulated {
  double seconds{0};
  double samples{0};
  double busy_per_step{0};  ///< Mean over the steps of all workers, in seconds.
  double train_seconds{0};
};

std::uint64_t quotient_up(std::uint64_t whole, std::uint64_t part) {
  return part == 0 ? 1 : (whole + part - 1) / part;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

microseconds rounded(double seconds) {
  return microseconds{std::llround(std::clamp(1e6 * seconds, 1.0, 1e13))};
}

double computing_per_step(const worker_total& worker) {
  return (worker.busy - worker.data_wait) / static_cast<double>(std::max<std::uint64_t>(worker.steps, 1));
}

/// Removes settings that end a run early or do not affect its speed.
void make_plain(topology::topology& file) {
  file.faults.clear();
  file.checkpoint = {};
  file.evaluate.target_accuracy.reset();
  file.evaluate.patience.reset();
  file.run.max_seconds.reset();
  file.run.epochs.reset();
  file.optimizer.warmup_epochs = 0;
  file.optimizer.schedule = "constant";
  file.optimizer.decay_epochs.clear();
}

}  // namespace

struct what_if::parts {
  parts(topology::topology loaded, const measured_run& measured, unsigned cores_here)
      : run(measured), cores(std::max(1u, cores_here)), file(std::move(loaded)) {
    if (run.workers.empty()) throw std::invalid_argument("the run has no workers");
    data = load_data(file);
    auto on_cpus = file;
    on_cpus.workers.device = {"cpu"};
    const auto original = make_plan(on_cpus, facts_of(on_cpus));
    initial = initial_weights(original, pool);
    batch = file.data.batch_size;
    has_threads = data::is_worth_threads(*data.train, original.augment);
    sends = std::any_of(original.exchanges.begin(), original.exchanges.end(),
                        [](const auto& exchange) { return exchange.nature.in_loop; });
    read_workers(original);
    fit_gradient();
    if (file.links.empty() && original.nodes.size() > 1) fit_network(original);
    as_it_was = *simulate({}, now);
  }

  data_facts facts_of(const topology::topology& of) const { return {data, of}; }

  /// Takes from the measurements how long workers compute and wait for samples, and what slowed them down.
  void read_workers(const plan& original) {
    std::vector<double> computing, waiting, loading, contentions;
    const auto on_gpus = std::any_of(file.workers.device.begin(), file.workers.device.end(),
                                     [](const auto& device) { return device.starts_with("cuda"); });
    for (std::size_t rank = 0; rank < run.workers.size(); ++rank) {
      const auto& worker = run.workers[rank];
      if (worker.steps == 0) throw std::invalid_argument("a worker has made no steps");
      computing.push_back(computing_per_step(worker));
      waiting.push_back(worker.data_wait / static_cast<double>(worker.steps));
      loading.push_back(worker.loading_cpu / static_cast<double>(worker.steps));
      const auto slowed = emulation::slowdown_of(original, static_cast<std::uint32_t>(rank));
      if (worker.cpu > 0 && !on_gpus) contentions.push_back((worker.busy - worker.data_wait) / worker.cpu / slowed);
      is_real = is_real || worker.cpu > 0;
    }
    now.compute = median_of(computing);
    now.data_wait = median_of(waiting);
    loading_cpu = median_of(loading);
    if (now.compute <= 0) throw std::invalid_argument("no time was measured");
    constexpr double shortest = 10e-6;  // a simulation counts whole microseconds
    if (now.compute < shortest)
      throw std::invalid_argument("its steps take less than 10 us, too little for a simulation");
    // Workers that are about equally fast are treated as equal, because each measurement varies.
    constexpr double different = 1.1;
    if (*std::max_element(computing.begin(), computing.end()) > different * now.compute)
      for (const auto seconds : computing) now.slowdown.push_back(std::clamp(seconds / now.compute, 1.0, 1e6));
    if (!contentions.empty()) contention = std::max(1.0, median_of(contentions));
    compute_alone = now.compute / contention;
    now.links = file.links;
    now.evaluation =
        run.evaluations > 0 ? std::max(0.0, run.seconds - run.train_seconds) / static_cast<double>(run.evaluations) : 0;
    workers_here = static_cast<std::int64_t>(run.workers.size());
    const auto nodes = static_cast<std::int64_t>(original.nodes.size());
    const auto is_local = std::all_of(original.nodes.begin(), original.nodes.end(),
                                      [](const auto& node) { return node.name.empty() || is_loopback(node.address); });
    if (!is_local) workers_here = original.nodes.front().workers;
    now.cores = file.simulate.cores;
    now.jitter = file.simulate.jitter;
    if (!is_real) return;
    // Nine of ten gradients on an idle machine take 0.97 to 1.05 of their median.
    now.jitter = 0.03;
    // With as many workers as cores, the evaluator competes for cores as well. How nodes of one machine share its
    // cores is known only roughly.
    const auto several_here = is_local && nodes > 1;
    if (workers_here >= cores + (several_here ? 1 : 0))
      now.cores = std::max<std::int64_t>(1, cores / (several_here ? nodes : 1));
    note_loaders();
  }

  /// Finds out whether workers lack cores because threads make samples on them: the run has used most of the time of
  /// all cores, and these threads a noticeable share of it.
  void note_loaders() {
    constexpr double noticeable = 0.1, most = 0.65;  // the rest is waiting, and the work of the system
    double of_workers = 0, of_loaders = 0;
    for (const auto& worker : run.workers) {
      of_workers += worker.cpu;
      of_loaders += worker.loading_cpu;
    }
    const auto used = of_workers + of_loaders;
    loaders_take_cores = contention > 1 + noticeable && of_loaders > noticeable * used &&
                         used > most * run.train_seconds * cores_of_all();
    if (loaders_take_cores) share_of_workers = of_workers / used;
  }

  /// Returns the number of cores of all machines.
  double cores_of_all() const {
    return static_cast<double>(cores) * static_cast<double>(run.workers.size()) / static_cast<double>(workers_here);
  }

  /// Returns the number of threads that make samples; 0 if workers make them themselves.
  double loader_threads() const {
    return static_cast<double>(
        loader_threads_of(file.data, static_cast<std::uint32_t>(workers_here), static_cast<unsigned>(cores)));
  }

  /// Returns how long a worker would wait for each of its batches if `threads` made them.
  double data_wait_with(double threads) const {
    constexpr double noticeable = 0.05;
    const auto workers = static_cast<double>(workers_here), before = loader_threads();
    const auto step = now.compute + now.data_wait;
    // If workers wait for the threads, the threads work all the time. A worker without threads waits while it makes its
    // batches.
    auto making = loading_cpu, on_cores = loading_cpu;
    if (loading_cpu == 0 && !has_threads) return now.data_wait;  // such samples are not worth threads
    if (before == 0)
      making = on_cores = now.data_wait;
    else if (now.data_wait > noticeable * step)
      making = std::max(making, before * step / workers);
    const auto of_cores = workers * (now.compute / contention + on_cores) / static_cast<double>(cores);
    return std::max(0.0, std::max(workers * making / std::max(threads, 1.0), of_cores) - now.compute);
  }

  /// Finds the time of a gradient with which the simulated workers compute for as long as the real ones.
  void fit_gradient() {
    double wanted = 0;
    for (const auto& worker : run.workers)
      wanted += worker.busy / static_cast<double>(worker.steps) / static_cast<double>(run.workers.size());
    constexpr int tries = 4;
    constexpr double close_enough = 0.005;
    for (int i = 0; i < tries; ++i) {
      const auto result = simulate({}, now);
      if (!result) throw std::invalid_argument("the topology cannot be simulated");
      const auto ratio = wanted / std::max(result->busy_per_step, 1e-9);
      if (std::abs(ratio - 1) < close_enough) break;
      now.compute *= ratio;
      now.data_wait *= ratio;
    }
  }

  /// Finds the bandwidth of the links between nodes, which the file does not describe, with which the simulated run
  /// takes as long as the real one. Keeps the routes that the run took.
  void fit_network(const plan& original) {
    for (std::size_t i = 0; i < original.exchanges.size() && i < file.exchanges.size(); ++i)
      if (const auto& choices = original.traffic[i].choices; !choices.empty() && !choices.front().key.empty())
        taken[i] = {choices.front().key, choices.front().settings.at(choices.front().key)};
    const auto with = [&](double bytes_per_second) {
      auto fitted = now;
      for (const auto& node : original.nodes) {
        topology::link_settings link;
        link.at = node.name;
        link.bandwidth = topology::byte_rate{std::to_string(bytes_per_second), bytes_per_second};
        link.latency = microseconds{30};
        fitted.links.push_back(link);
      }
      return fitted;
    };
    const auto wanted = [&](const simulated& result) {
      return run.train_seconds * result.samples / static_cast<double>(run.samples());
    };
    double slow = 1e4, fast = 1e11;
    const auto fastest = simulate({}, with(fast));
    if (!fastest || fastest->train_seconds > 0.95 * wanted(*fastest)) return;  // the network is not what takes time
    constexpr int halvings = 12;
    for (int i = 0; i < halvings; ++i) {
      const auto middle = std::sqrt(slow * fast);
      const auto result = simulate({}, with(middle));
      if (!result) return;
      (result->train_seconds > wanted(*result) ? slow : fast) = middle;
    }
    now = with(fast);
  }

  /// Returns the results of a simulation of the run with these settings; nothing if they are not valid.
  std::optional<simulated> simulate(const std::vector<std::string>& settings, const conditions& under) const try {
    auto changed = topology::load(file.file, settings);
    changed.workers.device = {"cpu"};
    const auto facts = facts_of(changed);
    const auto whole = make_plan(changed, facts);
    // Enough steps for what happens every few steps, and few enough for an answer within a second.
    const auto n = static_cast<std::uint64_t>(whole.workers);
    const auto steps = std::min(whole.steps, std::clamp<std::uint64_t>(60'000 / (2 * n * n + 8 * n), 24, 400));
    make_plain(changed);
    changed.run.steps = steps;
    const auto every = std::min(whole.when.evaluate_every, steps);
    changed.evaluate.every = {.count = every};
    // Evaluations take as much time per step as in the whole run.
    const auto of_whole = static_cast<double>(quotient_up(whole.steps, whole.when.evaluate_every));
    const auto evaluating = under.evaluation * of_whole * static_cast<double>(steps) / static_cast<double>(whole.steps);
    auto& how = changed.simulate;
    how.evaluate =
        evaluating > 0 ? rounded(evaluating / static_cast<double>(quotient_up(steps, every))) : microseconds{0};
    const auto samples_per_batch =
        static_cast<double>(whole.sampling.batch_size) / static_cast<double>(std::max<std::int64_t>(batch, 1));
    how.gradient = topology::print_delay(rounded(samples_per_batch * (under.compute + under.data_wait)));
    how.jitter = under.jitter;
    how.cores = under.cores;
    if (!under.messages_take_time) how.memory = {"1TB/s", 1e12};
    changed.workers.slowdown = under.slowdown;
    changed.links = under.links;
    if (settings.empty())
      for (const auto& [place, choice] : taken) changed.exchanges[place].options[choice.first] = choice.second;
    const auto shortened = make_plan(changed, facts);
    const auto last = simulate_timing(shortened, data, initial, pool, {});
    simulated result{.seconds = last.seconds, .train_seconds = last.train_seconds};
    double made_steps = 0, busy = 0;
    for (const auto& worker : last.workers) {
      result.samples += static_cast<double>(worker.samples);
      made_steps += static_cast<double>(worker.steps);
      busy += worker.busy;
    }
    if (made_steps == 0 || result.samples == 0) return std::nullopt;
    result.busy_per_step = busy / made_steps;
    return result;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }

  /// Returns how many seconds the run takes under other conditions. The part of its time that the simulation of the run
  /// itself does not explain stays the same.
  double seconds_if(const simulated& other) const {
    const auto samples = static_cast<double>(run.samples());
    const auto before = as_it_was.seconds / as_it_was.samples * samples,
               after = other.seconds / other.samples * samples;
    return std::max(0.0, run.seconds - (before - after) * std::min(1.0, run.seconds / before));
  }

  const measured_run& run;
  std::int64_t cores;
  topology::topology file;
  data::dataset_pair data;
  models::buffer_pool pool;
  at::Tensor initial;
  std::int64_t batch{1};
  bool has_threads{false};  ///< Whether samples of this data set are worth threads that make them.
  bool sends{true};         ///< Whether there are messages between workers, or workers and servers.
  std::int64_t workers_here{1};
  bool is_real{false};             ///< Whether CPU times were measured, as in a real run.
  double contention{1};            ///< Computing time of workers for each second of CPU time that they use.
  double compute_alone{0};         ///< Like conditions::compute, but with a core for each worker.
  double loading_cpu{0};           ///< CPU time of the threads that make one batch.
  double share_of_workers{1};      ///< Share of the CPU time that workers use if loaders take cores; otherwise 1.
  bool loaders_take_cores{false};  ///< Whether workers lack cores because threads make samples.
  conditions now;
  std::map<std::size_t, std::pair<std::string, setting_value>> taken{};  ///< Choices of the run, by exchange.
  simulated as_it_was;
};

what_if::what_if(topology::topology file, const measured_run& run, unsigned cores)
    : parts_(std::make_unique<parts>(std::move(file), run, cores)) {}

what_if::~what_if() = default;

const topology::topology& what_if::file() const {
  return parts_->file;
}

std::optional<double> what_if::seconds_with(const std::vector<std::string>& settings) const {
  auto under = parts_->now;
  const std::string of_threads = "data.threads=";
  for (const auto& given : settings)
    if (given.starts_with(of_threads))
      under.data_wait = parts_->data_wait_with(std::stod(given.substr(of_threads.size())));
  const auto result = parts_->simulate(settings, under);
  if (!result) return std::nullopt;
  return parts_->seconds_if(*result);
}

explanation what_if::explain() const {
  // The factor by which computing takes longer if workers take turns on the cores.
  const auto of_workers = std::max(1.0, static_cast<double>(parts_->workers_here) / static_cast<double>(parts_->cores));
  constexpr double noticeable = 1.25;
  explanation why{.contention = parts_->contention,
                  .competitors = parts_->loaders_take_cores                     ? core_users::loaders
                                 : parts_->contention > noticeable * of_workers ? core_users::other_programs
                                 : parts_->workers_here > parts_->cores         ? core_users::workers
                                                                                : core_users::actors};
  for (const auto removed : all_causes) {
    auto under = parts_->now;
    switch (removed) {
      case cause::exchanges:
        if (!parts_->sends) continue;
        under.links.clear();
        under.messages_take_time = false;
        break;
      case cause::slow_worker:
        under.slowdown.clear();
        break;
      case cause::cores:
        if (parts_->loaders_take_cores && parts_->workers_here <= parts_->cores) continue;  // counted as cause::data
        under.compute = std::min(under.compute, parts_->compute_alone);
        under.cores = 0;
        break;
      case cause::data:
        under.data_wait = 0;
        under.compute =
            std::max(std::min(under.compute, parts_->compute_alone), under.compute * parts_->share_of_workers);
        break;
      case cause::evaluation:
        under.evaluation = 0;
        break;
    }
    if (const auto result = parts_->simulate({}, under)) why.reliefs.push_back({removed, parts_->seconds_if(*result)});
  }
  std::stable_sort(why.reliefs.begin(), why.reliefs.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return why;
}

}  // namespace troupe::diagnosis

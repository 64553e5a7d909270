// Describes a plan as text for people.
#include "troupe/tools/drawing/describe.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Lists numbers, or states how many there are and their range.
std::string numbers(const std::vector<double>& values) {
  constexpr std::size_t most = 16;
  if (values.size() > most) {
    const auto [least, largest] = std::minmax_element(values.begin(), values.end());
    return grouped(values.size()) + " numbers from " + human_number(*least) + " to " + human_number(*largest);
  }
  std::vector<std::string> words;
  for (const auto value : values) words.push_back(human_number(value));
  return text::joined(words, ", ");
}

std::string loss_text(const models::loss_function& loss) {
  const auto& kind = loss.kind();
  return (kind.called.empty() ? kind.name : kind.called) + settings_text(kind.settings, loss.settings());
}

std::string model_text(const plan& plan) {
  return plan.model->name + settings_text(plan.model->settings, plan.shape.settings) + ", " +
         counted(static_cast<std::uint64_t>(plan.layout.parameter_count), "parameter") + " in " +
         counted(plan.layout.parameters.size(), "tensor") + " (" +
         human_bytes(static_cast<std::uint64_t>(plan.layout.parameter_end) * sizeof(float)) + " with padding), " +
         loss_text(plan.loss) +
         (plan.shape.normal && plan.file.model.init.empty()
              ? ", initial weights with standard deviation " + human_number(plan.shape.normal->deviation)
              : "");
}

/// Returns what the extents of a sample that is not an image count.
std::string of_what(const plan& plan) {
  const bool single = plan.shape.input.size() == 1;
  switch (plan.facts.kind) {
    case models::sample_kind::sparse:
      return single ? " columns" : " (users × items)";
    case models::sample_kind::characters:
      return " positions";
    default:
      return single ? " features" : "";
  }
}

std::string data_text(const plan& plan) {
  std::vector<std::string> shape;
  for (const auto size : plan.shape.input) shape.push_back(grouped(static_cast<std::uint64_t>(size)));
  const auto samples = plan.data->name + settings_text(plan.data->settings, plan.file.data.options) + ", " +
                       counted(static_cast<std::uint64_t>(plan.sampling.samples), "training sample") + " of " +
                       text::joined(shape, "×");
  const auto classes =
      plan.shape.classes > 0 ? std::to_string(plan.shape.classes) + " classes" : std::string("numeric targets");
  if (plan.facts.sequences)
    return samples + " positions, " + grouped(static_cast<std::uint64_t>(plan.shape.classes)) + " classes per position";
  if (!plan.images()) return samples + of_what(plan) + ", " + classes;
  return samples + ", " + classes + ", " +
         (plan.scale.mean.empty()
              ? "not normalised"
              : "normalised with mean " + numbers(plan.scale.mean) + " and std " + numbers(plan.scale.std));
}

/// Returns text such as "each worker sees 1 to 3 of 10 classes".
std::string classes_text(const plan& plan) {
  const auto [least, most] = classes_seen(plan);
  return "each worker sees " + (least < most ? grouped(static_cast<std::uint64_t>(least)) + " to " : "") +
         grouped(static_cast<std::uint64_t>(most)) + " of " + std::to_string(plan.shape.classes) + " classes";
}

/// Prints how many samples of each class each worker has, if the table is small enough to read.
void describe_classes(page& page, const plan& plan) {
  const auto& workers = plan.facts.class_counts;
  page.more(classes_text(plan));
  constexpr std::size_t most_workers = 16, most_classes = 20;
  if (workers.size() > most_workers || workers.front().size() > most_classes) return;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    auto line = "w" + std::to_string(rank);
    line.resize(4, ' ');
    for (const auto count : workers[rank]) {
      const auto cell = std::to_string(count);
      line += std::string(7 - std::min<std::size_t>(cell.size(), 6), ' ') + cell;
    }
    page.more(line);
  }
}

/// Describes the samples for which loss and accuracy are computed.
std::string evaluated_text(const plan& plan) {
  const auto samples = grouped(static_cast<std::uint64_t>(plan.facts.evaluated));
  const auto shares = shares_text(plan);
  if (plan.facts.evaluates_training)
    return "evaluated on the training samples, because there are no test samples" + shares;
  if (plan.facts.evaluates_held_out)
    return "evaluated on " + samples + " samples held out of the training set" + shares;
  return "evaluated on the " + samples + " test samples" + shares +
         "; data.validation = 0.1 would hold out training samples instead";
}

/// Adds the data set, its sparsity (Ω, Δ and ρ) if it was computed, and the samples that are evaluated.
void describe_data(page& page, const plan& plan) {
  page.line("data", data_text(plan));
  if (const auto& sparsity = plan.facts.sparsity) {
    page.more("at most Ω = " + grouped(static_cast<std::uint64_t>(sparsity->omega)) + " nonzeros per sample (" +
              human_number(sparsity->mean_nonzeros) + " on average)");
    page.more("the most frequent column is in Δ = " + human_number(sparsity->delta) +
              " of the samples; one sample has columns in common with ρ " + (sparsity->rho_is_exact ? "= " : "≥ ") +
              human_number(sparsity->rho) + " of them");
  }
  if (!plan.facts.class_counts.empty()) describe_classes(page, plan);
  if (plan.file.data.random_windows.value_or(false))
    page.more("training windows begin anywhere in the text, at positions drawn anew in each epoch");
  if (plan.sampling.pad && plan.sampling.samples % plan.workers != 0)
    page.more("each epoch is padded to " +
              grouped(plan.workers * static_cast<std::uint64_t>(data::share_of(plan.sampling))) +
              " samples, a multiple of the number of workers");
  if (plan.facts.evaluated > 0) page.more(evaluated_text(plan));
}

std::string steps_text(const plan& plan) {
  auto text = counted(plan.steps, "step");
  const auto epochs = static_cast<double>(plan.steps) / static_cast<double>(plan.steps_per_epoch);
  text += " (" + human_number(epochs, 3) + (epochs == 1 ? " epoch of " : " epochs of ") +
          grouped(plan.steps_per_epoch) + ")";
  if (plan.draws_from_queue()) text += " on average over the workers";
  return text + ", evaluated " +
         (plan.when.evaluate_every >= plan.steps
              ? "at the end"
              : "every " + counted(plan.when.evaluate_every, "step") + " and at the end") +
         (plan.file.evaluate.each_worker ? ", with each worker's own parameters too" : "") +
         (plan.file.evaluate.pause_training ? ", while the workers wait" : "");
}

std::string checkpoint_text(const plan& plan) {
  const auto keep = static_cast<std::uint64_t>(plan.file.checkpoint.keep);
  return "every " + counted(plan.when.checkpoint_every, "step") + "; the newest " +
         (keep == 1 ? "one is kept" : grouped(keep) + " are kept") +
         (plan.keeps_copies(1) ? ", with copies on node " + plan.nodes[1].name : "");
}

/// Returns "device auto" if all workers compute on the CPU, or else the devices.
std::string device_text(const plan& plan) {
  const auto& given = plan.file.workers.device;
  const auto off_the_cpu =
      std::any_of(plan.devices.begin(), plan.devices.end(), [](auto device) { return !device.is_cpu(); });
  if (!off_the_cpu) return "device " + (given.size() == 1 ? given.front() : "cpu");
  return "on " + devices_text(plan.devices);
}

std::string workers_text(const plan& plan) {
  const auto batch = static_cast<std::uint64_t>(plan.sampling.batch_size);
  const auto& sizes = plan.sampling.sizes;
  if (!sizes.empty()) {
    std::vector<std::string> numbers;
    for (const auto size : sizes) numbers.push_back(grouped(static_cast<std::uint64_t>(size)));
    return grouped(plan.workers) + " with batches of " + text::listed(numbers, "and") + " = " +
           counted(static_cast<std::uint64_t>(data::samples_per_step(plan.sampling)), "sample") + " per step, " +
           device_text(plan) + ", " + counted(static_cast<std::uint64_t>(plan.file.run.threads), "thread") + " each";
  }
  const auto micro =
      plan.micro_batches > 1 ? " (in " + std::to_string(plan.micro_batches) + " micro-batches)" : std::string();
  const auto last = static_cast<std::uint64_t>(data::last_batch_size(plan.sampling));
  const auto last_step =
      last < batch ? " (" + grouped(plan.workers * last) + " in the last step of an epoch)" : std::string();
  return grouped(plan.workers) + " × batch " + grouped(batch) + micro + " = " +
         counted(plan.workers * batch, "sample") + " per step" + last_step + ", " + device_text(plan) + ", " +
         counted(static_cast<std::uint64_t>(plan.file.run.threads), "thread") + " each";
}

/// Returns "worker 3" or "workers 0 to 2".
std::string ranks_text(const planned_node& node) {
  const auto first = std::to_string(node.first_rank);
  return node.workers == 1 ? "worker " + first
                           : "workers " + first + " to " + std::to_string(node.first_rank + node.workers - 1);
}

/// Adds the placement of the workers, and the traffic between processes.
void describe_nodes(page& page, const plan& plan) {
  if (plan.nodes.front().name.empty()) return;
  std::string label = "nodes";
  for (const auto& node : plan.nodes) {
    auto text = node.name + ", " + print_endpoint(node.address) + ": " + ranks_text(node);
    if (node.listen != node.address) text += ", listening on " + print_endpoint(node.listen);
    if (&node == &plan.nodes.front())
      text +=
          (plan.servers() > 0 ? "; " + counted(plan.servers(), "server") : "") + "; evaluator, coordinator, recorder";
    page.line(std::exchange(label, ""), text);
  }
  if (const auto carrier = plan.control_carrier(); !carrier.empty())
    page.more(std::string("control messages between nodes: ") + (carrier == "caf" ? "CAF" : "frames"));
  if (plan.exchanges.empty()) return;
  const auto crossing = plan.between_nodes();
  if (crossing.edges == 0) {
    page.more("between nodes: no tensors");
    return;
  }
  page.more("between nodes: " + mean_count(crossing.messages, "message") + " and " +
            human_bytes(rounded(crossing.bytes)) + " of tensors per step, over " + counted(crossing.edges, "edge"));
}

/// Returns the names of the exchanges that are not deterministic.
std::vector<std::string> asynchronous(const plan& plan) {
  std::vector<std::string> names;
  for (const auto& exchange : plan.exchanges)
    if (!exchange.nature.deterministic) names.push_back(exchange.name);
  return names;
}

/// Returns the number of actors and their kinds: "…: 3 workers, each with a compute actor and 2 ports; …".
std::string actors_text(const plan& plan) {
  const bool all_in_all = std::all_of(plan.exchanges.begin(), plan.exchanges.end(), [&](const auto& exchange) {
    return exchange.nature.in_loop && exchange.ranks().size() == plan.workers;
  });
  auto text = grouped(plan.actors.size()) + ": " + counted(plan.workers, "worker") +
              (plan.workers == 1 ? " with a compute actor" : ", each with a compute actor");
  if (!plan.exchanges.empty() && !(plan.memory_of(0) && plan.stores().size() == plan.exchanges.size()))
    text += all_in_all ? " and " + counted(plan.exchanges.size(), "port")
                       : " and a port for each exchange that it takes part in";
  if (plan.servers() > 0) text += "; " + counted(plan.servers(), "server");
  return text + "; evaluator, coordinator, recorder";
}

void describe_promise(page& page, const plan& plan) {
  if (const auto names = asynchronous(plan); !names.empty()) {
    const auto remote = std::all_of(plan.exchanges.begin(), plan.exchanges.end(), [](const auto& exchange) {
      return exchange.nature.deterministic || exchange.nature.is_elsewhere();
    });
    const auto which = "no: the exchange " + text::joined(text::in_quotes(names), ", ");
    page.line("same bits", which + (remote              ? " has its rule in another program, which decides"
                                    : plan.memory_of(0) ? " is written concurrently by its workers, so runs differ"
                                                        : " merges updates in order of arrival, so runs differ"));
    return;
  }
  if (!plan.draws_elsewhere.empty()) {
    page.line("same bits", "no: the run draws random numbers (" + text::joined(plan.draws_elsewhere, ", ") +
                               ") that do not depend on run.seed");
    return;
  }
  if (plan.file.run.max_seconds) {
    page.line("same bits", "no: run.max_seconds may end the run after a different number of steps each time");
    return;
  }
  if (!plan.promises_bits()) {
    const auto own = std::find_if(plan.exchanges.begin(), plan.exchanges.end(),
                                  [](const auto& exchange) { return !exchange.nature.sums_by.empty(); });
    page.line("same bits", "no: " +
                               (own == plan.exchanges.end() ? devices_text(plan.devices)
                                                            : own->name + " (" + own->nature.sums_by + ")") +
                               " may sum in a different order from run to run");
    return;
  }
  page.line("same bits", "yes: another run of this file writes the same weights, bit for bit, with the same LibTorch");
  page.more("and model of processor" +
            std::string(plan.exchanges.empty() ? "" : "; the topology fixes the order of all sums"));
}

}  // namespace

void page::line(const std::string& label, const std::string& text) {
  constexpr std::size_t column = 12;
  text_ += "  " + label + std::string(column - std::min(column, label.size()), ' ') + text + '\n';
}

std::string mean_count(double count, const std::string& noun) {
  if (count == std::floor(count) || count >= 100) return counted(rounded(count), noun);
  return human_number(count, 3) + " " + noun + "s";
}

std::pair<std::int64_t, std::int64_t> classes_seen(const plan& plan) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const auto& counts : plan.facts.class_counts) {
    const auto seen = std::count_if(counts.begin(), counts.end(), [](auto count) { return count > 0; });
    least = std::min<std::int64_t>(least, seen);
    most = std::max<std::int64_t>(most, seen);
  }
  return {least, most};
}

std::uint64_t rounded(double number) {
  return static_cast<std::uint64_t>(std::llround(number));
}

std::string result_text(const plan& plan) {
  const auto stores = plan.stores();
  if (plan.workers == 1 && stores.empty()) return "worker 0's parameters";
  const auto compared =
      plan.when.verify_every > 0 ? ", compared every " + counted(plan.when.verify_every, "step") : std::string();
  std::string text = plan.replicas_agree() ? "worker 0's parameters; all workers agree" + compared
                                           : "the average of all workers' parameters";
  if (const auto until = plan.replicas_agree_until(); until > 0 && !plan.replicas_agree())
    text += "; up to step " + grouped(until) + " all workers agree" + compared;
  if (!stores.empty() && !stores.front()->nature.in_loop)
    text = stores.size() > 1 ? "the average of the shared memories" : "the shared memory";
  else if (!stores.empty())
    text = std::string(stores.front()->nature.servers > 1 ? "the servers' parameters" : "the server's parameters") +
           (plan.exchanges.size() > 1 ? " (exchange " + stores.front()->name + ")" : "");
  if (plan.workers == 1 || plan.buffers_agree()) return text;
  return text + (plan.file.evaluate.buffers == "first" ? ", with worker 0's running statistics"
                                                       : ", and the average of the workers' running statistics");
}

std::string describe(const plan& plan) {
  page page;
  page.line("model", model_text(plan));
  describe_data(page, plan);
  page.line("run", steps_text(plan) + ", seed " + std::to_string(plan.file.run.seed));
  if (plan.when.checkpoint_every > 0) page.line("checkpoints", checkpoint_text(plan));
  page.line("workers", workers_text(plan));
  if (const auto& slowdown = plan.file.workers.slowdown; !slowdown.empty())
    page.line("slowdown",
              slowdown.size() == 1 ? human_number(slowdown.front()) + " for each worker" : numbers(slowdown));
  page.line("loop", text::joined(plan.file.workers.loop, " → "));
  page.line("optimizer", optimizer_text(plan));
  for (const auto& exchange : plan.exchanges) describe_exchange(page, plan, exchange);
  std::string label = "links";
  for (const auto& link : plan.links) page.line(std::exchange(label, ""), describe(link));
  label = "faults";
  for (const auto& fault : plan.faults) page.line(std::exchange(label, ""), describe(fault));
  label = "note";
  for (const auto& note : plan.notes) page.line(std::exchange(label, ""), note);
  label = "warning";
  for (const auto& warning : plan.warnings) page.line(std::exchange(label, ""), warning);
  page.line("result", result_text(plan));
  page.line("actors", actors_text(plan));
  describe_nodes(page, plan);
  describe_promise(page, plan);
  return (plan.file.file.empty() ? "" : plan.file.file.string() + "\n") + std::move(page).text();
}

}  // namespace troupe

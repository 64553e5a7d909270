// Describes a plan, as text for people and as JSON for programs.
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Beyond this many, edges are summed up instead of listed.
constexpr std::size_t edges_listed_max = 16;
/// Of members, groups and servers, so many are named.
constexpr std::size_t named_max = 16;
/// Members of a mixing matrix that is printed, for people and for programs.
constexpr std::size_t matrix_printed_max = 10, matrix_in_json_max = 64;
/// Of a setting that is a list of lists, so many are shown.
constexpr std::size_t lists_shown_max = 4;

/// At most four decimals, and none that says nothing.
std::string short_number(double number) {
  return human_number(std::round(number * 1e4) / 1e4);
}

std::string plural(std::uint64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> words;
  for (const auto value : values) words.push_back(human_number(value));
  return topology::joined(words, ", ");
}

std::string text_of(bool on) {
  return on ? "true" : "false";
}
std::string text_of(std::int64_t number) {
  return std::to_string(number);
}
std::string text_of(double number) {
  return human_number(number);
}
std::string text_of(const std::string& text) {
  return text;
}

template <class Element>
std::string text_of(const std::vector<Element>& list) {
  std::vector<std::string> words;
  for (const auto& each : list) words.push_back(text_of(each));
  return "[" + topology::joined(words, ", ") + "]";
}

template <class Element>
std::string text_of(const std::vector<std::vector<Element>>& lists) {
  if (lists.size() > lists_shown_max) return "a list of " + grouped(lists.size()) + " lists";
  std::vector<std::string> words;
  for (const auto& each : lists) words.push_back(text_of(each));
  return "[" + topology::joined(words, ", ") + "]";
}

std::string text_of(const setting_value& value) {
  return std::visit([](const auto& plain) { return text_of(plain); }, value);
}

/// A label and what belongs to it; further lines are indented to the same column.
class page {
 public:
  void line(const std::string& label, const std::string& text) {
    constexpr std::size_t column = 12;
    text_ += "  " + label + std::string(column - std::min(column, label.size()), ' ') + text + '\n';
  }
  void more(const std::string& text) { line("", text); }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string loss_text(models::loss_kind loss) {
  switch (loss) {
    case models::loss_kind::cross_entropy:
      return "cross-entropy";
    case models::loss_kind::nll:
      return "negative log-likelihood";
    case models::loss_kind::binary_cross_entropy:
      return "binary cross-entropy";
    case models::loss_kind::hinge:
      return "hinge loss";
    case models::loss_kind::mse:
      return "squared error";
  }
  return {};
}

std::string model_text(const plan& plan) {
  return plan.model->name + ", " + plural(static_cast<std::uint64_t>(plan.layout.parameter_count), "parameter") +
         " in " + plural(plan.layout.parameters.size(), "tensor") + " (" +
         human_bytes(static_cast<std::uint64_t>(plan.layout.parameter_end) * sizeof(float)) + " with padding), " +
         loss_text(plan.loss) +
         (plan.shape.normal && plan.file.model.init.empty()
              ? ", initial weights with standard deviation " + human_number(plan.shape.normal->deviation)
              : "");
}

/// What the extents of a sample that is no image count.
std::string of_what(const plan& plan) {
  const bool one = plan.shape.input.size() == 1;
  switch (plan.facts.kind) {
    case models::sample_kind::sparse:
      return one ? " columns" : " (users × items)";
    case models::sample_kind::characters:
      return " positions";
    default:
      return one ? " features" : "";
  }
}

std::string data_text(const plan& plan) {
  std::vector<std::string> shape;
  for (const auto size : plan.shape.input) shape.push_back(grouped(static_cast<std::uint64_t>(size)));
  const auto samples = plan.data->name + ", " +
                       plural(static_cast<std::uint64_t>(plan.sampling.samples), "training sample") + " of " +
                       topology::joined(shape, "×");
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

/// How many classes a worker sees, at least and at most.
std::pair<std::int64_t, std::int64_t> classes_seen(const plan& plan) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const auto& counts : plan.facts.class_counts) {
    const auto seen = std::count_if(counts.begin(), counts.end(), [](auto count) { return count > 0; });
    least = std::min<std::int64_t>(least, seen);
    most = std::max<std::int64_t>(most, seen);
  }
  return {least, most};
}

/// "each worker sees 1 to 3 of 10 classes".
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

/// Which samples loss and accuracy are of.
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

/// Ω, Δ and ρ, where they were worked out, and what is evaluated where that is not a set of its own.
void describe_data(page& page, const plan& plan) {
  page.line("data", data_text(plan));
  if (const auto& found = plan.facts.sparsity) {
    page.more("at most Ω = " + grouped(static_cast<std::uint64_t>(found->omega)) + " nonzeros per sample (" +
              human_number(found->mean_nonzeros) + " on average)");
    page.more("the most frequent column is in Δ = " + human_number(found->delta) +
              " of the samples; one sample has columns in common with ρ " + (found->rho_is_exact ? "= " : "≥ ") +
              human_number(found->rho) + " of them");
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
  auto text = plural(plan.steps, "step");
  const auto epochs = static_cast<double>(plan.steps) / static_cast<double>(plan.steps_per_epoch);
  text += " (" + human_number(epochs, 3) + (epochs == 1 ? " epoch of " : " epochs of ") +
          grouped(plan.steps_per_epoch) + ")";
  if (plan.draws_from_queue()) text += " on average over the workers";
  return text + ", evaluated " +
         (plan.evaluate_every >= plan.steps ? "at the end"
                                            : "every " + plural(plan.evaluate_every, "step") + " and at the end") +
         (plan.file.evaluate.each_worker ? ", with each worker's own parameters too" : "") +
         (plan.file.evaluate.pause_training ? ", while the workers wait" : "");
}

/// "device auto" where it is the CPU for all, else who computes where.
std::string device_text(const plan& plan) {
  const auto& given = plan.file.workers.device;
  const auto off_the_cpu =
      std::any_of(plan.devices.begin(), plan.devices.end(), [](auto one) { return !one.is_cpu(); });
  if (!off_the_cpu) return "device " + (given.size() == 1 ? given.front() : "cpu");
  return "on " + devices_text(plan.devices);
}

std::string workers_text(const plan& plan) {
  const auto batch = static_cast<std::uint64_t>(plan.sampling.batch_size);
  const auto micro =
      plan.micro_batches > 1 ? " (in " + std::to_string(plan.micro_batches) + " micro-batches)" : std::string();
  const auto last = static_cast<std::uint64_t>(data::last_batch_size(plan.sampling));
  const auto last_step =
      last < batch ? " (" + grouped(plan.workers * last) + " in the last step of an epoch)" : std::string();
  return grouped(plan.workers) + " × batch " + grouped(batch) + micro + " = " + plural(plan.workers * batch, "sample") +
         " per step" + last_step + ", " + device_text(plan) + ", " +
         plural(static_cast<std::uint64_t>(plan.file.run.threads), "thread") + " each";
}

std::uint64_t rounded(double number) {
  return static_cast<std::uint64_t>(std::llround(number));
}

/// Returns the messages and bytes of one exchange, on average if its edges change.
std::pair<std::uint64_t, std::uint64_t> messages_and_bytes(const std::vector<planned_edge>& edges) {
  double messages = 0, bytes = 0;
  for (const auto& edge : edges) {
    messages += edge.used * static_cast<double>(edge.messages);
    bytes += edge.used * static_cast<double>(edge.bytes);
  }
  return {rounded(messages), rounded(bytes)};
}

/// Returns ", in 33.3 % of the exchanges" if not every exchange uses the edge.
std::string used_text(const planned_edge& edge) {
  return edge.used == 1 ? "" : ", in " + human_number(std::round(1000 * edge.used) / 10) + " % of the exchanges";
}

std::string name_of_id(const plan& plan, const planned_exchange& exchange, std::uint32_t id) {
  return id < plan.workers ? "worker " + std::to_string(id) : "server " + std::to_string(id - exchange.first_server);
}

/// "workers 0, 1 and 5".
std::string workers_named(const std::vector<std::uint32_t>& ranks) {
  if (ranks.size() > named_max) return plural(ranks.size(), "worker");
  std::string text = ranks.size() == 1 ? "worker " : "workers ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ") + std::to_string(ranks[i]);
  return text;
}

/// Who takes part, where it is not every worker for himself.
void describe_members(page& page, const plan& plan, const planned_exchange& exchange) {
  if (!exchange.has_groups()) {
    if (exchange.members.size() < plan.workers) page.more("among " + workers_named(exchange.ranks()));
    return;
  }
  if (exchange.members.size() > named_max) {
    page.more("among " + plural(exchange.members.size(), "member") +
              "; each group is led by its worker of lowest rank");
    return;
  }
  for (const auto& one : exchange.members)
    page.more("member " + one.name + ": " + workers_named(one.ranks) +
              (one.ranks.size() > 1 ? ", led by worker " + std::to_string(one.ranks.front()) : ""));
}

void describe_servers(page& page, const plan& plan, const planned_exchange& exchange) {
  const auto servers = exchange.nature.servers;
  if (servers == 0) return;
  if (exchange.nature.memory) return page.more(human_bytes(exchange.bytes_held(0)) + " of shared memory, no messages");
  std::vector<std::string> held;
  for (std::uint32_t i = 0; i < servers; ++i) held.push_back(human_bytes(exchange.bytes_held(i)));
  const auto& node = plan.nodes.front().name;
  page.more(plural(servers, "server") + (node.empty() ? "" : " on " + node) +
            (held.size() > named_max ? "" : ", holding " + topology::listed(held, "and")));
}

/// Returns W(i,j) for all i and j.
std::vector<std::vector<double>> dense(const rules::mixing_matrix& mixing) {
  std::vector<std::vector<double>> rows(mixing.rows.size(), std::vector<double>(mixing.rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const auto& [index, weight] : mixing.rows[i]) rows[i][index] = weight;
  return rows;
}

/// The contraction says something of its own only where W is not normal.
std::string rates_text(const rules::mixing_rates& rates) {
  constexpr double same = 1e-6;
  const auto gap = "spectral gap of W: " + human_number(rates.gap);
  if (std::abs(rates.contraction - (1 - rates.gap)) <= same) return gap;
  return gap + " (asymptotic); one exchange multiplies the distance to the mean by at most " +
         human_number(rates.contraction);
}

void describe_mixing(page& page, const planned_exchange& exchange) {
  const auto mixing = exchange.mixing();
  if (!mixing) return;
  if (const auto rates = rules::rates_of(*mixing)) page.more(rates_text(*rates));
  if (mixing->rows.size() > matrix_printed_max) return;
  std::string label = "W = ";
  for (const auto& row : dense(*mixing)) {
    std::string line;
    for (const auto weight : row) {
      const auto text = short_number(weight);
      line += text + std::string(8 - text.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    page.more(std::exchange(label, "    ") + line);
  }
}

void describe_exchange(page& page, const plan& plan, const planned_exchange& exchange) {
  std::vector<std::string> words{
      exchange.kind->name,
      exchange.of_norms
          ? "sends the batch statistics of " + plural(exchange.buckets.size() / 2, "layer") + " and their gradients"
      : exchange.nature.memory
          ? std::string("holds the parameters of its workers, which read and write them concurrently")
          : "sends the " + name_of(exchange.carries.sends)};
  if (!exchange.of_norms && exchange.buckets.size() > 1)
    words.back() += " in " + std::to_string(exchange.buckets.size()) + " buckets";
  if (exchange.carries.answers != exchange.carries.sends)
    words.push_back("answers with the " + name_of(exchange.carries.answers));
  if (exchange.due.every > 1) words.push_back("every " + plural(exchange.due.every, "step"));
  for (const auto& [name, value] : exchange.settings) words.push_back(name + " = " + text_of(value));
  page.line(exchange.name, topology::joined(words, ", "));
  describe_members(page, plan, exchange);
  describe_servers(page, plan, exchange);
  describe_mixing(page, exchange);
  if (exchange.nature.memory) return;
  const auto [messages, bytes] = messages_and_bytes(exchange.edges);
  page.more(plural(messages, "message") + " and " + human_bytes(bytes) + " of tensors " +
            (exchange.due.every > 1 ? "per exchange" : "per step") + ", over " + plural(exchange.edges.size(), "edge"));
  if (exchange.edges.size() > edges_listed_max) {
    const auto by_bytes = [](const planned_edge& a, const planned_edge& b) { return a.bytes < b.bytes; };
    const auto [least, most] = std::minmax_element(exchange.edges.begin(), exchange.edges.end(), by_bytes);
    const auto low = human_bytes(least->bytes), high = human_bytes(most->bytes);
    page.more((low == high ? low : low + " to " + high) + " per edge");
    return;
  }
  for (const auto& edge : exchange.edges)
    page.more(name_of_id(plan, exchange, edge.from) + " → " + name_of_id(plan, exchange, edge.to) + "   " +
              plural(edge.messages, "message") + ", " + human_bytes(edge.bytes) + used_text(edge) +
              (plan.crosses(edge) ? ", from " + plan.nodes[plan.node_of(edge.from)].name + " to " +
                                        plan.nodes[plan.node_of(edge.to)].name
                                  : ""));
}

/// Who runs where, and what goes from one process to another.
void describe_nodes(page& page, const plan& plan) {
  if (plan.nodes.front().name.empty()) return;
  std::string label = "nodes";
  for (const auto& node : plan.nodes) {
    auto text = node.name + ", " + print_endpoint(node.address) + ": " + ranks_text(node);
    if (node.listen != node.address) text += ", listening on " + print_endpoint(node.listen);
    if (&node == &plan.nodes.front())
      text +=
          (plan.servers() > 0 ? "; " + plural(plan.servers(), "server") : "") + "; evaluator, coordinator, recorder";
    page.line(std::exchange(label, ""), text);
  }
  if (plan.exchanges.empty()) return;
  const auto crossing = plan.between_nodes();
  if (crossing.edges == 0) {
    page.more("between nodes: no tensors");
    return;
  }
  page.more("between nodes: " + plural(rounded(crossing.messages), "message") + " and " +
            human_bytes(rounded(crossing.bytes)) + " of tensors per step, over " + plural(crossing.edges, "edge"));
}

/// The exchanges of the plan that are not deterministic, by name.
std::vector<std::string> asynchronous(const plan& plan) {
  std::vector<std::string> names;
  for (const auto& exchange : plan.exchanges)
    if (!exchange.nature.deterministic) names.push_back(exchange.name);
  return names;
}

/// What is evaluated and saved.
std::string result_text(const plan& plan) {
  const auto stores = plan.stores();
  if (plan.workers == 1 && stores.empty()) return "worker 0's parameters";
  std::string text =
      plan.replicas_agree() ? "worker 0's parameters; all workers agree" : "the average of all workers' parameters";
  if (!stores.empty() && stores.front()->nature.memory)
    text = stores.size() > 1 ? "the average of the shared memories" : "the shared memory";
  else if (!stores.empty())
    text = std::string(stores.front()->nature.servers > 1 ? "the servers' parameters" : "the server's parameters") +
           (plan.exchanges.size() > 1 ? " (exchange " + stores.front()->name + ")" : "");
  if (plan.workers == 1 || plan.buffers_agree()) return text;
  return text + (plan.file.evaluate.buffers == "first" ? ", with worker 0's running statistics"
                                                       : ", and the average of the workers' running statistics");
}

/// "3 workers, each with a compute actor and a port for each exchange; …".
std::string actors_text(const plan& plan) {
  const bool all_in_all = std::all_of(plan.exchanges.begin(), plan.exchanges.end(), [&](const auto& one) {
    return !one.nature.memory && one.ranks().size() == plan.workers;
  });
  auto text = grouped(plan.actors.size()) + ": " + plural(plan.workers, "worker") +
              (plan.workers == 1 ? " with a compute actor" : ", each with a compute actor");
  if (!plan.exchanges.empty() && !(plan.memory_of(0) && plan.stores().size() == plan.exchanges.size()))
    text += all_in_all ? " and " + plural(plan.exchanges.size(), "port")
                       : " and a port for each exchange that it takes part in";
  if (plan.servers() > 0) text += "; " + plural(plan.servers(), "server");
  return text + "; evaluator, coordinator, recorder";
}

void describe_promise(page& page, const plan& plan) {
  if (const auto names = asynchronous(plan); !names.empty()) {
    const auto shared = plan.memory_of(0) != nullptr;
    const auto which = "no: the exchange " + topology::joined(topology::in_quotes(names), ", ");
    page.line("same bits", which + (shared ? " is written concurrently by its workers, so runs differ"
                                           : " merges updates in order of arrival, so runs differ"));
    return;
  }
  if (!plan.draws_elsewhere.empty()) {
    page.line("same bits", "no: the script draws its own random numbers (" +
                               topology::joined(plan.draws_elsewhere, ", ") + "), which do not depend on run.seed");
    return;
  }
  if (!plan.promises_bits()) {
    const auto own = std::find_if(plan.exchanges.begin(), plan.exchanges.end(),
                                  [](const auto& one) { return one.nature.on_devices; });
    page.line("same bits", "no: " + (own == plan.exchanges.end() ? devices_text(plan.devices) : own->name + " (NCCL)") +
                               " may sum in a different order from run to run");
    return;
  }
  page.line("same bits", "yes: another run of this file writes the same weights, bit for bit, with the same LibTorch");
  page.more("and instruction set" +
            std::string(plan.exchanges.empty() ? "" : "; the topology fixes the order of all sums"));
}

}  // namespace

std::string ranks_text(const planned_node& node) {
  const auto first = std::to_string(node.first_rank);
  return node.workers == 1 ? "worker " + first
                           : "workers " + first + " to " + std::to_string(node.first_rank + node.workers - 1);
}

std::string describe(const plan& plan) {
  page page;
  page.line("model", model_text(plan));
  describe_data(page, plan);
  page.line("run", steps_text(plan) + ", seed " + std::to_string(plan.file.run.seed));
  page.line("workers", workers_text(plan));
  page.line("loop", topology::joined(plan.file.workers.loop, " → "));
  page.line("optimizer", optimizer_text(plan));
  for (const auto& exchange : plan.exchanges) describe_exchange(page, plan, exchange);
  std::string label = "note";
  for (const auto& note : plan.notes) page.line(std::exchange(label, ""), note);
  label = "warning";
  for (const auto& warning : plan.warnings) page.line(std::exchange(label, ""), warning);
  page.line("result", result_text(plan));
  page.line("actors", actors_text(plan));
  describe_nodes(page, plan);
  describe_promise(page, plan);
  return (plan.file.file.empty() ? "" : plan.file.file.string() + "\n") + std::move(page).text();
}

namespace {

using json = nlohmann::ordered_json;

json whole_if_it_is(double number) {
  return number == std::floor(number) ? json(rounded(number)) : json(number);
}

json json_of(const plan& plan, const planned_exchange& exchange) {
  json settings = json::object();
  for (const auto& [name, value] : exchange.settings)
    settings[name] = std::visit([](const auto& plain) { return json(plain); }, value);
  json members = json::array();
  for (const auto& one : exchange.members) members.push_back({{"name", one.name}, {"workers", one.ranks}});
  json servers = json::array();
  for (std::uint32_t i = 0; i < exchange.nature.servers; ++i)
    servers.push_back({{"id", exchange.first_server + i},
                       {"node", plan.node_of(exchange.first_server + i)},
                       {"bytes", exchange.bytes_held(i)}});
  json edges = json::array();
  for (const auto& edge : exchange.edges)
    edges.push_back({{"from", edge.from},
                     {"to", edge.to},
                     {"messages", edge.messages},
                     {"bytes", edge.bytes},
                     {"used", edge.used}});
  const auto mixing = exchange.mixing();
  const auto rates = mixing ? rules::rates_of(*mixing) : std::nullopt;
  const bool shown = mixing && mixing->rows.size() <= matrix_in_json_max;
  return {{"name", exchange.name},
          {"kind", exchange.kind->name},
          {"sends", name_of(exchange.carries.sends)},
          {"answers", name_of(exchange.carries.answers)},
          {"every", exchange.due.every},
          {"members", members},
          {"servers", servers},
          {"settings", settings},
          {"mixing_matrix", shown ? json(dense(*mixing)) : json()},
          {"spectral_gap", rates ? json(rates->gap) : json()},
          {"contraction", rates ? json(rates->contraction) : json()},
          {"edges", edges}};
}

json evaluated_of(const plan& plan) {
  const auto& facts = plan.facts;
  if (facts.evaluated == 0) return {};
  return {{"set", facts.evaluates_training   ? "training"
                  : facts.evaluates_held_out ? "held_out"
                                             : "test"},
          {"samples", facts.evaluated},
          {"shares", evaluation_of(plan).shares},
          {"drop_last", plan.file.evaluate.drop_last}};
}

json classes_of_a_worker(const plan& plan) {
  if (plan.facts.class_counts.empty()) return {};
  const auto [least, most] = classes_seen(plan);
  return {{"least", least}, {"most", most}, {"samples", plan.facts.class_counts}};
}

json sparsity_of(const plan& plan) {
  const auto& found = plan.facts.sparsity;
  if (!found) return {};
  return {{"omega", found->omega},
          {"delta", found->delta},
          {"rho", found->rho},
          {"rho_is_exact", found->rho_is_exact},
          {"mean_nonzeros", found->mean_nonzeros}};
}

}  // namespace

std::string describe_json(const plan& plan) {
  json actors = json::array();
  for (const auto& actor : plan.actors) actors.push_back({{"name", actor.name}, {"node", actor.node}});
  json devices = json::array();
  for (const auto& each : plan.devices) devices.push_back(each.str());
  json nodes = json::array();
  for (const auto& node : plan.nodes) {
    json entry{{"name", node.name}};
    if (!node.name.empty()) {
      entry["address"] = print_endpoint(node.address);
      entry["listen"] = print_endpoint(node.listen);
    }
    entry["first_rank"] = node.first_rank;
    entry["workers"] = node.workers;
    nodes.push_back(entry);
  }
  const auto crossing = plan.between_nodes();
  json exchanges = json::array();
  for (const auto& exchange : plan.exchanges) exchanges.push_back(json_of(plan, exchange));
  const json object{{"file", plan.file.file.string()},
                    {"model", plan.model->name},
                    {"parameters", plan.layout.parameter_count},
                    {"data", plan.data->name},
                    {"training_samples", plan.sampling.samples},
                    {"evaluated", evaluated_of(plan)},
                    {"classes_of_a_worker", classes_of_a_worker(plan)},
                    {"sparsity", sparsity_of(plan)},
                    {"mean", plan.scale.mean},
                    {"std", plan.scale.std},
                    {"workers", plan.workers},
                    {"batch_size", plan.sampling.batch_size},
                    {"devices", devices},
                    {"loop", plan.file.workers.loop},
                    {"steps_per_epoch", plan.steps_per_epoch},
                    {"steps", plan.steps},
                    {"budget", plan.file.run.budget},
                    {"evaluate_every", plan.evaluate_every},
                    {"messages_per_step", whole_if_it_is(plan.messages_per_step())},
                    {"bytes_per_step", whole_if_it_is(plan.bytes_per_step())},
                    {"messages_between_nodes_per_step", whole_if_it_is(crossing.messages)},
                    {"bytes_between_nodes_per_step", whole_if_it_is(crossing.bytes)},
                    {"result", result_text(plan)},
                    {"same_bits", plan.promises_bits()},
                    {"notes", plan.notes},
                    {"warnings", plan.warnings},
                    {"exchanges", exchanges},
                    {"nodes", nodes},
                    {"actors", actors}};
  return object.dump(2);
}

}  // namespace troupe

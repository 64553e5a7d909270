#include "troupe/algorithms/exchange/gossip/gossip_graph.hpp"

#include "troupe/algorithms/support/number.hpp"

#include <algorithm>
#include <map>

namespace troupe {

namespace {

using matrix = std::vector<std::vector<double>>;
using pairs = std::vector<std::vector<std::string>>;

[[noreturn]] void refuse(const std::string& key, const std::string& text) {
  throw unfit_setting(complaint{.key = key, .text = text});
}

std::vector<graph_with_weights>& registered_graphs() {
  static std::vector<graph_with_weights> all;
  return all;
}

const graph_with_weights* find_registered(const std::string& name) {
  for (const auto& graph : registered_graphs())
    if (graph.name == name) return &graph;
  return nullptr;
}

template <class T>
const T* find(const setting_values& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? nullptr : std::get_if<T>(&found->second);
}

std::string counted(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " member" : " members");
}

std::string graph_name(const setting_values& settings) {
  const auto* name = find<std::string>(settings, "graph");
  return name ? *name : "ring";
}

/// Refuses settings that cannot be combined. A name, a list of edges or a matrix defines the graph. Each numeric
/// setting belongs to one name.
void check_combination(const setting_values& settings) {
  const bool named = settings.contains("graph");
  const bool listed = settings.contains("edges");
  const bool written = find<matrix>(settings, "weights") != nullptr;
  if (listed && named)
    refuse("edges", "edges and graph cannot be combined, because both define the graph; remove one of them");
  if (written && named)
    refuse("weights",
           "a matrix of weights and graph cannot be combined, because both define the graph; remove one of them");
  if (written && listed)
    refuse("weights",
           "a matrix of weights and edges cannot be combined, because both define the graph; remove one of them");
  const std::string graph = listed ? "" : written ? "" : graph_name(settings);
  for (const auto& [key, owner] : {std::pair{"rows", "torus"},
                                   {"columns", "torus"},
                                   {"degree", "random_regular"},
                                   {"graph_seed", "random_regular"}}) {
    if (settings.contains(key) && graph != owner)
      refuse(key, std::string(key) + " is used only when graph = \"" + owner + "\"; set graph = \"" + owner +
                      "\", or remove the key");
  }
}

/// Returns rows and columns that are as close to each other as possible, as an example for a message.
std::string example_of_torus(std::uint32_t n) {
  std::uint32_t rows = 1;
  for (std::uint32_t i = 1; i * i <= n; ++i)
    if (n % i == 0) rows = i;
  return "such as rows = " + std::to_string(rows) + " and columns = " + std::to_string(n / rows);
}

rules::graph torus_of(std::uint32_t n, const setting_values& settings) {
  for (const auto* key : {"rows", "columns"})
    if (!settings.contains(key))
      refuse(key, std::string("a torus of ") + counted(n) + " requires " + key + "; expected both rows and columns, " +
                      example_of_torus(n));
  const auto rows = *find<std::int64_t>(settings, "rows");
  const auto columns = *find<std::int64_t>(settings, "columns");
  if (rows < 1 || columns < 1 || rows > n || columns > n || rows * columns != n)
    refuse("rows", "a torus of " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                       " columns does not fit " + counted(n) + "; expected their product to be " + std::to_string(n) +
                       ", " + example_of_torus(n));
  return rules::torus_graph(static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns));
}

/// Refuses a graph with more edges than a plan can hold: as many as 4,096 members have that all hear each other.
void check_edges(std::uint32_t n, std::uint64_t of_each, const char* key) {
  constexpr std::uint64_t most = 4096 * 4095;
  if (n * of_each <= most) return;
  refuse(key, "the graph would have " + std::to_string(n) + " × " + std::to_string(of_each) +
                  " edges; expected at most " + std::to_string(most) +
                  ", such as graph = \"ring\", \"torus\" or \"exponential\"");
}

rules::graph random_regular_of(std::uint32_t n, const setting_values& settings) {
  const auto* degree = find<std::int64_t>(settings, "degree");
  if (!degree)
    refuse("degree", "a random_regular graph requires degree; expected the number of neighbours of each member");
  if (*degree < 0 || *degree >= n)
    refuse("degree", "degree is " + std::to_string(*degree) + ", but each of " + counted(n) + " has only " +
                         std::to_string(n - 1) + " others; expected a degree of at most " + std::to_string(n - 1));
  if (*degree * n % 2 != 0)
    refuse("degree", counted(n) + " cannot have " + std::to_string(*degree) +
                         " neighbours each; use an even degree, or an even number of members");
  if (!rules::has_regular_graph(n, static_cast<std::uint32_t>(*degree)))
    refuse("degree", "a degree of " + std::to_string(*degree) + " cannot connect " + counted(n) +
                         "; expected a degree of at least " + (n == 2 ? "1" : "2"));
  check_edges(n, static_cast<std::uint64_t>(*degree), "degree");
  const auto* seed = find<std::int64_t>(settings, "graph_seed");
  return rules::random_regular_graph(n, static_cast<std::uint32_t>(*degree),
                                     static_cast<std::uint64_t>(seed ? *seed : 0));
}

rules::graph graph_of_pairs(const std::vector<std::string>& names, const pairs& edges) {
  std::map<std::string, std::uint32_t> index;
  for (std::uint32_t i = 0; i < names.size(); ++i) index.emplace(names[i], i);
  const auto index_of = [&](const std::string& name) {
    const auto found = index.find(name);
    if (found == index.end())
      refuse("edges", "edges name \"" + name + "\", which is not a member; expected names from \"" + names.front() +
                          "\" to \"" + names.back() + "\"");
    return found->second;
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
  for (const auto& ends : edges) {
    if (ends.size() != 2)
      refuse("edges", "an edge has " + std::to_string(ends.size()) + " entries; expected the names of two members");
    result.emplace_back(index_of(ends[0]), index_of(ends[1]));
    if (ends[0] == ends[1])
      refuse("edges", "an edge goes from \"" + ends[0] + "\" to itself; expected two different members");
  }
  return rules::graph_of_edges(static_cast<std::uint32_t>(names.size()), result);
}

rules::graph complete_of(std::uint32_t n, const setting_values& /*settings*/) {
  if (n > 1) check_edges(n, n - 1, "graph");
  return rules::complete_graph(n);
}

template <rules::graph (*make)(std::uint32_t)>
rules::graph sized(std::uint32_t n, const setting_values& /*settings*/) {
  return make(n);
}

/// A graph that does not change; its weights are a setting.
struct named_graph {
  const char* name;
  rules::graph (*make)(std::uint32_t n, const setting_values& settings);
};

constexpr named_graph named_graphs[]{{"ring", sized<rules::ring_graph>},
                                     {"line", sized<rules::line_graph>},
                                     {"torus", torus_of},
                                     {"star", sized<rules::star_graph>},
                                     {"complete", complete_of},
                                     {"exponential", sized<rules::exponential_graph>},
                                     {"random_regular", random_regular_of}};

rules::graph graph_called(const std::string& name, std::uint32_t n, const setting_values& settings) {
  for (const auto& graph : named_graphs)
    if (graph.name == name) return graph.make(n, settings);
  refuse("graph", "unknown graph \"" + name + "\"; expected one of the graphs shown by `troupe list exchanges`");
}

rules::mixing_matrix written_matrix(std::size_t n, const matrix& rows) {
  if (rows.size() != n)
    refuse("weights", "the matrix of weights has " + std::to_string(rows.size()) +
                          (rows.size() == 1 ? " row" : " rows") + ", but there " + (n == 1 ? "is " : "are ") +
                          counted(n) + "; expected one row for each member");
  for (const auto& row : rows) {
    if (row.size() != n)
      refuse("weights", "a row of weights has " + std::to_string(row.size()) +
                            (row.size() == 1 ? " number" : " numbers") + "; expected " + std::to_string(n) +
                            ", one for each member");
    for (const auto weight : row)
      if (!(weight >= 0))
        refuse("weights",
               "the matrix of weights contains " + short_number(weight) + "; expected numbers of at least 0");
  }
  return rules::matrix_of(rows);
}

rules::mixing_matrix weighted_graph(const rules::graph& wires, const std::vector<std::string>& names,
                                    const setting_values& settings) {
  const auto* weights = find<std::string>(settings, "weights");
  if (!weights || *weights == "metropolis") return rules::metropolis_weights(wires);
  if (const auto unequal = rules::unequal_members(wires)) {
    const auto neighbours = [&](std::uint32_t node) {
      return "\"" + names[node] + "\" has " + std::to_string(wires.hears[node].size());
    };
    refuse("weights",
           "uniform weights require that all members have the same number of neighbours (otherwise the mean drifts), "
           "but " +
               neighbours(unequal->first) + " and " + neighbours(unequal->second) +
               "; expected weights = \"metropolis\"");
  }
  return rules::uniform_weights(wires);
}

/// Refuses a periodic W, which has a spectral gap of 0. Only a matrix in the settings can be periodic: all other W give
/// each member's own parameters a positive weight.
void check_period(const rules::mixing_schedule& schedule) {
  const auto* mixing = schedule.constant();
  const auto period = mixing ? rules::period_of(*mixing) : 1;
  if (period == 1) return;
  refuse("weights",
         "with these weights, the members swap their parameters in cycles of " + std::to_string(period) +
             " exchanges and never agree (the spectral gap of W is 0); expected at least one positive number on the "
             "diagonal of the matrix");
}

std::vector<std::string> choices_of_graph() {
  std::vector<std::string> choices;
  for (const auto& graph : named_graphs) choices.emplace_back(graph.name);
  for (const auto& graph : registered_graphs()) choices.push_back(graph.name);
  return choices;
}

std::string explanations_of_registered() {
  std::string text;
  for (const auto& graph : registered_graphs()) text += " \"" + graph.name + "\": " + graph.explanation;
  return text;
}

setting count(const std::string& name, double minimum, double maximum, const std::string& explanation) {
  return {.name = name,
          .type = setting_type::integer,
          .default_text = "",
          .explanation = explanation,
          .minimum = minimum,
          .maximum = maximum};
}

}  // namespace

std::vector<std::string> names_by_index(std::size_t n) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back("w" + std::to_string(i));
  return names;
}

setting_values graph_by_index(const std::vector<std::string>& names, const setting_values& settings) {
  auto result = settings;
  const auto edges = result.find("edges");
  if (edges == result.end()) return result;
  std::map<std::string, std::string> called;
  for (std::size_t i = 0; i < names.size(); ++i) called.emplace(names[i], "w" + std::to_string(i));
  for (auto& ends : std::get<pairs>(edges->second))
    for (auto& end : ends) end = called.at(end);
  return result;
}

std::optional<complaint> check_graph(const std::vector<std::string>& names, const setting_values& settings) {
  try {
    check_period(mixing_of(names, settings));
  } catch (const unfit_setting& problem) {
    return problem.why;
  }
  return std::nullopt;
}

std::vector<setting> gossip_settings() {
  constexpr double most = 1'000'000;
  return {
      {.name = "graph",
       .type = setting_type::choice,
       .default_text = "",
       .explanation = "Graph that determines from which members each member receives parameters. Defaults to \"ring\". "
                      "\"torus\" requires rows and columns; \"random_regular\" requires degree. \"exponential\" is "
                      "directed: member i receives from i − 1, i − 2, i − 4, … mod n." +
                      explanations_of_registered(),
       .choices = choices_of_graph()},
      {.name = "weights",
       .type = setting_type::choice_or_matrix,
       .default_text = "\"metropolis\"",
       .explanation = "Weights with which members mix parameters. \"metropolis\" gives a neighbour 1/(1 + the larger "
                      "number of neighbours of the two), and the member itself the rest. \"uniform\" gives each "
                      "neighbour 1/(1 + neighbours); it requires a graph whose members all have the same number of "
                      "neighbours, on which it gives the same weights as \"metropolis\". A matrix gives the weights "
                      "directly and replaces the graph: row i, column j is the weight of member j's parameters in "
                      "member i's mixture. Its rows and columns must sum to 1.",
       .choices = {"metropolis", "uniform"},
       .minimum = 0},
      {.name = "edges",
       .type = setting_type::pairs,
       .default_text = "",
       .explanation = "Pairs of members that receive each other's parameters. Cannot be combined with graph or with a "
                      "matrix of weights."},
      count("rows", 1, most,
            "Number of rows of the torus; members are numbered along the rows. Used only when graph = \"torus\", which "
            "requires it."),
      count("columns", 1, most, "Number of columns of the torus. Used only when graph = \"torus\", which requires it."),
      count("degree", 0, most - 1,
            "Number of neighbours of each member. Used only when graph = \"random_regular\", which requires it."),
      {.name = "graph_seed",
       .type = setting_type::integer,
       .default_text = "",
       .explanation = "Seed from which the random graph is drawn. Used only when graph = \"random_regular\", where it "
                      "defaults to 0.",
       .minimum = 0},
      buffers_setting()};
}

setting_values with_graph(std::uint32_t, setting_values settings) {
  if (settings.contains("edges") || find<matrix>(settings, "weights")) return settings;
  const auto name = graph_name(settings);
  settings.try_emplace("graph", name);
  if (name == "random_regular") settings.try_emplace("graph_seed", std::int64_t{0});
  return settings;
}

bool mixes_the_same(const setting_values& settings) {
  const auto* rows = find<matrix>(settings, "weights");
  if (!rows) return !settings.contains("edges") && graph_name(settings) == "complete";
  const auto as_first = [&](const auto& row) { return row == rows->front(); };
  return std::all_of(rows->begin(), rows->end(), as_first);
}

void register_graph(graph_with_weights graph) {
  const auto taken = choices_of_graph();
  if (std::find(taken.begin(), taken.end(), graph.name) != taken.end())
    throw std::invalid_argument("there is a graph \"" + graph.name + "\" already");
  registered_graphs().push_back(std::move(graph));
}

rules::mixing_schedule mixing_of(const std::vector<std::string>& names, const setting_values& settings,
                                 rules::stochastic required) {
  check_combination(settings);
  const auto* rows = find<matrix>(settings, "weights");
  const auto* edges = find<pairs>(settings, "edges");
  const auto n = static_cast<std::uint32_t>(names.size());
  const auto* registered = rows || edges ? nullptr : find_registered(graph_name(settings));
  if (registered && find<std::string>(settings, "weights") && *find<std::string>(settings, "weights") != "metropolis")
    refuse("weights", "graph = \"" + registered->name + "\" has weights of its own; remove the key");
  const auto constant = [&] {
    if (rows) return written_matrix(names.size(), *rows);
    return weighted_graph(edges ? graph_of_pairs(names, *edges) : graph_called(graph_name(settings), n, settings),
                          names, settings);
  };
  auto schedule = registered ? registered->make(n) : rules::mixing_schedule{{constant()}};
  for (const auto& mixing : schedule.period())
    if (const auto uneven = rules::first_uneven(mixing, required))
      refuse("weights", std::string("the ") + (uneven->of_row ? "row" : "column") + " of \"" + names[uneven->index] +
                            "\" in the matrix of weights sums to " + short_number(uneven->sum) + "; expected every " +
                            (required == rules::stochastic::doubly ? "row and every column" : "column") +
                            " to sum to 1");
  if (const auto apart = rules::unconnected_members(schedule.graph()))
    refuse(rows    ? "weights"
           : edges ? "edges"
                   : "graph",
           "nothing from \"" + names[apart->first] + "\" ever reaches \"" + names[apart->second] +
               "\"; expected all members to be connected");
  return schedule;
}

}  // namespace troupe

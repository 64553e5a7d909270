#include "troupe/actors/exchange/gossip.hpp"

#include "troupe/actors/exchange/chunks.hpp"
#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/actors/support/number.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

using matrix = std::vector<std::vector<double>>;
using pairs = std::vector<std::vector<std::string>>;

// Settings to W. ---------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& key, const std::string& text) {
  throw unfit_setting(complaint{.key = key, .text = text});
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

/// One of three decides the graph: its name, a list of edges, or a matrix. The numbers go with some names only.
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
      refuse(key, std::string(key) + " is used only when graph = \"" + owner + "\"; use that graph, or remove the key");
  }
}

/// Returns rows and columns near each other, as an example of what is asked for.
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

rules::graph named_graph(std::uint32_t n, const setting_values& settings) {
  const auto name = graph_name(settings);
  if (name == "ring") return rules::ring_graph(n);
  if (name == "line") return rules::line_graph(n);
  if (name == "torus") return torus_of(n, settings);
  if (name == "star") return rules::star_graph(n);
  if (name == "complete") return rules::complete_graph(n);
  if (name == "exponential") return rules::exponential_graph(n);
  if (name == "random_regular") return random_regular_of(n, settings);
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
  if (const auto unequal = rules::unequal_nodes(wires)) {
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

/// What members are called where no names are known: w0, w1, …
std::vector<std::string> names_by_index(std::size_t n) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back("w" + std::to_string(i));
  return names;
}

setting_values by_index(const std::vector<std::string>& names, const setting_values& settings) {
  auto result = settings;
  const auto edges = result.find("edges");
  if (edges == result.end()) return result;
  std::map<std::string, std::string> called;
  for (std::size_t i = 0; i < names.size(); ++i) called.emplace(names[i], "w" + std::to_string(i));
  for (auto& ends : std::get<pairs>(edges->second))
    for (auto& end : ends) end = called.at(end);
  return result;
}

/// A periodic W has a spectral gap of 0. Only a written one can be: the others give every member a weight of its own.
void check_period(const rules::mixing_matrix& mixing) {
  const auto period = rules::period_of(mixing);
  if (period == 1) return;
  refuse("weights",
         "with these weights, the members swap their parameters in cycles of " + std::to_string(period) +
             " exchanges and never agree (the spectral gap of W is 0); expected at least one positive number on the "
             "diagonal of the matrix");
}

std::optional<complaint> check(const std::vector<std::string>& names, const setting_values& settings) {
  try {
    check_period(mixing_of(names, settings));
  } catch (const unfit_setting& problem) {
    return problem.why;
  }
  return std::nullopt;
}

// Members. ---------------------------------------------------------------------------------------------------------

class gossip_member final : public member {
 public:
  explicit gossip_member(port_options options)
      : options_(std::move(options)),
        chunks_(cut_in_chunks(options_, 1)),
        me_(static_cast<std::uint32_t>(options_.rank)) {
    const auto n = options_.world_size;
    const auto mixing = mixing_of(names_by_index(n), options_.settings);
    const auto wires = rules::graph_of(mixing);
    mixed_ = mixing.rows[me_];
    const auto distances = rules::distances_from(wires, me_);
    for (const auto heard : wires.hears[me_]) ahead_ = std::max<std::uint64_t>(ahead_, distances[heard]);
    for (std::uint32_t i = 1; i < n; ++i) {  // from the next on, so that not all send to the same one first
      const auto other = (me_ + i) % n;
      if (std::binary_search(wires.hears[other].begin(), wires.hears[other].end(), me_)) hearers_.push_back(other);
    }
  }

  void contribute(const part& own, outbox& out) override {
    auto& now = at(own.origin.step);
    if (std::exchange(now.contributed, true))
      throw exchange_error(errc::stale, "a member contributed to the same step twice");
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto piece = cut(own, chunks_, chunk);
      for (const auto hearer : hearers_) out.send(rank_id{hearer}, piece);
    }
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto piece = cut(own, chunks_, chunk);
      if (const auto place = place_of(me_)) keep(now.folds[chunk], *place, piece);
      mix_if_complete(now, piece, out);
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_.ranges);
    const auto sender = static_cast<std::uint32_t>(piece.origin.sender);
    const auto place = place_of(sender);
    if (piece.at != stage::contribution || piece.what != slot::parameters || sender == me_ || !place)
      throw exchange_error(errc::mismatch, "a gossip member received a part that is not the parameters of a neighbour");
    auto& now = at(piece.origin.step);
    keep(now.folds[piece.which.part], *place, piece);
    mix_if_complete(now, piece, out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    const auto found = steps_.find(step);
    std::vector<std::uint32_t> missing;
    if (found == steps_.end() || !found->second.contributed) missing.push_back(me_);
    for (std::size_t place = 0; place < mixed_.size(); ++place) {
      const auto has = [&](const fold& each) { return each.came[place]; };
      const bool all =
          found != steps_.end() && std::all_of(found->second.folds.begin(), found->second.folds.end(), has);
      if (!all && mixed_[place].index != me_) missing.push_back(mixed_[place].index);
    }
    std::sort(missing.begin(), missing.end());
    std::vector<rank_id> result;
    for (const auto index : missing) result.push_back(rank_id{index});
    return result;
  }

  std::int64_t largest_fold() const override { return chunks_.largest() * static_cast<std::int64_t>(mixed_.size()); }

  void forget_before(std::uint64_t step) override { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }

  std::uint64_t steps_ahead() const override { return ahead_; }

 private:
  /// Of one chunk: what has come of those that are mixed, by their place in the row of W.
  struct fold {
    std::vector<rules::weighted> summands;  ///< Empty once they are mixed.
    std::vector<bool> came;
  };

  struct progress {
    bool contributed{false};
    std::vector<fold> folds;  ///< By chunk.
  };

  progress& at(std::uint64_t step) {
    if (const auto found = steps_.find(step); found != steps_.end()) return found->second;
    const fold none{std::vector<rules::weighted>(mixed_.size()), std::vector<bool>(mixed_.size())};
    return steps_.emplace(step, progress{.folds = std::vector<fold>(chunks_.ranges.size(), none)}).first->second;
  }

  /// Returns where in the row of W `index` stands, or nothing where it has no weight.
  std::optional<std::size_t> place_of(std::uint32_t index) const {
    const auto before = [](const rules::neighbour& each, std::uint32_t value) { return each.index < value; };
    const auto found = std::lower_bound(mixed_.begin(), mixed_.end(), index, before);
    if (found == mixed_.end() || found->index != index) return std::nullopt;
    return static_cast<std::size_t>(found - mixed_.begin());
  }

  void keep(fold& into, std::size_t place, const part& piece) const {
    if (into.came[place])
      throw exchange_error(errc::stale, "chunk " + std::to_string(piece.which.part) + " of rank " +
                                            std::to_string(mixed_[place].index) + " arrived twice in one step");
    into.came[place] = true;
    into.summands[place] = {piece.piece.values, mixed_[place].weight};
  }

  /// Answers the chunk of `piece` when all that is mixed into it has come, and the own contribution, mixed or not.
  void mix_if_complete(progress& now, const part& piece, outbox& out) {
    auto& fold = now.folds[piece.which.part];
    const bool complete = std::find(fold.came.begin(), fold.came.end(), false) == fold.came.end();
    if (!now.contributed || !complete) return;
    part result = piece;
    result.origin.sender = options_.rank;
    result.what = slot::parameters;
    result.at = stage::result;
    result.piece.values = rules::mix_in_order(std::exchange(fold.summands, {}), options_.pool);
    result.sample_count = 1;
    out.answer(result);
  }

  port_options options_;
  chunking chunks_;
  std::uint32_t me_;
  std::vector<rules::neighbour> mixed_;  ///< The own row of W.
  std::vector<std::uint32_t> hearers_;   ///< Whom the own parameters go to.
  std::uint64_t ahead_{1};
  std::map<std::uint64_t, progress> steps_;
};

// The kind. --------------------------------------------------------------------------------------------------------

std::vector<planned_edge> gossip_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                       const setting_values& settings) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  const auto wires = rules::graph_of(mixing_of(names_by_index(world_size), settings));
  std::vector<planned_edge> edges;
  for (std::uint32_t to = 0; to < world_size; ++to)
    for (const auto from : wires.hears[to]) edges.push_back({from, to, 1, bytes});
  std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) {
    return std::pair{a.from, a.to} < std::pair{b.from, b.to};
  });
  return edges;
}

exchange_nature gossip_nature(const setting_values& settings) {
  const auto* rows = find<matrix>(settings, "weights");
  if (!rows) return {.same_for_all = !settings.contains("edges") && graph_name(settings) == "complete"};
  const auto as_first = [&](const auto& row) { return row == rows->front(); };
  return {.same_for_all = std::all_of(rows->begin(), rows->end(), as_first)};
}

setting count(const std::string& name, double minimum, double maximum, const std::string& explanation) {
  return {.name = name,
          .type = setting_type::integer,
          .default_text = "",
          .explanation = explanation,
          .minimum = minimum,
          .maximum = maximum};
}

std::vector<setting> gossip_settings() {
  constexpr double most = 4096;
  return {
      {.name = "graph",
       .type = setting_type::choice,
       .default_text = "",
       .explanation = "Graph that determines from which members each member receives parameters. Defaults to \"ring\". "
                      "\"torus\" requires rows and columns; \"random_regular\" requires degree. \"exponential\" is "
                      "directed: member i receives from i − 1, i − 2, i − 4, … mod n.",
       .choices = {"ring", "line", "torus", "star", "complete", "exponential", "random_regular"}},
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

/// The graph is by default a ring, drawn by seed 0 where it is random.
setting_values with_graph(std::uint32_t, setting_values settings) {
  if (settings.contains("edges") || find<matrix>(settings, "weights")) return settings;
  const auto name = graph_name(settings);
  settings.try_emplace("graph", name);
  if (name == "random_regular") settings.try_emplace("graph_seed", std::int64_t{0});
  return settings;
}

exchange_facts gossip_facts() {
  return {.equation =
              "xᵢ ← Σⱼ W(i,j) xⱼ over i and its neighbours j; then xᵢ ← xᵢ − γ gᵢ, where gᵢ is the gradient at the xᵢ "
              "before the exchange",
          .picture =
              "w0 ⇄ w1 ⇄ w2\n"
              " ⇅         ⇅\n"
              "w5 ⇄ w4 ⇄ w3",
          .variants = {
              {.messages = "one for each direction of an edge: 2n on a ring, n(n − 1) on a complete graph",
               .bytes = "P for each message: 2nP on a ring",
               .synchronisation = "each member waits only for its neighbours; two members are at most as many "
                                  "exchanges apart as there are edges on the shortest path between them",
               .staleness = "0",
               .equals = "D-PSGD in PyTorch, to 1e-5; the mean of all parameters is preserved; on a complete graph, a "
                         "step followed by the exchange equals all_reduce of the gradients, to 1e-5, if the optimizer "
                         "is linear in the gradient (SGD with or without momentum; not Adam, NovoGrad or clipping)",
               .shown_by = {"tests/parity/wirings.py", "tests/parity/steps.py", "tests/simulation/averaging_test.cpp",
                            "tests/unit/actors/mixing_test.cpp", "tests/unit/actors/gossip_test.cpp"}}}};
}

}  // namespace

rules::mixing_matrix mixing_of(const std::vector<std::string>& names, const setting_values& settings) {
  check_combination(settings);
  const auto* rows = find<matrix>(settings, "weights");
  const auto* edges = find<pairs>(settings, "edges");
  const auto n = static_cast<std::uint32_t>(names.size());
  const auto mixing =
      rows ? written_matrix(names.size(), *rows)
           : weighted_graph(edges ? graph_of_pairs(names, *edges) : named_graph(n, settings), names, settings);
  if (const auto uneven = rules::first_uneven(mixing))
    refuse("weights", std::string("the ") + (uneven->of_row ? "row" : "column") + " of \"" + names[uneven->index] +
                          "\" in the matrix of weights sums to " + short_number(uneven->sum) +
                          "; expected every row and every column to sum to 1");
  if (const auto apart = rules::unconnected_nodes(rules::graph_of(mixing)))
    refuse(rows ? "weights" : "edges", "nothing from \"" + names[apart->first] + "\" ever reaches \"" +
                                           names[apart->second] + "\"; expected all members to be connected");
  return mixing;
}

exchange_kind gossip_kind() {
  return {
      .name = "gossip",
      .explanation = "Each member mixes its parameters with those of its neighbours on a graph.",
      .source = "Lian et al. 2017, \"Can decentralized algorithms outperform centralized algorithms?\", Algorithm 1",
      .carries = {{.sends = slot::parameters, .answers = slot::parameters}},
      .settings = gossip_settings(),
      .make_member = [](const port_options& options) { return std::make_unique<gossip_member>(options); },
      .edges = gossip_edges,
      .nature = gossip_nature,
      .derive = with_graph,
      .check = check,
      .by_index = by_index,
      .mixing = mixing_of,
      .facts = gossip_facts(),
  };
}

}  // namespace troupe

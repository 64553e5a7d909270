#include "troupe/algorithms/exchange/servers/parameter_server.hpp"

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/servers/serving.hpp"
#include "troupe/algorithms/exchange/servers/shards.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// A worker's side: cuts the gradient into the servers' shards and forwards their answers.
class server_client final : public serving::served_client {
 public:
  explicit server_client(const member_options& options)
      : server_client(options, parameter_server::cut_of(options.layout, options.settings),
                      parameter_server::rule_of(options.settings).apply == parameter_server::applies::first) {}

  /// Returns nothing if the worker may skip steps: receive() then checks the steps of answers.
  std::optional<std::uint64_t> steps_ahead() const override {
    return may_refuse_ ? std::nullopt : member::steps_ahead();
  }

  state_dict state() const override {
    state_dict state;
    state.put_counts("versions", versions());
    return state;
  }

 private:
  /// `may_refuse`: a gradient may be refused. A gradient that is several steps late is refused although its version is
  /// current, and its answer has the same version again.
  server_client(const member_options& options, const std::vector<range>& cut, bool may_refuse)
      : served_client(options, {.cut = cut,
                                .versions = options.restored ? options.restored->counts("versions", cut.size())
                                                             : std::vector<std::uint64_t>(cut.size()),
                                .may_repeat_version = may_refuse}),
        may_refuse_(may_refuse) {}

  /// Sets the step at which the worker continues. If gradients may be refused, that is the server's open step, because
  /// each step then makes one version.
  part answer_from(const part& piece) override {
    auto answer = piece;
    answer.origin.version = may_refuse_ ? std::max(piece.origin.version, step() + 1) : step() + 1;
    return answer;
  }

  bool may_refuse_;
};

std::unique_ptr<member> make_server_side(const member_options& options) {
  if (options.among.is_server()) return parameter_server::make_shard(options);
  return std::make_unique<server_client>(options);
}

std::vector<planned_edge> server_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                       const setting_values& settings) {
  const auto cut = parameter_server::cut_of(layout, settings);
  std::vector<planned_edge> edges;
  for (std::uint32_t worker = 0; worker < world_size; ++worker) {
    for (std::uint32_t shard = 0; shard < cut.size(); ++shard) {
      const auto bytes = static_cast<std::uint64_t>(cut[shard].count) * sizeof(float);
      const auto server = world_size + shard;
      edges.push_back({worker, server, 1, bytes});
      edges.push_back(
          {.from = server, .to = worker, .messages = 1, .bytes = bytes, .holds = edge_holds::server_answers});
    }
  }
  return edges;
}

exchange_nature server_nature(const setting_values& settings) {
  const auto rule = parameter_server::rule_of(settings);
  const auto all = rule.apply == parameter_server::applies::all;
  return {.deterministic = all,
          .same_for_all = all,
          .waits_for_others = rule.apply != parameter_server::applies::each || rule.staleness_bound,
          .servers = parameter_server::shards_of(settings)};
}

std::optional<complaint> check_server(const std::vector<std::string>& names, const setting_values& settings) {
  const auto has = [&](const char* key) { return settings.contains(key); };
  const auto& apply = std::get<std::string>(settings.at("apply"));
  if (has("staleness_bound") && apply != "each")
    return complaint{"staleness_bound", "a bound on the staleness has no effect with apply = \"" + apply +
                                            "\"; set apply = \"each\", or remove the key"};
  if (has("first") && apply != "first")
    return complaint{"first", "the number of gradients to wait for has no effect with apply = \"" + apply +
                                  "\"; set apply = \"first\", or remove the key"};
  if (apply != "first") return {};
  const auto n = static_cast<std::int64_t>(names.size());
  if (!has("first"))
    return complaint{"apply",
                     "apply = \"first\" requires the number of gradients to wait for; set first to a number "
                     "from 1 to " +
                         std::to_string(n)};
  if (std::get<std::int64_t>(settings.at("first")) > n)
    return complaint{"first", "the exchange has only " + std::to_string(n) + " members; use a number from 1 to " +
                                  std::to_string(n)};
  if (parameter_server::shards_of(settings) > 1)
    return complaint{"shards",
                     "with apply = \"first\", several servers could apply the gradients of different "
                     "workers; use shards = 1"};
  return {};
}

}  // namespace

exchange_kind parameter_server_kind() {
  return {
      .name = "parameter_server",
      .explanation = "Servers hold the parameters, apply the workers' gradients and return the new parameters.",
      .source =
          "Li et al. 2014 (OSDI), \"Scaling Distributed Machine Learning with the Parameter Server\"; "
          "asynchronous: Dean et al. 2012 (NIPS), \"Large Scale Distributed Deep Networks\", section 4.1; bounded "
          "staleness: Ho et al. 2013 (NIPS), \"More Effective Distributed ML via a Stale Synchronous Parallel "
          "Parameter "
          "Server\"; backup workers: Chen et al. 2016, \"Revisiting Distributed Synchronous SGD\", section 3.2",
      .carries = {{.sends = slot::gradient, .answers = slot::parameters}},
      .settings = {{.name = "apply",
                    .type = setting_type::choice,
                    .default_text = "\"all\"",
                    .explanation =
                        "When a server updates the parameters: \"all\" waits for the gradients of all workers and "
                        "applies their mean; \"first\" applies the mean of the first gradients of each version, as "
                        "many as `first` says, and refuses later ones (backup workers); \"each\" applies each "
                        "gradient as it arrives (asynchronous SGD).",
                    .choices = {"all", "first", "each"}},
                   {.name = "first",
                    .type = setting_type::integer,
                    .default_text = "",
                    .explanation = "Number of gradients that make an update with apply = \"first\". The other workers "
                                   "are backup workers: gradients that arrive later are refused, counted as "
                                   "gradients_refused in the metrics, and answered with the new parameters. A worker "
                                   "that is late by several steps continues with the present one, if the loop has no "
                                   "other exchange. The run makes as many updates as it has steps.",
                    .minimum = 1,
                    .maximum = 4096},
                   {.name = "staleness_bound",
                    .type = setting_type::integer,
                    .default_text = "",
                    .explanation = "Number of steps that a worker may be ahead of the slowest one with apply = "
                                   "\"each\" (stale synchronous parallel): a worker that is further ahead waits for "
                                   "its answer. 0 makes all workers begin each step together. By default, no worker "
                                   "waits for another.",
                    .minimum = 0,
                    .maximum = 1e9},
                   {.name = "shards",
                    .type = setting_type::integer,
                    .default_text = "1",
                    .explanation = "Number of servers that share the parameters. Each holds whole parameters of about "
                                   "the same total size; servers beyond the number of parameters hold nothing. More "
                                   "than one cannot be combined with optimizer.clip_norm or with novograd.",
                    .minimum = 1,
                    .maximum = 64}},
      .make_member = make_server_side,
      .edges = server_edges,
      .nature = server_nature,
      .check = check_server,
  };
}

}  // namespace troupe

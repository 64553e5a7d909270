// The rules of constraints.hpp that concern one exchange.
#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/constraints.hpp"
#include "troupe/runtime/topology/members.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/validate_exchanges.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <vector>

namespace troupe::topology {
namespace {

/// Checks an exchange of `workers` workers that applies the update.
void check_update(const topology& file, std::size_t index, std::size_t workers, const refusal& refuse) {
  const exchange_settings& exchange = file.exchanges[index];
  const std::string path = table_path("exchange", index);
  const auto all_workers = static_cast<std::size_t>(file.workers.count);
  if (workers < all_workers)
    refuse(path + ".members", to_toml(exchange.kind) + " applies the updates of its members only, and " +
                                  std::to_string(all_workers - workers) +
                                  " of the workers would never be updated; expected all workers");
  const auto must_be_left_out = [&](bool is_given, const std::string& key) {
    if (is_given)
      refuse(path + "." + key,
             to_toml(exchange.kind) + " applies the update and must run in every step; remove the key");
  };
  if (exchange.every != interval{1, false})
    refuse(path + ".every",
           to_toml(exchange.kind) + " applies the update and must run in every step; use every = 1, or remove the key");
  must_be_left_out(exchange.from.has_value(), "from");
  must_be_left_out(exchange.until.has_value(), "until");
}

/// Checks an optimizer whose update needs more than the part that each of several servers has.
void check_sharded_update(const topology& file, const exchange_settings& exchange, const refusal& refuse) {
  if (file.optimizer.clip_norm)
    refuse("optimizer.clip_norm", "optimizer.clip_norm needs the whole gradient, but each server of " +
                                      to_toml(exchange.name) +
                                      " has only a part of it; use shards = 1, or remove the key");
  const optimizer_kind* step = find_optimizer(file.optimizer.name);
  if (step != nullptr && step->by_layer)
    refuse("optimizer.name", to_toml(step->name) + " treats each layer as a whole, but each server of " +
                                 to_toml(exchange.name) +
                                 " has only a part of the parameters; use shards = 1, or another optimizer");
}

/// Checks settings that apply only to what the exchange does not send.
void check_slot(const std::string& path, const exchange_settings& exchange, slot sends, const refusal& refuse) {
  if (sends != slot::gradient && sends_buckets(exchange.options))
    refuse(path + ".send", "send sets how a gradient is sent, but this exchange sends " + name_of(sends) +
                               "; use sends = \"gradient\", or remove the key");
  if (sends != slot::parameters && mixes_buffers(exchange.options))
    refuse(path + ".buffers",
           "buffers = \"mix\" requires sends = \"parameters\", but this exchange sends the gradient; set sends = "
           "\"parameters\", or remove buffers (model.sync_batch_norm = true keeps batch-norm statistics equal "
           "without it)");
}

/// Checks that an outer optimizer gets the mean of parameters.
void check_outer(const std::string& path, const exchange_settings& exchange, slot sends, const refusal& refuse) {
  if (sends != slot::parameters && outer_of(exchange.options).rule != outer_rule::none)
    refuse(path + ".outer", "outer acts on the mean of parameters, but this exchange sends the " + name_of(sends) +
                                "; set sends = \"parameters\", or remove outer");
}

/// Checks that fragments of parameters are averaged.
void check_streaming(const std::string& path, const exchange_settings& exchange, slot sends, const refusal& refuse) {
  const streaming how = streaming_of(exchange.options);
  if (!how.is_used()) return;
  const std::string key = how.fragments > 1 ? "fragments" : how.delay > 0 ? "delay" : "mix";
  if (sends != slot::parameters)
    refuse(path + "." + key, key + " acts on the mean of parameters, but this exchange sends the " + name_of(sends) +
                                 "; set sends = \"parameters\", or remove " + key);
  if (mixes_buffers(exchange.options))
    refuse(path + ".buffers", "buffers = \"mix\" averages all buffers at once, but " + key +
                                  " averages parts of the parameters at different times; remove buffers");
  if (exchange.growth)
    refuse(path + ".growth", "growth changes the interval, on which " + key + " relies; remove growth");
}

/// Checks that what begins at the initial parameters begins with the run.
void check_from(const std::string& path, const exchange_settings& exchange, slot sends, const refusal& refuse) {
  if (sends != slot::parameters || !exchange.from) return;
  const bool has_outer = outer_of(exchange.options).rule != outer_rule::none;
  if (has_outer || exchange.encoding != encoding_names().front())
    refuse(path + ".from",
           std::string(has_outer ? "an outer optimizer" : "an encoding of parameters") +
               " begins at the initial parameters, which the workers have left by then; remove from, or " +
               (has_outer ? "outer" : "encoding"));
}

/// Checks that intervals can grow.
void check_growth(const topology& file, const std::string& path, const exchange_settings& exchange, slot sends,
                  const refusal& refuse) {
  if (!exchange.growth) return;
  if (sends != slot::parameters)
    refuse(path + ".growth", "growth sets when parameters are averaged, but this exchange sends the " + name_of(sends) +
                                 "; set sends = \"parameters\", or remove growth");
  if (file.optimizer.schedule == "constant")
    refuse(path + ".growth",
           "growth has no effect, because the learning rate does not fall; set optimizer.schedule, such as "
           "\"cosine\", or remove growth");
}

/// Checks that an encoding fits the way in which contributions travel.
void check_route(const std::string& path, const exchange_settings& exchange, const exchange_kind& kind,
                 const codec_nature& codec, const refusal& refuse) {
  const sends_as sent = nature_of(kind, exchange.options).sent;
  const bool is_sparse = codec.block == 0;
  if (codec.block == 1 || codec.same_places || codec.takes_rank || sent == sends_as::whole ||
      (sent == sends_as::shards && !is_sparse))
    return;
  const std::string reason = sent == sends_as::shards ? "sparse values cannot be cut into shards of equal size"
                             : is_sparse              ? "partial sums of sparse values are dense"
                                                      : "partial sums would be rounded again at every hop";
  refuse(path + ".route", "encoding = " + to_toml(exchange.encoding) + " does not fit this route: " + reason +
                              "; use route = " + to_toml(is_sparse ? "auto" : "direct"));
}

/// Checks the settings of an encoding.
void check_codec(const topology& file, const std::string& path, const exchange_settings& exchange,
                 const codec_nature& codec, const refusal& refuse) {
  const std::string encoding = "encoding = " + to_toml(exchange.encoding);
  if (codec.takes_ratio && !exchange.ratio)
    refuse(path + ".encoding", encoding + " needs the share of the parameters that is sent; set ratio, such as 0.01");
  if (!codec.takes_ratio && exchange.ratio)
    refuse(path + ".ratio", "ratio has no effect with " + encoding + ", which sends all values; remove the key");
  if (codec.takes_rank && !exchange.rank)
    refuse(path + ".encoding", encoding + " needs the rank of the approximations; set rank, such as 2");
  if (!codec.takes_rank && exchange.rank)
    refuse(path + ".rank", "rank has no effect with " + encoding + "; use encoding = \"powersgd\", or remove the key");
  if (!codec.by_magnitude && exchange.ratio_warm_up)
    refuse(path + ".ratio_warm_up", "ratio_warm_up has no effect with " + encoding + "; remove the key");
  const bool feedback = exchange.feedback.value_or(codec.feedback);
  if (codec.requires_feedback && !feedback)
    refuse(path + ".feedback", encoding + " needs feedback, without which training fails; remove the key");
  if (exchange.momentum_correction == 0) return;
  const std::string correction = path + ".momentum_correction";
  if (!codec.by_magnitude || !feedback)
    refuse(correction,
           "momentum_correction acts on values that are not sent at once; use it with encoding = "
           "\"top_k\" and feedback, or remove the key");
  if (file.optimizer.momentum > 0)
    refuse(correction, "momentum_correction takes the place of optimizer.momentum; set momentum = 0");
}

/// Returns why parameters that are not averaged cannot be encoded.
std::string why_not_mixed(const exchange_kind& kind) {
  const bool can_send_differences = std::any_of(kind.settings.begin(), kind.settings.end(),
                                                [](const setting& row) { return row.name == "consensus_rate"; });
  if (can_send_differences)
    return ": a mixture of rounded parameters does not preserve their mean; set consensus_rate (CHOCO-SGD), such as 1 "
           "for "
           "\"bf16\", 0.3 for \"int8\", \"int4\" and \"sign\", or 0.1 for top_k of 1 %, or remove encoding";
  return " would round the parameters themselves, so that small steps are lost, and " + to_toml(kind.name) +
         " has no form with compressed parameters; remove the key";
}

/// Checks the encoding of what the exchange sends.
void check_encoding(const topology& file, const std::string& path, const exchange_settings& exchange,
                    const exchange_kind& kind, const carriage& carried, const refusal& refuse) {
  if (exchange.encoding == encoding_names().front()) {
    const auto without = [&](bool is_given, const std::string& key) {
      if (is_given)
        refuse(path + "." + key,
               key + " belongs to an encoding, but messages are float32; set encoding, or remove " + key);
    };
    without(exchange.ratio.has_value(), "ratio");
    without(exchange.rank.has_value(), "rank");
    without(exchange.feedback.has_value(), "feedback");
    without(exchange.encode_after.has_value(), "encode_after");
    without(exchange.ratio_warm_up.has_value(), "ratio_warm_up");
    without(exchange.momentum_correction != 0, "momentum_correction");
    without(nature_of(kind, exchange.options).consensus_rate > 0, "consensus_rate");
    return;
  }
  const std::string given = "encoding = " + to_toml(exchange.encoding);
  const exchange_nature nature = nature_of(kind, exchange.options);
  if (!nature.encoding_refusal.empty())
    return refuse(path + ".encoding",
                  given + " has no effect, because " + nature.encoding_refusal + "; remove the key");
  const bool mixes = carried.sends == slot::parameters && !nature.averages;
  if (mixes && nature.consensus_rate == 0) return refuse(path + ".encoding", given + why_not_mixed(kind));
  if (mixes && exchange.feedback)
    refuse(
        path + ".feedback",
        "feedback has no effect with consensus_rate, because what is lost is part of the next difference; remove the "
        "key");
  codec_nature codec = codec_of(encoding_named(exchange.encoding)).nature();
  if (codec.takes_rank && (carried.sends != slot::gradient || nature.servers > 0 || !nature.same_for_all))
    return refuse(path + ".encoding",
                  given +
                      (nature.servers > 0 ? " needs two rounds among the workers, which a server does not have"
                                          : " approximates the mean of gradients") +
                      "; use it with all_reduce or star and sends = \"gradient\", or choose another encoding");
  if (codec.same_places && nature.servers > 0 && !nature.deterministic)
    return refuse(path + ".encoding", given +
                                          " sends what all workers have in common in a step, but they send their "
                                          "gradients in different ones; use apply = \"all\", or another encoding");
  if (mixes && codec.same_places)
    return refuse(path + ".encoding", given +
                                          " sends what all workers have in common, but each worker mixes other "
                                          "ones; use encoding = \"top_k\", or remove the key");
  if (mixes) codec.requires_feedback = codec.feedback = false;
  check_route(path, exchange, kind, codec, refuse);
  check_codec(file, path, exchange, codec, refuse);
}

/// Checks the name of the actor in another program: no two exchanges may share it.
void check_actor(const topology& file, std::size_t index, const std::string& actor, const refusal& refuse) {
  const std::string path = table_path("exchange", index) + ".actor";
  if (!legal_name(actor))
    return refuse(path,
                  "an actor cannot be called " + to_toml(actor) + "; expected at most 64 letters, digits, - and _");
  for (std::size_t other = 0; other < index; ++other) {
    const exchange_kind* kind = find_exchange(file.exchanges[other].kind);
    if (kind == nullptr || nature_of(*kind, file.exchanges[other].options).actor != actor) continue;
    return refuse(path, "the actor of " + to_toml(file.exchanges[other].name) + " is called " + to_toml(actor) +
                            " as well; expected a different name for each");
  }
}

}  // namespace

const carriage* carriage_of(const exchange_settings& exchange) {
  const exchange_kind* kind = find_exchange(exchange.kind);
  if (kind == nullptr) return nullptr;
  if (exchange.sends.empty()) return &kind->carries.front();
  const auto found = std::find_if(kind->carries.begin(), kind->carries.end(), [&](const carriage& candidate) {
    return name_of(candidate.sends) == exchange.sends;
  });
  return found == kind->carries.end() ? nullptr : &*found;
}

void check_sends(const topology& file, std::size_t index, const refusal& refuse) {
  const exchange_settings& exchange = file.exchanges[index];
  const exchange_kind* kind = find_exchange(exchange.kind);
  if (kind == nullptr || carriage_of(exchange) != nullptr) return;
  std::vector<std::string> legal;
  for (const carriage& carried : kind->carries) legal.push_back(name_of(carried.sends));
  refuse(table_path("exchange", index) + ".sends", to_toml(exchange.kind) + " cannot send " + to_toml(exchange.sends) +
                                                       "; expected " + text::listed(text::in_quotes(legal)));
}

void check_exchange(const topology& file, std::size_t index, const refusal& refuse) {
  const exchange_settings& exchange = file.exchanges[index];
  const exchange_kind* kind = find_exchange(exchange.kind);
  if (kind == nullptr) return;
  const std::string path = table_path("exchange", index);
  std::vector<std::string> names;
  std::size_t workers = 0;
  try {
    for (const exchange_member& member : members_of(file, index)) {
      names.push_back(member.name);
      workers += member.ranks.size();
    }
  } catch (const member_error& reason) {
    return refuse(path + ".members." + std::to_string(reason.index), reason.what());
  }
  if (const carriage* carried = carriage_of(exchange)) {
    if (carried->makes_step()) check_update(file, index, workers, refuse);
    if (carried->makes_step() && nature_of(*kind, exchange.options).servers > 1)
      check_sharded_update(file, exchange, refuse);
    check_slot(path, exchange, carried->sends, refuse);
    check_outer(path, exchange, carried->sends, refuse);
    check_streaming(path, exchange, carried->sends, refuse);
    check_from(path, exchange, carried->sends, refuse);
    check_growth(file, path, exchange, carried->sends, refuse);
    check_encoding(file, path, exchange, *kind, *carried, refuse);
  }
  if (const std::string actor = nature_of(*kind, exchange.options).actor; !actor.empty())
    check_actor(file, index, actor, refuse);
  if (!kind->check) return;
  if (const auto problem = kind->check(names, exchange.options)) refuse(path + "." + problem->key, problem->text);
}

}  // namespace troupe::topology

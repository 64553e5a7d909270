// The rules of constraints.hpp that concern one exchange.
#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"
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
  if (exchange.every != interval{1, false})
    refuse(path + ".every",
           to_toml(exchange.kind) + " applies the update and must run in every step; use every = 1, or remove the key");
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

/// Checks the encoding of what the exchange sends.
void check_encoding(const std::string& path, const exchange_settings& exchange, const exchange_kind& kind,
                    const carriage& carried, const refusal& refuse) {
  if (exchange.encoding == encoding_names().front()) return;
  const std::string given = "encoding = " + to_toml(exchange.encoding);
  if (const std::string reason = nature_of(kind, exchange.options).encoding_refusal; !reason.empty())
    return refuse(path + ".encoding", given + " has no effect, because " + reason + "; remove the key");
  if (carried.sends == slot::parameters)
    refuse(path + ".encoding",
           given + " would round the parameters themselves, so that small steps are lost; remove the key");
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
    check_encoding(path, exchange, *kind, *carried, refuse);
  }
  if (const std::string actor = nature_of(*kind, exchange.options).actor; !actor.empty())
    check_actor(file, index, actor, refuse);
  if (!kind->check) return;
  if (const auto problem = kind->check(names, exchange.options)) refuse(path + "." + problem->key, problem->text);
}

}  // namespace troupe::topology

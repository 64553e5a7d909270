#include "troupe/algorithms/exchange/shared/shared.hpp"

#include "troupe/algorithms/exchange/servers/serving.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/models/storage/held_lock.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// The server of a shared memory: reports what the memory holds. No part is ever sent to it.
class keeper final : public server {
 public:
  explicit keeper(const member_options& options)
      : memory_(options.memory), lock_(options.memory_lock), pool_(options.pool) {
    TROUPE_ASSERT(options.among.is_server() && memory_, "only the owner of a shared memory may have a port");
    if (!options.restored) return;
    const auto held = serving::restored_holding(*options.restored, "held");
    memory_->restore(held.piece.values, held.version, held.staleness);
  }

  void receive(const part&, outbox&) override {
    throw exchange_error(errc::mismatch, "a shared memory received a part, but its exchange sends no messages");
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override { return {}; }
  std::int64_t largest_fold() const override { return memory_->values().numel(); }

  std::optional<holding> held(std::uint64_t) override { return now(); }

  state_dict state() const override {
    state_dict state;
    serving::save(now(), "held", state);
    return state;
  }

 private:
  holding now() const {
    const models::held_lock alone{lock_.get()};
    return {.piece = {0, memory_->copy(pool_)}, .version = memory_->updates(), .staleness = memory_->staleness()};
  }

  std::shared_ptr<shared_memory> memory_;
  std::shared_ptr<models::exclusive_lock> lock_;
  mutable models::buffer_pool pool_;
};

bool says(const setting_values& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found != settings.end() && std::get<bool>(found->second);
}

exchange_nature shared_nature(const setting_values& settings) {
  const auto how = says(settings, "lock")     ? memory_writes::locked
                   : says(settings, "atomic") ? memory_writes::atomic
                                              : memory_writes::plain;
  return {.carried_by = carrier::shared_memory,
          .deterministic = false,
          .same_for_all = false,
          .waits_for_others = false,
          .in_loop = false,
          .encoding_refusal = replicas_of(settings) == replicas::machine ? "shared memory sends no messages" : "",
          .servers = 1,
          .writes = how};
}

std::optional<complaint> check_shared(const std::vector<std::string>&, const setting_values& settings) {
  if (says(settings, "lock") && says(settings, "atomic"))
    return complaint{"atomic", "atomic = true has no effect with lock = true; expected one of the two"};
  if (replicas_of(settings) == replicas::core)
    for (const auto* key : {"lock", "atomic"})
      if (says(settings, key))
        return complaint{key, "replicas = \"core\" gives each worker its own memory, so " + std::string(key) +
                                  " has no effect; remove the key"};
  if (replicas_of(settings) == replicas::core && local_steps_of(settings) > 1)
    return complaint{
        "local_steps",
        "replicas = \"core\" makes all steps local, so local_steps has no effect; expected every instead, which "
        "sets how often the replicas are averaged"};
  return std::nullopt;
}

/// Lists the workers that read and write the memory. Nothing is sent, so the traffic is 0.
std::vector<planned_edge> edges(std::uint32_t world_size, const models::flat_layout&, const setting_values&) {
  std::vector<planned_edge> all;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    all.push_back({rank, world_size, 0, 0});
    all.push_back({world_size, rank, 0, 0});
  }
  return all;
}

}  // namespace

replicas replicas_of(const setting_values& settings) {
  const auto found = settings.find("replicas");
  const auto name = found == settings.end() ? std::string("machine") : std::get<std::string>(found->second);
  return name == "node" ? replicas::node : name == "core" ? replicas::core : replicas::machine;
}

std::int64_t local_steps_of(const setting_values& settings) {
  const auto found = settings.find("local_steps");
  return found == settings.end() ? 1 : std::get<std::int64_t>(found->second);
}

exchange_kind shared_kind() {
  return {
      .name = "shared",
      .explanation = "All workers read and write the parameters in one shared memory, without a lock (Hogwild!).",
      .source =
          "Niu, Recht, Ré, Wright 2011, \"Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient "
          "Descent\", algorithm 1; replicas: Zhang, Ré 2014, \"DimmWitted\", section 3.3",
      .carries = {{slot::parameters, slot::parameters}},
      .settings =
          {{.name = "lock",
            .type = setting_type::boolean,
            .default_text = "false",
            .explanation = "Whether a worker locks the memory while it reads or writes the parameters. Meant for "
                           "comparison with the lock-free form. Cannot be combined with atomic."},
           {.name = "atomic",
            .type = setting_type::boolean,
            .default_text = "false",
            .explanation = "Whether the addition to each coordinate is atomic, as the paper assumes. Otherwise one of "
                           "two simultaneous additions may be lost."},
           {.name = "local_steps",
            .type = setting_type::integer,
            .default_text = "1",
            .explanation = "Number of steps that a worker makes on a local copy before it adds the total change to the "
                           "memory, so that the cores do not pass the memory back and forth in every step. With 1, a "
                           "worker updates the memory directly in every step.",
            .minimum = 1,
            .maximum = 1e6},
           {.name = "replicas",
            .type = setting_type::choice,
            .default_text = "\"machine\"",
            .explanation =
                "How many memories there are: \"machine\" has one for all workers, \"node\" one for the workers of "
                "each NUMA node, and \"core\" one for each worker. Several memories are averaged at the interval that "
                "`every` sets. \"core\" cannot be combined with lock, atomic or local_steps above 1.",
            .choices = {"machine", "node", "core"}}},
      .make_member = [](const member_options& options) { return std::make_unique<keeper>(options); },
      .edges = edges,
      .nature = shared_nature,
      .check = check_shared,
  };
}

}  // namespace troupe

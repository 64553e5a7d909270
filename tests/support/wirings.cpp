#include "tests/support/wirings.hpp"

#include <caf/send.hpp>

namespace troupe::tests {

namespace {

setting_values ring() {
  return {{"graph", std::string{"ring"}}, {"weights", std::string{"metropolis"}}};
}
setting_values directed() {
  return {{"graph", std::string{"exponential"}}, {"weights", std::string{"metropolis"}}};
}
setting_values server_of_all() {
  return {{"apply", std::string{"all"}}, {"shards", std::int64_t{1}}};
}
setting_values servers_of_all() {
  return {{"apply", std::string{"all"}}, {"shards", std::int64_t{2}}};
}
setting_values server_of_each() {
  return {{"apply", std::string{"each"}}, {"shards", std::int64_t{2}}};
}
setting_values centre_of_all() {
  return {{"apply", std::string{"all"}}, {"alpha", 0.2}};
}
setting_values centre_of_each() {
  return {{"apply", std::string{"each"}}, {"alpha", 0.2}};
}
setting_values automatic() {
  return {{"route", std::string{"auto"}}};
}

setting_values by_parameter(const std::string& route) {
  return {{"route", route}, {"send", std::string{"parameter"}}};
}

/// all_reduce of gradients in two pairs, gossip of parameters between the pairs every third step.
tiny_options hierarchy() {
  return {.workers = 4,
          .loop = {"gradient", "left", "right", "apply", "between"},
          .exchanges = {
              {.name = "left", .kind = "all_reduce", .sends = {}, .members = {"w0", "w1"}, .options = automatic()},
              {.name = "right", .kind = "all_reduce", .sends = {}, .members = {"w2", "w3"}, .options = automatic()},
              {.name = "between",
               .kind = "gossip",
               .sends = {},
               .members = {"left", "right"},
               .every = {3, false},
               .options = ring()}}};
}

}  // namespace

std::function<std::chrono::microseconds(const actor_label&, const task&)> silent_compute(std::uint32_t rank) {
  return [silent = label_of_compute(rank).id](const actor_label& actor, const task&) -> std::chrono::microseconds {
    return actor.id == silent ? std::chrono::hours{1} : std::chrono::milliseconds{50};
  };
}

std::string name_of(const tiny_options& options) {
  auto text = options.exchanges.empty() ? options.exchange : "several";
  for (const auto& word : options.loop) text += " " + word;
  for (const auto& [name, value] : options.settings)
    if (const auto* word = std::get_if<std::string>(&value)) text += " " + *word;
  return text + " every " + std::to_string(options.every);
}

const std::vector<tiny_options>& deterministic_wirings() {
  static const std::vector<tiny_options> wirings{
      {.workers = 3, .exchange = ""},
      {.workers = 3, .exchange = "star", .settings = {{"send", std::string{"whole"}}}},
      {.workers = 3, .exchange = "star", .settings = {{"send", std::string{"parameter"}}}},
      {.workers = 3, .exchange = "all_reduce", .settings = {{"route", std::string{"direct"}}}},
      {.workers = 3, .exchange = "all_reduce", .settings = by_parameter("direct")},
      {.workers = 3, .exchange = "all_reduce", .settings = by_parameter("chain")},
      {.workers = 3, .exchange = "all_reduce", .settings = {{"route", std::string{"chain"}}}},
      {.workers = 3, .exchange = "all_reduce", .settings = {{"route", std::string{"auto"}}}},  // small: sent whole
      {.workers = 3, .exchange = "all_reduce", .settings = {{"route", std::string{"ring"}}}},
      {.workers = 4, .exchange = "gossip", .settings = ring()},
      {.workers = 5, .exchange = "gossip", .settings = directed()},
      {.workers = 3, .exchange = "gossip", .settings = ring(), .loop = {"gradient", "apply", "exchange"}},
      {.workers = 3, .exchange = "gossip", .settings = ring(), .loop = {"exchange", "gradient", "apply"}},
      {.workers = 3,
       .settings = automatic(),
       .sends = "parameters",
       .every = 4,
       .loop = {"gradient", "apply", "exchange"}},
      {.workers = 3, .settings = automatic(), .sends = "parameters", .every = 2},
      {.workers = 3, .exchange = "parameter_server", .settings = server_of_all(), .loop = {"gradient", "exchange"}},
      {.workers = 3, .exchange = "parameter_server", .settings = servers_of_all(), .loop = {"gradient", "exchange"}},
      {.workers = 3, .exchange = "elastic", .settings = centre_of_all()},
      {.workers = 3, .exchange = "elastic", .settings = centre_of_all(), .every = 3},
      {.workers = 3,
       .exchange = "elastic",
       .settings = centre_of_all(),
       .every = 3,
       .loop = {"gradient", "apply", "exchange"}},
      hierarchy(),
  };
  return wirings;
}

namespace {

/// A server of two pairs. Each pair produces one gradient.
tiny_options server_of_pairs() {
  auto options = hierarchy();
  options.loop = {"gradient", "left", "right", "between"};
  options.exchanges[2] = {.name = "between",
                          .kind = "parameter_server",
                          .sends = {},
                          .members = {"left", "right"},
                          .options = server_of_each()};
  return options;
}

setting_values one_memory() {
  return {{"lock", false}, {"atomic", false}, {"replicas", std::string{"machine"}}};
}

/// Two memories of two workers each. The first workers of both average the memories.
tiny_options averaged_memories() {
  return {
      .workers = 4,
      .loop = {"gradient", "apply", "average"},
      .exchanges = {{.name = "left", .kind = "shared", .sends = {}, .members = {"w0", "w1"}, .options = one_memory()},
                    {.name = "right", .kind = "shared", .sends = {}, .members = {"w2", "w3"}, .options = one_memory()},
                    {.name = "average",
                     .kind = "all_reduce",
                     .sends = "parameters",
                     .members = {"w0", "w2"},
                     .every = {2, false},
                     .options = automatic()}}};
}

/// All workers wait for their neighbours. Some are also pulled to a centre, which waits for no worker.
tiny_options mixture() {
  return {.workers = 4,
          .loop = {"gradient", "mix", "pull", "apply"},
          .exchanges = {{.name = "mix", .kind = "gossip", .sends = {}, .options = ring()},
                        {.name = "pull",
                         .kind = "elastic",
                         .sends = {},
                         .members = {"w0", "w1", "w3"},
                         .every = {3, false},
                         .options = centre_of_each()}}};
}

}  // namespace

const std::vector<tiny_options>& asynchronous_wirings() {
  static const std::vector<tiny_options> wirings{
      {.workers = 3, .exchange = "parameter_server", .settings = server_of_each(), .loop = {"gradient", "exchange"}},
      {.workers = 3, .exchange = "elastic", .settings = centre_of_each(), .every = 3},
      server_of_pairs(),
      mixture(),
      {.workers = 3, .exchange = "shared", .settings = one_memory(), .loop = {"gradient", "apply"}},
      averaged_memories(),
  };
  return wirings;
}

std::function<void(const crew&, std::uint64_t)> interrupt_at(std::uint64_t event) {
  return [event](const crew& all, std::uint64_t count) {
    if (count == event) caf::anon_send(all.coordinator, halt_atom_v);
  };
}

}  // namespace troupe::tests

#include "troupe/algorithms/exchange/kinds/catalogue.hpp"

#include <map>
#include <utility>

namespace troupe {

namespace {

constexpr auto all_wait = "all workers wait for each other";
constexpr auto members = "tests/unit/algorithms/exchange/members_test.cpp",
               runs = "tests/simulation/simulation_test.cpp";

exchange_variant route(const std::string& name, const std::string& messages, const std::string& bytes,
                       const std::string& equals, const std::vector<std::string>& shown_by) {
  return {.when = "route = \"" + name + "\"",
          .messages = messages,
          .bytes = bytes,
          .synchronisation = all_wait,
          .staleness = "0",
          .equals = equals,
          .shown_by = shown_by};
}

constexpr auto estimated =
    "estimated by counting the updates of others between a worker's reading and its writing; "
    "unbounded, but n − 1 among equally fast workers, or (n − 1)H with H local steps";

exchange_facts star_facts() {
  return {
      .equation = "each worker gets ḡ = Σ bᵢgᵢ / Σ bᵢ, added in rank order, and applies x ← step(x, ḡ)",
      .picture =
          "w1   w2   w3\n"
          "  ⇅   ⇅   ⇅    up: gᵢ of bᵢ samples; down: ḡ\n"
          "      w0",
      .variants = {
          {.when = "send = \"whole\"",
           .messages = "2(n − 1)",
           .bytes = "2(n − 1)P, all through rank 0",
           .synchronisation = "all workers wait for rank 0, which waits for all of them",
           .staleness = "0",
           .equals = "one worker with the batches of all workers, to 1e-5",
           .shown_by = {"tests/parity/steps.py", "tests/simulation/simulation_test.cpp", "tests/cli/catalogue.py"}},
          {.when = "send = \"parameter\" or \"bucket\"",
           .messages = "2(n − 1) for each parameter or bucket",
           .bytes = "2(n − 1)P, all through rank 0",
           .synchronisation = "all workers wait for rank 0, which waits for all of them, separately for "
                              "each parameter or bucket",
           .staleness = "0",
           .equals = "send = \"whole\", bit for bit",
           .shown_by = {"tests/simulation/simulation_test.cpp", "tests/unit/algorithms/exchange/members_test.cpp"}}}};
}

exchange_facts all_reduce_facts() {
  return {
      .equation =
          "gradient: each worker gets ḡ = Σ bᵢgᵢ / Σ bᵢ and applies x ← step(x, ḡ). parameters: xᵢ ← Σ xⱼ "
          "/ n after the step; with every = H this is model averaging, or local SGD: H local steps, then "
          "the mean of all workers. Each worker keeps its own momentum. With an outer optimizer, xᵢ ← a after its "
          "step a ← step(a, a − Σ xⱼ / n)",
      .picture =
          "w0 ⇄ w1\n"
          " ⇅ ⤫ ⇅     direct: worker j adds up shard j of n\n"
          "w2 ⇄ w3",
      .variants = {
          route("direct", "2n(n − 1)", "2(n − 1)P", "star, bit for bit", {members, runs}),
          route("chain", "2(n − 1)", "2(n − 1)P", "star, bit for bit", {members, runs}),
          route("ring", "2n(n − 1)", "2(n − 1)P", "star, to 1e-5, because it adds in another order",
                {"tests/parity/steps.py", members}),
          route("all_gather", "n(n − 1)", "n(n − 1)P", "star, bit for bit", {members, runs}),
          route("auto", "as \"direct\", \"chain\" or \"all_gather\"", "as \"direct\", \"chain\" or \"all_gather\"",
                "star, bit for bit", {runs, members, "tests/cli/routes.py", "tests/cli/catalogue.py"}),
          {.when = "engine = \"nccl\"",
           .messages = "chosen by NCCL; counted as for \"ring\"",
           .bytes = "2(n − 1)P",
           .synchronisation = all_wait,
           .staleness = "0",
           .equals = "star, to rounding; not yet run between GPUs",
           .shown_by = {"tests/unit/actors/port/collective_port_test.cpp"}},
          {.when = "send = \"parameter\" or \"bucket\"",
           .messages = "as its route, for each parameter or bucket",
           .bytes = "as its route; \"auto\" chooses for each bucket",
           .synchronisation = "all workers wait for each other, separately for each parameter or bucket",
           .staleness = "0",
           .equals = "send = \"whole\", bit for bit, or to 1e-5 with route = \"ring\"; PyTorch's DDP, to 1e-4 "
                     "after 20 steps",
           .shown_by = {"tests/simulation/simulation_test.cpp", "tests/parity/ddp.py"}},
          {.when = "sends = \"parameters\"",
           .messages = "as its route",
           .bytes = "as its route",
           .synchronisation = "all workers wait for each other in every exchange",
           .staleness = "0",
           .equals = "with every = 1, the exchange of gradients, to 1e-5, if the optimizer is "
                     "linear in the gradient (SGD with or without momentum; not Adam, NovoGrad or "
                     "clipping); with a longer interval, local SGD in PyTorch, to 1e-5",
           .shown_by = {"tests/simulation/averaging_test.cpp", "tests/parity/wirings.py"}},
          {.when = "sends = \"parameters\" with an outer optimizer",
           .messages = "as its route",
           .bytes = "as its route",
           .synchronisation = "all workers wait for each other in every exchange",
           .staleness = "0",
           .equals = "with outer_lr = 1 and outer_momentum = 0, the same without, bit for bit; DiLoCo, SlowMo, outer "
                     "momentum and FedAdam in PyTorch, to 1e-5",
           .shown_by = {"tests/simulation/outer_test.cpp", "tests/parity/outer.py"}},
          {.when = "sends = \"parameters\" with fragments, delay or mix",
           .messages = "as its route, once for each fragment",
           .bytes = "as its route, in `every` steps",
           .synchronisation = "in the steps in which a mean is used, all workers wait for it",
           .staleness = "delay, in steps",
           .equals = "with mix = 1, no exchange, bit for bit; with fragments = 1, delay = 0 and mix = 0, the exchange "
                     "without these keys, bit for bit",
           .shown_by = {"tests/unit/algorithms/exchange/around/streaming_test.cpp"}}}};
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
                            "tests/unit/algorithms/rules/mixing_test.cpp",
                            "tests/unit/algorithms/exchange/gossip/gossip_test.cpp"}}}};
}

exchange_facts parameter_server_facts() {
  return {.equation =
              "all: x ← step(x, Σ bᵢgᵢ / Σ bᵢ); first: the same over the first gradients; each: x ← step(x, "
              "gᵢ), one gradient after another",
          .picture =
              "worker i ── gradient ──▶ server j (shard j of x, optimizer, version)\n"
              "worker i ◀─ parameters ─ server j",
          .variants = {
              {.when = "apply = \"all\"",
               .messages = "2n · shards",
               .bytes = "2nP",
               .synchronisation = "every worker waits for the slowest",
               .staleness = "0",
               .equals = "star and all_reduce with the same optimizer, bit for bit, for any number of shards",
               .shown_by = {"tests/unit/algorithms/exchange/servers/parameter_server_test.cpp", "tests/parity/steps.py",
                            "tests/cli/catalogue.py"}},
              {.when = "apply = \"first\"",
               .messages = "2n · shards",
               .bytes = "2nP",
               .synchronisation = "every worker waits for the `first` fastest",
               .staleness = "0; gradients that would be stale are refused and counted",
               .equals = "with first = n, apply = \"all\", bit for bit",
               .shown_by = {"tests/unit/algorithms/exchange/servers/backup_workers_test.cpp"}},
              {.when = "apply = \"each\" with staleness_bound = s",
               .messages = "2n · shards",
               .bytes = "2nP",
               .synchronisation = "a worker that is s steps ahead waits for the slowest; the slowest never waits",
               .staleness = "counted; at most (2s + 1)(n − 1), because no worker is more than s steps ahead of the "
                            "slowest",
               .equals = "with one worker, plain SGD; with s = 0 and plain SGD, the sum of all workers' gradients "
                         "at the same parameters in each step; with s at least the number of steps, apply = "
                         "\"each\" without a bound",
               .shown_by = {"tests/unit/algorithms/exchange/servers/bounded_staleness_test.cpp"}},
              {.when = "apply = \"each\"",
               .messages = "2n · shards",
               .bytes = "2nP",
               .synchronisation = "no worker waits for another",
               .staleness = "counted; unbounded, but n − 1 on average, whatever the workers' speeds",
               .equals = "with one worker, plain SGD; with a forced order of arrival, PyTorch in that order, to 1e-5",
               .shown_by = {"tests/unit/algorithms/rules/staleness_test.cpp", "tests/parity/steps.py",
                            "tests/parity/wirings.py"}}}};
}

exchange_facts elastic_facts() {
  return {.equation =
              "all: xⁱ ← xⁱ − α(xⁱ − x̃), x̃ ← x̃ + α Σ(xⁱ − x̃), all from the values before the move; each: d = "
              "α(xⁱ − x̃), xⁱ ← xⁱ − d, x̃ ← x̃ + d. In the loop gradient, exchange, apply, the step uses the "
              "gradient at xⁱ before the move. An optimizer with momentum and nesterov = true is the paper's "
              "momentum variant (EAMSGD) in PyTorch's form: the elastic force is evaluated at the look-ahead point",
          .picture =
              "worker i ── xⁱ ──▶ centre x̃\n"
              "worker i ◀─ x̃ ── centre x̃   (each: −d instead)",
          .variants = {
              {.when = "apply = \"all\"",
               .messages = "2n",
               .bytes = "2nP",
               .synchronisation = "no worker is more than one round ahead of the slowest",
               .staleness = "0: no gradient leaves its worker",
               .equals = "EASGD in PyTorch, to 1e-5; with α = 1/n, each exchange sets the centre to the mean of the "
                         "parameters that the workers sent",
               .shown_by = {"tests/parity/wirings.py", "tests/unit/algorithms/exchange/servers/elastic_test.cpp"}},
              {.when = "apply = \"each\"",
               .messages = "2n",
               .bytes = "2nP",
               .synchronisation = "no worker waits for another",
               .staleness = "0: no gradient leaves its worker",
               .equals = "with one worker, apply = \"all\", bit for bit; with a forced order of arrival, "
                         "PyTorch in that order, to 1e-5",
               .shown_by = {"tests/unit/algorithms/exchange/servers/elastic_test.cpp", "tests/parity/wirings.py"}}}};
}

exchange_facts shared_facts() {
  return {.equation =
              "each worker independently, in every step: g = ∇f(x) at the current x; x ← x − γv(g), "
              "coordinate by coordinate",
          .picture =
              "w0   w1   w2   w3\n"
              "  ↕    ↕    ↕    ↕    read x, add to x: no lock, no message\n"
              "  [ x: one memory ]",
          .variants = {
              {.when = "replicas = \"machine\"",
               .messages = "0",
               .bytes = "0",
               .synchronisation = "no worker waits; with lock = true, a worker waits while another reads or writes",
               .staleness = estimated,
               .equals = "with one worker, plain SGD, bit for bit",
               .shown_by = {"tests/simulation/shared_test.cpp", "tests/unit/actors/replay/shared_memory_test.cpp",
                            "tests/unit/algorithms/training/hogwild_test.cpp", "tests/processes/asynchronous.py",
                            "tests/parity/sparse.py"}},
              {.when = "replicas = \"node\"",
               .messages = "as all_reduce of parameters with one member per NUMA node",
               .bytes = "as all_reduce of parameters with one member per NUMA node",
               .synchronisation = "the first workers of the NUMA nodes wait for each other in every exchange",
               .staleness = estimated,
               .equals = "after each exchange, every memory is the mean of all, unless it was written in the meantime",
               .shown_by = {"tests/simulation/shared_test.cpp", "tests/unit/runtime/plan/replicas_test.cpp"}},
              {.when = "replicas = \"core\"",
               .messages = "as all_reduce of parameters",
               .bytes = "as all_reduce of parameters",
               .synchronisation = "all workers wait for each other in every exchange",
               .staleness = "0",
               .equals = "all_reduce with sends = \"parameters\", which it is translated to",
               .shown_by = {"tests/unit/runtime/plan/replicas_test.cpp"}}}};
}

exchange_facts remote_facts() {
  return {
      .equation =
          "same: each worker gets r(v₁, …, vₙ), where vᵢ is its gradient or its parameters and r is the rule of the "
          "other program; each: worker i gets rᵢ",
      .picture =
          "worker i ── vᵢ ──▶ stand-in ⇄ actor, in another program\n"
          "worker i ◀─ r ─── stand-in",
      .variants = {{.when = "answers = \"same\"",
                    .messages = "2n between the workers and the stand-in; at most n + 1 to and from the program",
                    .bytes = "2nP and at most (n + 1)P",
                    .synchronisation =
                        "every worker waits for the answer, and the program decides how many contributions it needs",
                    .staleness = "0",
                    .equals = "an exchange of the same rule in the run, bit for bit",
                    .shown_by = {"tests/processes/remote.py", "tests/unit/algorithms/exchange/remote_test.cpp"}},
                   {.when = "answers = \"each\"",
                    .messages = "2n between the workers and the stand-in; 2n to and from the program",
                    .bytes = "2nP and 2nP",
                    .synchronisation =
                        "each worker waits for its answer, and the program decides how many contributions it needs",
                    .staleness = "0",
                    .equals = "an exchange of the same rule in the run, bit for bit",
                    .shown_by = {"tests/processes/remote.py", "tests/unit/algorithms/exchange/remote_test.cpp"}}}};
}

}  // namespace

exchange_facts facts_of_kind(const std::string& name) {
  static const std::map<std::string, exchange_facts (*)()> all{
      {"star", star_facts},       {"all_reduce", all_reduce_facts},
      {"gossip", gossip_facts},   {"parameter_server", parameter_server_facts},
      {"elastic", elastic_facts}, {"shared", shared_facts},
      {"remote", remote_facts}};
  const auto found = all.find(name);
  return found == all.end() ? exchange_facts{} : found->second();
}

}  // namespace troupe

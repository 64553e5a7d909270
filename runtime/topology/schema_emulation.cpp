// The sections that describe emulated links, and how long things take in a simulation.
#include "troupe/runtime/topology/schema_rows.hpp"

namespace troupe::topology::rows {

section link_section() {
  using t = topology;
  using link = link_settings;
  return list(
      "link",
      "Emulated links: parts between the ports of different workers or servers take as long as they would on such a "
      "network. A [[link]] is the network interface of a worker, a server or a node (`at`), or leads from one to "
      "another "
      "(`between`). Where several apply to a message, the last one wins, key by key. Emulation changes no bit of a "
      "deterministic result. It does not apply to snapshots for evaluations, and cannot be combined with an exchange "
      "of "
      "kind shared.",
      &t::links, "",
      {row("at", each(&t::links, &link::at), {},
           "Whose network interface it is: that of a worker (\"w2\"), of a server (\"s0\"), of a node, or of each "
           "worker "
           "and server (\"*\"). All that it sends shares the bandwidth, and all that it receives does, too. The "
           "workers "
           "of a node share one interface, and messages inside the node do not use it."),
       row("between", each(&t::links, &link::between), {},
           "Two workers, servers or nodes, between which the link leads, in both directions."),
       row("bandwidth", each(&t::links, &link::bandwidth), {}, "Bandwidth in each direction."),
       row("latency", each(&t::links, &link::latency), {}, "Time that each byte is on its way."),
       row("jitter", each(&t::links, &link::jitter), {},
           "Largest additional latency of a message. It is drawn uniformly, determined by run.seed (in a simulation by "
           "--seed), the link and the number of the message on it. Messages on one link never overtake each other."),
       row("loss", each(&t::links, &link::loss), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
           "Probability that a packet of 1,500 bytes is lost. Each loss delays the message by twice the latency; "
           "nothing "
           "is lost for good.")});
}

section simulate_section() {
  using t = topology;
  using simulate = simulate_settings;
  section made{
      "simulate",
      "How long things take in `troupe simulate`. A lane of an actor does one job at a time. Handling a message takes "
      "no time.",
      {row("gradient", in(&t::simulate, &simulate::gradient), {.choices = {"measure"}, .type = setting_type::delay},
           "CPU time of one gradient. \"measure\" computes ten on this machine and takes the median. With "
           "simulate.cores, all workers of a node compute at the same time, at most four per core of this machine."),
       row("jitter", in(&t::simulate, &simulate::jitter), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
           "Largest relative deviation of the time of a gradient, drawn uniformly for each worker and step."),
       row("memory", in(&t::simulate, &simulate::memory), {},
           "Rate at which parts are folded and parameters are copied and updated."),
       row("cores", in(&t::simulate, &simulate::cores), {.minimum = 0, .maximum = 1e6},
           "Number of cores of each node, shared equally by the lanes that have work. With 0, each lane has its own."),
       row("evaluate", in(&t::simulate, &simulate::evaluate), {}, "Time of an evaluation.")}};
  made.printed_if_set = true;
  return made;
}

}  // namespace troupe::topology::rows

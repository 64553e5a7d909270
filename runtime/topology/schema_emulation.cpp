// The sections that describe emulated links, and the faults and durations of a simulation.
#include "troupe/runtime/topology/schema_rows.hpp"

namespace troupe::topology::rows {

section link_section() {
  using t = topology;
  using link = link_settings;
  return list(
      "link",
      "Links of the network. Parts between the ports of different workers or servers take as long as they would on "
      "such a network: they are delayed, unless the link is real. A [[link]] is the network interface of a worker, a "
      "server or a node (`at`), or leads from one to "
      "another (`between`). Where several apply to a message, the last one wins, key by key. Emulation changes no "
      "bit of a deterministic result. It does not apply to snapshots for evaluations, and cannot be combined with "
      "an exchange of kind shared.",
      &t::links, "",
      {row("at", each(&t::links, &link::at), {},
           "Whose network interface it is: that of a worker (\"w2\"), of a server (\"s0\"), of a node, or of each "
           "worker and server (\"*\"). All that it sends shares the bandwidth, and all that it receives does, too. "
           "The workers of a node share one interface, and messages inside the node do not use it."),
       row("between", each(&t::links, &link::between), {},
           "Two workers, servers or nodes, between which the link leads, in both directions."),
       row("bandwidth", each(&t::links, &link::bandwidth), {}, "Bandwidth in each direction."),
       row("latency", each(&t::links, &link::latency), {}, "Time that each byte is on its way."),
       row("jitter", each(&t::links, &link::jitter), {},
           "Largest additional latency of a message. It is drawn uniformly, determined by run.seed (in a simulation "
           "by --seed), the link and the number of the message on it. Messages on one link never overtake each "
           "other."),
       row("loss", each(&t::links, &link::loss), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
           "Probability that a packet of 1,500 bytes is lost. Each loss delays the message by twice the latency; "
           "nothing is lost for good."),
       row("real", each(&t::links, &link::real), {},
           "Whether the link describes a network that exists. `troupe check`, route = \"auto\" and `troupe simulate` "
           "compute with it, but `troupe run` and `troupe node` delay nothing. The keys are those of an emulated link; "
           "real and emulated links may be mixed.")});
}

section fault_section() {
  using t = topology;
  using fault = fault_settings;
  return list(
      "fault",
      "Faults in `troupe simulate`, for a file with several [[node]] sections. Each happens once. The nodes notice "
      "it as they notice a real one: a killed node at once, silence after run.silence. A run that loses a node ends "
      "with status 1 and names the node. `troupe run` and `troupe node` refuse a file with [[fault]].",
      &t::faults, "kind",
      {row("kind", each(&t::faults, &fault::kind), {.choices = {"kill", "freeze", "partition", "slow"}},
           "\"kill\" ends a node. \"freeze\" stops it, as SIGSTOP does. With \"partition\", nothing passes between "
           "nodes any more, and none of them is notified. With \"slow\", every message between nodes takes longer."),
       row("at", each(&t::faults, &fault::at), {},
           "When it happens: \"step 100\" is when every worker has completed 100 steps, as `step` in metrics.jsonl "
           "counts them, and \"20s\" is 20 seconds of virtual time after training began."),
       row("node", each(&t::faults, &fault::node), {},
           "Node that is killed or frozen. For \"partition\" and \"slow\": between this node and every other one."),
       row("between", each(&t::faults, &fault::between), {},
           "Two nodes. Used for \"partition\" and \"slow\", in place of `node`."),
       row("lasts", each(&t::faults, &fault::lasts), {},
           "How long it lasts; if unset, to the end of the run. Not used for \"kill\"."),
       row("latency", each(&t::faults, &fault::latency), {},
           "How much longer each message takes. Required for \"slow\", and used only there.")});
}

section simulate_section() {
  using t = topology;
  using simulate = simulate_settings;
  section made{
      "simulate",
      "How long things take in `troupe simulate`. A lane of an actor does one job at a time. Handling a message "
      "takes no time.",
      {row("gradient", in(&t::simulate, &simulate::gradient), {.choices = {"measure"}, .type = setting_type::delay},
           "CPU time of one gradient. \"measure\" takes the median of ten measurements on this machine, each of one "
           "gradient or of 50 ms. With simulate.cores, all workers of a node compute at the same time, at most four "
           "per core of this machine. If batches differ in size, this is the time of a batch of their mean size."),
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

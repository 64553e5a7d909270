#include "troupe/runtime/supervision/reception.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <caf/all.hpp>

#include <exception>
#include <utility>

namespace troupe {

namespace {

struct reception_state {
  static inline const char* name = "reception";
};

/// Returns why the introduction of a node does not fit that of the first node, or "". Both nodes print the reason, so
/// it names them.
std::string difference_of_versions(const control::introduction& first, const control::introduction& who,
                                   const std::string& host) {
  const auto visitor = "on node " + text::printable(who.node);
  if (who.version != first.version)
    return "the versions of Troupe differ: " + first.version + " on node " + host + ", " +
           text::printable(who.version) + " " + visitor;
  if (who.topology != first.topology)
    return "the topology file differs from that of node " + host + ": " +
           topology::differences(who.topology, first.topology, {.theirs = "on node " + host, .ours = visitor});
  return {};
}

std::string difference_of_inputs(const plan& plan, const control::introduction& first,
                                 const control::introduction& who) {
  const auto& host = plan.nodes.front().name;
  if (who.data != first.data) return "the samples of " + plan.data->name + " differ from those of node " + host;
  if (who.weights == first.weights) return {};
  return (plan.file.model.file().empty() ? "the initial weights (model.init) differ from those of node "
                                         : "the module (model." + plan.file.model.name +
                                               ") or the initial weights (model.init) differ from those of node ") +
         host;
}

/// Returns the index in the plan of the node that introduces itself, or 0 if the run expects no node with this name.
std::uint32_t index_of(const plan& plan, const control::introduction& who) {
  for (std::uint32_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].name == who.node) return node;
  return 0;
}

/// Returns why the visitor cannot join, or "".
std::string objection_to(const reception_options& my, const control::introduction& who) {
  const auto& plan = *my.run_plan;
  const auto& host = plan.nodes.front().name;
  if (auto difference = difference_of_versions(my.self, who, host); !difference.empty()) return difference;
  if (index_of(plan, who) == 0) return "the run expects no other node with this name";
  if (who.continues && !my.self.continues)
    return "node " + host + " begins a new run, so that the copies in the folder of --resume would be " +
           "replaced; start this node without --resume, or node " + host + " with it";
  return difference_of_inputs(plan, my.self, who);
}

void receive(const reception_options& my, const visit& visit) {
  const auto& who = visit.who;
  if (const auto reason = objection_to(my, who); !reason.empty()) {
    my.report("refused node " + text::printable(who.node) + ": " + reason);
    return my.links->refuse(visit.visitor, {reason});
  }
  if (const auto difference = differing(my.self.fingerprint, who.fingerprint); !difference.empty())
    my.report("node " + who.node + " may compute different bits (" + difference +
              "); identical weights in every run are not guaranteed" +
              (my.run_plan->when.verify_every > 0
                   ? ", and if the parameters of the workers differ, run.verify_every ends the run"
                   : ""));
  my.admitted(visit.visitor, index_of(*my.run_plan, who));
}

reception_actor::behavior_type reception(reception_actor::stateful_pointer<reception_state>,
                                         const reception_options& options) {
  return {[options](const visit& visit) {
    try {
      receive(options, visit);
    } catch (const std::exception& problem) {  // nothing that a joining node sends may end the run
      options.links->refuse(visit.visitor, {problem.what()});
    }
  }};
}

}  // namespace

reception_actor spawn_reception(caf::actor_system& system, reception_options options) {
  return system.spawn(reception, std::move(options));
}

}  // namespace troupe

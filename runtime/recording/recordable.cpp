#include "troupe/runtime/recording/recordable.hpp"

#include "troupe/runtime/plan/refuse.hpp"

#include <string>

namespace troupe::recording {

void check_recordable(const plan& plan) {
  for (const auto& exchange : plan.exchanges) {
    const auto& nature = exchange.nature;
    const auto key = "exchange." + exchange.name;
    if (nature.is_elsewhere())
      refuse(plan.file, key + ".actor",
             "\"" + exchange.name + "\" has its rule in another program (actor " + nature.actor +
                 "), which a replay could not have; run it without --record");
    if (nature.carried_by == carrier::shared_memory && nature.writes != memory_writes::locked)
      refuse(plan.file, key + ".lock",
             "workers write the shared memory of \"" + exchange.name +
                 "\" in no order that could be recorded; set lock = true to record the run");
    if (nature.carried_by == carrier::ports && !nature.deterministic && nature.servers == 0)
      refuse(plan.file, key + ".kind",
             "the result of \"" + exchange.name + "\", an exchange of kind " + exchange.kind->name +
                 ", depends on the order in which its workers take in parts, but a recording has only the order at "
                 "servers; run it without --record");
  }
}

}  // namespace troupe::recording

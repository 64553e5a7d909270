#include "troupe/runtime/node/node.hpp"

#include "troupe/runtime/node/blame.hpp"
#include "troupe/runtime/node/lanes.hpp"
#include "troupe/runtime/node/launcher.hpp"

#include <caf/all.hpp>

#include <map>
#include <utility>

namespace troupe {

namespace {

struct system_config : caf::actor_system_config {
  system_config() {
    // Handlers are short and LibTorch has threads of its own: one shared queue without polling, and two threads, leave
    // the cores to the lanes.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2u);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

}  // namespace

run_end run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
            std::shared_ptr<journal> book, signal_watch& signals) {
  run_end end;
  blame blamed;
  thread_lanes lanes;
  {
    system_config config;
    caf::actor_system system{config};
    {
      caf::scoped_actor self{system};
      auto troupe = launch(system, plan, data, lanes, {std::move(book), std::move(initial), std::move(pool)});
      std::map<caf::actor_addr, std::string> alive;
      for (const auto& [name, member] : troupe.members) {
        alive.emplace(member.address(), name);
        self->monitor(member);
      }
      begin(troupe);
      signals.on_signal([&end, coordinator = caf::actor_cast<caf::actor>(troupe.coordinator)](int signal) {
        end.signal = signal;
        caf::anon_send(coordinator, halt_atom_v);
      });

      bool ending = false;
      while (!alive.empty()) {
        self->receive([&](const caf::down_msg& down) {
          const auto found = alive.find(down.source);
          if (found == alive.end()) return;
          if (down.reason && down.reason != caf::exit_reason::kill) blamed.hear(found->second, down.reason);
          alive.erase(found);
          if (ending) return;
          // The coordinator ends when all is done; anybody else ends before it only by failing. Either way all go.
          ending = true;
          dismiss(troupe);
        });
      }
      signals.on_signal({});
    }
  }
  end.failure = std::move(blamed.text);
  return end;
}

}  // namespace troupe

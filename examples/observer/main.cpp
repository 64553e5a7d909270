// Prints the curve of a running training, and stops it at a target. Start the training with
//
//   troupe run digits.toml --out runs/digits --actors
//
// and then this program: ./observer runs/digits 0.95
#include <caf/all.hpp>
#include <troupe/client.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

namespace {

/// Prints the accuracy at each evaluation, and halts the run when it is at least `target`.
caf::behavior observe(caf::event_based_actor* self, const troupe::run_handle& run, double target) {
  troupe::follow(
      self, run.observer,
      [=, halted = false](const troupe::news& heard) mutable {
        if (heard.missed > 0) std::printf("(%lu lines are no longer kept)\n", heard.missed);
        for (const auto& line : heard.lines) {
          const auto accuracy = troupe::number_in(line, "val_accuracy");
          if (troupe::text_in(line, "event") != "evaluation" || !accuracy) continue;
          std::printf("step %6.0f  accuracy %.4f\n", troupe::number_in(line, "step").value_or(0), *accuracy);
          if (*accuracy < target || std::exchange(halted, true)) continue;
          std::printf("the target is reached; the run ends\n");
          self->send(run.control, troupe::halt_run{});
        }
        std::fflush(stdout);
        if (heard.over) self->quit();
      },
      [=](const caf::error&) {
        std::printf("the run can no longer be reached\n");
        self->quit();
      });
  return {[](const troupe::steered&) {}};  // the answer to halt_run; follow() shows what happens
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) return std::fprintf(stderr, "usage: observer RESULTS TARGET\n"), 2;
  caf::actor_system_config config;
  troupe::prepare_to_attach(config);
  caf::actor_system system{config};
  const auto run = troupe::attach(system, arguments[1], "observer");
  system.spawn(observe, run, std::atof(arguments[2]));
  system.await_all_actors_done();
  return 0;
} catch (const std::exception& problem) {
  return std::fprintf(stderr, "observer: %s\n", problem.what()), 1;
}

// A coordinator of two workers under CAF's test scheduler. The actors around it only record its messages.
#pragma once

#include "tests/support/stepped_system.hpp"

#include "troupe/actors/coordinator/coordinator.hpp"

#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// What a coordinator requested to be evaluated, recorded and saved.
struct heard {
  std::vector<float> evaluated;
  std::vector<std::string> events;
  std::vector<float> saved, kept;
  std::vector<std::uint64_t> finished, granted;
  std::uint64_t begun{1};  ///< The workers' answer to a halt.
  std::vector<record> lines;
  std::vector<run_state> checkpoints;
  std::vector<std::uint64_t> asked;  ///< Numbers of the requests for states.
  bool keeps_writing{false};         ///< Whether checkpoints stay unfinished.
  std::vector<caf::typed_response_promise<bool>> writing;
  std::function<evaluation(const snapshot&)> verdict = [](const snapshot& weights) {
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = 0.5, .sample_count = 1};
  };
};

inline evaluator_actor::behavior_type evaluator(evaluator_actor::pointer, std::shared_ptr<heard> all) {
  return {[all](evaluate_atom, const snapshot& weights) {
            all->evaluated.push_back(weights.values[0].item<float>());
            return all->verdict(weights);
          },
          [](cancel_atom) {}, [](done_atom, const completion&) {}};
}

inline recorder_actor::behavior_type recorder(recorder_actor::pointer self, std::shared_ptr<heard> all) {
  return {[](const control::progress&) {},
          [all](record_atom, const record& line) {
            all->events.push_back(line.event);
            all->lines.push_back(line);
          },
          [all](keep_atom, const snapshot& best) { all->kept.push_back(best.values[0].item<float>()); },
          [](checkpoint_atom, std::uint64_t) {},
          [](tick_atom, std::uint64_t) {},
          [self, all](checkpoint_atom, const run_state& state) -> caf::result<bool> {
            all->checkpoints.push_back(state);
            if (!all->keeps_writing) return true;
            all->writing.push_back(self->make_response_promise<bool>());
            return all->writing.back();
          },
          [all](save_atom, const snapshot& result, const record& end) {
            all->saved.push_back(result.values[0].item<float>());
            all->events.push_back(end.event + " " + end.status);
            all->lines.push_back(end);
            return end.step;
          },
          [all](done_atom, const completion&) { all->writing.front().deliver(true); }};
}

inline directed_worker::behavior_type worker(directed_worker::pointer self, std::shared_ptr<heard> all) {
  return {
      [all](const control::proceed& until) { all->granted.push_back(until.steps); },
      [](const control::assign&) {},
      [self, all](const control::halt& asked) {
        self->send(caf::actor_cast<milestone_sink>(self->current_sender()), control::halted{asked.rank, all->begun});
      },
      [all](const control::finish& end) { all->finished.push_back(end.steps); },
      [](const control::show&) {},
      [all](const control::send_state& asked) { all->asked.push_back(asked.number); },
      [](const control::hold&) {},
      [](const control::stop_at&) {},
      [](const control::change_rate&) {},
      [](restore_atom, const state_dict&) {}};
}

/// A coordinator of two workers, one epoch of four steps, evaluated after every step.
struct rehearsal {
  std::shared_ptr<heard> all = std::make_shared<heard>();
  stepped_config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  coordinator_actor coordinator;
  std::vector<caf::actor> members;

  explicit rehearsal(bool replicas_agree, coordinator_options options = {}) {
    options.when = {
        .steps = 4, .steps_per_epoch = 4, .evaluate_every = 1, .checkpoint_every = options.when.checkpoint_every};
    options.workers = 2;
    options.replicas = replicas_agree ? 1 : 2;
    options.replicas_agree = replicas_agree;
    options.layout.parameter_end = options.layout.total = 16;
    members = {caf::actor_cast<caf::actor>(system.spawn(evaluator, all)),
               caf::actor_cast<caf::actor>(system.spawn(recorder, all)),
               caf::actor_cast<caf::actor>(system.spawn(worker, all)),
               caf::actor_cast<caf::actor>(system.spawn(worker, all))};
    coordinator = spawn_coordinator(system, std::move(options), caf::actor_cast<evaluator_actor>(members[0]),
                                    caf::actor_cast<recorder_actor>(members[1]), std::make_unique<immediate_lane>());
    members.push_back(caf::actor_cast<caf::actor>(coordinator));
    caf::anon_send(coordinator, wire_atom_v,
                   std::vector<directed_worker>{caf::actor_cast<directed_worker>(members[2]),
                                                caf::actor_cast<directed_worker>(members[3])});
    run();
  }

  ~rehearsal() {
    for (const auto& member : members) caf::anon_send_exit(member, caf::exit_reason::kill);
    run();
  }

  void run() {
    while (scheduler.has_job()) scheduler.run_once();
  }
  void reach(std::uint32_t rank, std::uint64_t step, double data_wait = 0, double busy = 0) {
    caf::anon_send(
        coordinator,
        milestone{.rank = rank_id{rank}, .step = step, .sample_count = 1, .data_wait = data_wait, .busy = busy});
    run();
  }
  /// Both workers complete `step`, and wait there for a checkpoint.
  void arrive(std::uint64_t step) {
    complete(step, static_cast<float>(step));
    for (const std::uint32_t rank : {0U, 1U}) {
      caf::anon_send(coordinator, control::at_checkpoint{rank_id{rank}, step});
      run();
    }
  }
  void answer(std::uint32_t rank, std::uint64_t number, std::uint64_t reported = 1) {
    state_dict state;
    state.put_count("reported", reported);
    state.put_count("number", number);
    caf::anon_send(coordinator, state_atom_v, rank_id{rank}, number, state);
    run();
  }
  /// Both workers complete `step`, with parameters that are all `value`.
  void complete(std::uint64_t step, float value) {
    reach(0, step);
    reach(1, step);
    show(0, step, value);
  }
  /// Worker `rank` shows parameters that are all `value`.
  void show(std::uint32_t rank, std::uint64_t step, float value) {
    caf::anon_send(coordinator, result_atom_v,
                   snapshot{{.sender = rank_id{rank}, .step = step}, at::full({16}, value)});
    run();
  }
};

/// Options with which evaluations may stop the run.
inline coordinator_options stopping(std::optional<std::uint64_t> patience, std::optional<double> target) {
  coordinator_options options;
  options.stop.patience = patience;
  options.stop.target_accuracy = target;
  return options;
}

/// Options with which the workers wait for each evaluation.
inline coordinator_options pausing() {
  coordinator_options options;
  options.pauses = true;
  return options;
}

}  // namespace troupe::testing

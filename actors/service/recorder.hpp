// The recorder writes the run's outputs to its journal, on a lane of its own, in the order of the messages it receives.
#pragma once

#include "troupe/actors/wire/control_messages.hpp"
#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/messages/journal.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// A recorder as a worker sees it, possibly from another node.
using progress_sink = control::handler_of<control::to_recorder>;

/// record:   writes one line of the metrics.
/// keep:     writes the best result so far.
/// checkpoint: writes a checkpoint; answered with whether that has succeeded; if not, there was a warning. If another
///           node keeps a copy, the answer waits, for at most copy_timeout, for the message with a step, which confirms
///           the copy.
/// tick:     sent to itself: the copy of the checkpoint with this serial number is overdue unless it is confirmed.
/// save:     writes the result and the last line, after all checkpoints and copies; answered with the step of that line
///           when both are on disk.
using recorder_actor =
    progress_sink::extend<caf::reacts_to<record_atom, record>, caf::reacts_to<keep_atom, snapshot>,
                          caf::replies_to<checkpoint_atom, run_state>::with<bool>,
                          caf::reacts_to<checkpoint_atom, std::uint64_t>, caf::reacts_to<tick_atom, std::uint64_t>,
                          caf::replies_to<save_atom, snapshot, record>::with<std::uint64_t>,
                          caf::reacts_to<done_atom, completion>>;

struct recorder_options {
  std::uint32_t workers{1};
  bool draws_from_queue{false};  ///< Whether progress is the mean of the workers instead of the slowest one.
  std::shared_ptr<troupe::journal> journal;
  /// Sends the files of the checkpoint of `step` to the node that keeps a copy, if there is one. Called on the
  /// recorder's lane.
  std::function<void(std::uint64_t step, const state_dict& files)> send_copy{};
  std::chrono::milliseconds copy_timeout{60'000};  ///< How long a checkpoint waits for its copy.
};

recorder_actor spawn_recorder(caf::actor_system& system, recorder_options options, std::unique_ptr<lane> where);

}  // namespace troupe

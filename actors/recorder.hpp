// The recorder writes the run's outputs to its journal, on a lane of its own, in the order of the messages it receives.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/actors/type_ids.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// Progress reports from workers: number of completed steps. May come from another node.
using progress_sink = caf::typed_actor<caf::reacts_to<progress_atom, rank_id, std::uint64_t>>;

/// record:   writes one line of the metrics.
/// keep:     writes the best result so far.
/// checkpoint: writes a checkpoint; answered when that is done, or has failed with a warning. Where another node keeps
/// a
///           copy, it is answered when the copy is written too: the message without a state says so.
/// save:     writes the result and the last line; answered with the step of that line when both are on disk, and the
///           copy of the last checkpoint is.
using recorder_actor = progress_sink::extend<
    caf::reacts_to<record_atom, record>, caf::reacts_to<keep_atom, snapshot>,
    caf::replies_to<checkpoint_atom, run_state>::with<std::uint64_t>, caf::reacts_to<checkpoint_atom>,
    caf::replies_to<save_atom, snapshot, record>::with<std::uint64_t>, caf::reacts_to<done_atom, completion>>;

struct recorder_options {
  std::uint32_t workers{1};
  bool draws_from_queue{false};  ///< It then shows the mean progress of the workers instead of that of the slowest.
  std::shared_ptr<journal> book;
  /// Sends the files of a checkpoint to the node that keeps a copy. Called on the recorder's lane. Returns whether they
  /// were sent, so that the answer `checkpoint` follows.
  std::function<bool(const state_dict& files)> send_copy{};
};

recorder_actor spawn_recorder(caf::actor_system& system, recorder_options options, std::unique_ptr<lane> where);

}  // namespace troupe

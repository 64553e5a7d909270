// The recorder writes the run's outputs to its journal, on a lane of its own, in the order of the messages it receives.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/actors/type_ids.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>

namespace troupe {

/// Progress reports from workers: number of completed steps. May come from another node.
using progress_sink = caf::typed_actor<caf::reacts_to<progress_atom, rank_id, std::uint64_t>>;

/// record:   writes one line of the metrics.
/// keep:     writes the best result so far.
/// checkpoint: writes a checkpoint; answered when that is done, or has failed with a warning.
/// save:     writes the result and the last line; answered with the step of that line when both are on disk.
using recorder_actor = progress_sink::extend<caf::reacts_to<record_atom, record>, caf::reacts_to<keep_atom, snapshot>,
                                             caf::replies_to<checkpoint_atom, run_state>::with<std::uint64_t>,
                                             caf::replies_to<save_atom, snapshot, record>::with<std::uint64_t>,
                                             caf::reacts_to<done_atom, completion>>;

/// Spawns the recorder. It shows the progress of the slowest worker, or the mean if the workers draw from one queue.
recorder_actor spawn_recorder(caf::actor_system& system, std::uint32_t workers, bool draws_from_queue,
                              std::shared_ptr<journal> book, std::unique_ptr<lane> where);

}  // namespace troupe

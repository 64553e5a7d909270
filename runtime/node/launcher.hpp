// Turns a plan into spawned, connected actors, in a system that may have threads or be the test coordinator's. What has
// a lane of its own, and what that lane is, is decided here and nowhere else.
#pragma once

#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/journal.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// All actors of a run, by the name that errors call them.
struct crew {
  coordinator_actor coordinator;
  std::vector<directed_worker> workers;  ///< By rank.
  std::vector<std::pair<std::string, caf::actor>> members;
};

struct launch_options {
  std::shared_ptr<journal> book;
  at::Tensor initial;        ///< Weights to begin with, flat; see initial_weights().
  models::buffer_pool pool;  ///< What `initial` came from.
};

/// Returns the weights that every worker begins with, flat: `model.init` if given, else PyTorch's initialisers under
/// the seed. Throws input_error: weights of another model, a missing or broken file.
at::Tensor initial_weights(const plan& plan, models::buffer_pool& pool);

/// Spawns and connects the actors; nothing runs before begin(). Where that fails, those spawned are ended again.
crew launch(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
            const launch_options& options);

/// Ends all actors of a crew at once.
void dismiss(const crew& crew);

/// Gives the workers to the coordinator: the run begins.
void begin(const crew& crew);

}  // namespace troupe

// Turns a plan into spawned, connected actors, in a system that may have threads or be the test coordinator's. What has
// a lane of its own, and what that lane is, is decided here and nowhere else.
#pragma once

#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/device/device.hpp"
#include "troupe/actors/journal.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/shared_memory.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::data {
class loader_threads;
}

namespace troupe {

/// The actors of a run, or of one node's part of it.
struct crew {
  coordinator_actor coordinator;                            ///< None but on the first node.
  recorder_actor recorder;                                  ///< Likewise.
  std::vector<directed_worker> workers;                     ///< By rank, from the node's first on.
  std::vector<std::map<std::uint32_t, port_actor>> ports;   ///< By exchange, then id of the worker or server.
  std::vector<std::shared_ptr<shared_memory>> memories;     ///< By exchange; null of those that are none.
  std::vector<std::pair<std::string, caf::actor>> members;  ///< All, by the name that errors call them.
};

/// Where a node finds those of its partners that are elsewhere.
struct far_actors {
  milestone_sink coordinator{};  ///< Of the first node; the first has its own, as the next two.
  progress_sink recorder{};
  snapshot_sink results{};
  std::vector<memory_handle> memories{};                 ///< The first node's, by exchange.
  std::function<peer_port(std::uint32_t rank)> port_of;  ///< Stands for the ports of a rank of another node.
};

struct launch_options {
  std::shared_ptr<journal> book;    ///< Of the first node.
  at::Tensor initial;               ///< Weights to begin with, flat; see initial_weights().
  models::buffer_pool pool;         ///< What `initial` came from.
  std::uint32_t node{0};            ///< Whose part is spawned, where `far` is given.
  std::optional<far_actors> far{};  ///< Without it the whole plan is spawned here.
  /// Opens the device of a worker; none is asked for the CPU unless a test puts its own in place.
  std::function<std::shared_ptr<device::accelerator>(std::uint32_t rank, c10::Device)> open_device{};
  std::shared_ptr<data::loader_threads> loading{};  ///< Of this process; none: each lane makes its own batches.
};

/// Returns the weights that every worker begins with, flat: `model.init` if given, else PyTorch's initialisers under
/// the seed. Throws input_error: weights of another model, a missing or broken file.
at::Tensor initial_weights(const plan& plan, models::buffer_pool& pool);

/// Spawns and connects the actors of a node; nothing runs before begin(). Where that fails, those spawned are ended
/// again.
crew launch(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
            const launch_options& options);

/// Ends all actors of a crew at once.
void dismiss(const crew& crew);

/// Gives all workers, by rank, to the coordinator: the run begins.
void begin(const crew& crew, const std::vector<directed_worker>& workers);

}  // namespace troupe

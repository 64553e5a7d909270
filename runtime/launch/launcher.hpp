// Turns a plan into spawned, connected actors, in an actor system with threads or under the test coordinator. The files
// that spawn actors decide which of them have lanes: this one, spawn_exchange.cpp for ports, and supervisor_traffic.cpp
// for copies of checkpoints. The lane_factory alone decides whether a lane is a thread or a place in virtual time.
#pragma once

#include "troupe/actors/coordinator/coordinator.hpp"
#include "troupe/actors/port/port.hpp"
#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/replay/lock_order.hpp"
#include "troupe/actors/worker/worker.hpp"
#include "troupe/algorithms/device/device.hpp"
#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"
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

namespace troupe::emulation {
class network;
}

namespace troupe::guests {
class seat;
}

namespace troupe {

class engine_pool;

struct labelled_actor {
  actor_label label;
  caf::actor actor;
};

/// The actors of a run, or of one node's part of a run.
struct crew {
  coordinator_actor coordinator;                           ///< Only on the first node.
  recorder_actor recorder;                                 ///< Only on the first node.
  std::vector<directed_worker> workers;                    ///< In rank order, starting at the node's first rank.
  std::vector<std::map<std::uint32_t, port_actor>> ports;  ///< By exchange, then by id of the worker or server.
  /// Receivers of the parts that other nodes send to these ports: the port, or the emulated interface in front of it.
  std::vector<std::map<std::uint32_t, peer_port>> entrances;
  std::vector<std::shared_ptr<shared_memory>> memories;  ///< By exchange; null for exchanges without shared memory.
  /// By exchange: the actor that asks the program of a remote actor for its state as well; null for other exchanges.
  std::vector<holder_actor> keepers;
  std::vector<std::shared_ptr<lock_order>> lock_orders;  ///< By exchange: order of locking in a replay, or null.
  std::vector<labelled_actor> actors;                    ///< All actors.
};

/// The actors on other nodes that a node communicates with.
struct far_actors {
  milestone_sink coordinator{};           ///< Coordinator of the first node; not set on the first node itself.
  progress_sink recorder{};               ///< Recorder of the first node; not set on the first node itself.
  snapshot_sink results{};                ///< Receiver of results on the first node; not set on the first node itself.
  std::vector<memory_handle> memories{};  ///< Shared memories of the first node, by exchange.
  std::function<peer_port(std::uint32_t rank)> port_of;  ///< Returns the proxy for the ports of a rank on another node.
  std::function<void(std::uint64_t, const state_dict&)> send_copy{};  ///< See recorder_options::send_copy.
};

/// How a run is recorded or replayed.
struct launch_deliveries {
  /// Returns how the deliveries of an actor are recorded or replayed. `actor` is 0 for the coordinator, or the id of a
  /// server whose result depends on the order of its deliveries. Empty in an ordinary run.
  std::function<delivery_order(std::uint32_t actor)> order_of{};
  /// Returns the order in which the lock of a memory is taken in a replay. Called for each locked memory, with the id
  /// of its server.
  std::function<std::shared_ptr<lock_order>(std::uint32_t id, const std::shared_ptr<shared_memory>&)> lock_order_of{};
  /// Returns the gate that decides when a worker continues in a replay; empty in any other run.
  std::function<std::shared_ptr<worker_gate>(std::uint32_t rank)> gate_of{};
};

struct launch_options {
  std::shared_ptr<troupe::journal> journal;  ///< Journal of the run; only on the first node.
  at::Tensor initial;                        ///< Initial weights, flat; see initial_weights().
  models::buffer_pool pool;                  ///< The pool that `initial` was taken from.
  /// The state from which the run continues; null for a new run. Only on the first node.
  std::shared_ptr<const run_state> restored{};
  std::uint32_t node{0};            ///< The node whose part is spawned, if `far` is given.
  std::optional<far_actors> far{};  ///< If not given, the whole plan is spawned here.
  /// Opens the device of a worker. Not called for the CPU unless a test supplies its own function.
  std::function<std::shared_ptr<device::accelerator>(std::uint32_t rank, c10::Device)> open_device{};
  bool computes{true};  ///< See replica_options::computes.
  launch_deliveries deliveries{};
  /// The emulated links, or null. Nodes may share them only if all nodes run in one thread.
  std::shared_ptr<emulation::network> links{};
  std::shared_ptr<trace_sink> trace{};  ///< Receives reports of what workers and ports do; null if not traced.
  /// Engines that all replicas share; null if each has its own. Requires that only one replica runs at a time.
  std::shared_ptr<engine_pool> engines{};
  /// Called whenever a worker has completed more steps. Used in simulations.
  std::function<void(std::uint32_t rank, std::uint64_t completed)> on_step{};
  /// Loader threads of this process; without them, each lane makes its own batches.
  std::shared_ptr<data::loader_threads> loading{};
  /// By exchange: the seat of its actor in another program, or null; empty if there is none. Only on the first node.
  std::vector<std::shared_ptr<guests::seat>> seats{};
};

/// Returns the initial weights of every worker, flat: those of `model.init` if given, else those of PyTorch's
/// initialisers under the seed. Throws input_error for weights of another model and for a missing or broken file.
at::Tensor initial_weights(const plan& plan, models::buffer_pool& pool);

/// Spawns and connects the actors of a node; training starts with begin(). On failure, the actors already spawned are
/// terminated.
crew launch(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
            const launch_options& options);

/// Terminates all actors of a crew immediately.
void dismiss(const crew& crew);

/// Starts the run by passing all workers, in rank order, to the coordinator.
void begin(const crew& crew, const std::vector<directed_worker>& workers);

}  // namespace troupe

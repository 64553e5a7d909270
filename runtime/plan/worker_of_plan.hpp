// Derives from a plan the options of each worker, and what other actors need to know about workers.
#pragma once

#include "troupe/actors/worker/worker.hpp"
#include "troupe/algorithms/training/replica_options.hpp"
#include "troupe/algorithms/training/trained_network.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe {

/// Returns the id in all stamps of a run. It depends only on numbers that stay the same when the run is continued: the
/// seed, the number of workers and the size of the model, not the length of the run or its placement.
run_id run_id_of(const plan& plan);

/// Returns the network that every worker trains.
trained_network trained_network_of(const plan& plan);

/// Returns whether all workers end at the same step.
bool works_in_lockstep(const plan& plan);

/// Returns whether a worker sends its parameters and float buffers to the coordinator. Every worker does if each is
/// evaluated; otherwise, for the result, one worker if all are equal, and none if servers hold all of it.
bool shows_replica(const plan& plan, std::uint32_t rank);

/// Returns the number of steps that a worker takes on a copy of a shared memory before it merges them; 1 without a
/// copy.
std::uint32_t local_steps(const plan& plan, std::uint32_t rank);

/// Returns the maximum number of batches per assignment. It is small, because milestones are reported only when an
/// assignment ends.
std::uint32_t batches_at_once(const plan& plan);

/// Returns the label of the port of the worker or server with this id; see planned_exchange::ids().
actor_label label_of_port(const plan& plan, std::uint32_t place, std::uint32_t id);

/// Returns the index of the node of an actor.
std::uint32_t node_of(const plan& plan, const actor_id& actor);

/// Returns the options of a worker's replica on the CPU, without shared memory and synchronised norms.
replica_options replica_options_of(const plan& plan, const data::dataset_pair& data, std::uint32_t rank,
                                   models::buffer_pool pool);

/// Returns the options of a worker that starts from the weights `initial`.
worker_options options_of_worker(const plan& plan, std::uint32_t rank, const at::Tensor& initial);

}  // namespace troupe

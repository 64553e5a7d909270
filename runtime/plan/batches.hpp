// Checks that concern batches and evaluation: which samples are evaluated and how, whether each worker can be
// evaluated, whether the last batch of an epoch can be trained on, and whether all workers can draw from one queue.
#pragma once

#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/runtime/plan/stages.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Returns how the validation set is evaluated.
rules::evaluation_options evaluation_of(const planned_work& plan);

/// Returns the forward passes of a worker: one per micro-batch.
pass_count passes_of(const planned_work& plan);

/// Throws input_error if evaluate.drop_last would leave nothing to evaluate.
void check_evaluation(const planned_work& so_far);

/// Throws input_error if each worker's parameters are to be evaluated although they are the same.
void check_each_worker(const planned_exchanges& so_far);

/// Throws input_error if the last (micro-)batch of an epoch has a single sample and the model cannot be trained on one
/// sample, for example because of batch norm.
void check_last_batch(const planned_work& so_far);

/// Refuses batches of training and of evaluation that are smaller or larger than the network accepts.
void check_batch_range(const planned_work& so_far, const models::batch_range& accepted);

/// Throws input_error if all workers share a budget of steps although some workers wait for others.
void check_budget(const planned_exchanges& so_far);

/// Describes how the validation set is divided and what is omitted, starting with a comma. Returns an empty string if
/// the whole set is evaluated at once.
std::string shares_text(const planned_work& plan);

/// Returns how many threads of a process make batches ahead for its workers: data.threads or, by default, one for each
/// worker, but at most half of the cores. The other cores are left to the workers.
std::size_t loader_threads_of(const topology::data_settings& given, std::uint32_t workers, unsigned cores);

}  // namespace troupe

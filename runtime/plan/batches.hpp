// What the data settings amount to, batch by batch: which samples are evaluated and how, and whether the last batch of
// an epoch can be trained on.
#pragma once

#include "troupe/actors/rules/evaluate.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Returns how the validation set is evaluated.
rules::evaluation_options evaluation_of(const plan& plan);

/// Forward passes of a worker: one for each micro-batch.
pass_count passes_of(const plan& plan);

/// Throws input_error where evaluate.drop_last would leave nothing to evaluate.
void check_evaluation(const plan& so_far);

/// Throws input_error where the last batch of an epoch ends in a single sample and the model cannot be trained on one,
/// because of batch norm.
void check_last_batch(const plan& so_far);

/// Says how the validation set is divided and what is left out, beginning with a comma; empty: it is evaluated whole.
std::string shares_text(const plan& plan);

}  // namespace troupe

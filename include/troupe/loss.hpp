/// @file
/// Losses of your own: troupe::register_loss() adds a function of outputs and targets to the values of
/// model.loss. Link troupe::command, or troupe::plugin for a plug-in. examples/own_model is complete.
#pragma once

#include "troupe/models/losses/loss.hpp"

namespace troupe {

using models::loss_function;
using models::loss_input;
using models::loss_kind;
using models::register_loss;

}  // namespace troupe

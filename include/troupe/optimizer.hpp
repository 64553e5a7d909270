/// @file
/// Optimizers of your own: troupe::register_optimizer() adds a troupe::optimizer to the values of optimizer.name.
/// Link troupe::command, or troupe::plugin for a plug-in.
/// examples/own_model is complete.
#pragma once

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"

/// @file
/// Models of your own: any torch::nn::Module, registered before the command runs, becomes a value of model.name.
/// Link troupe::command, or troupe::plugin for a plug-in.
/// examples/own_model is complete.
///
/// @code{.cpp}
/// #include "troupe/command.hpp"
/// #include "troupe/network.hpp"
///
/// #include <torch/nn.h>
///
/// struct Net : torch::nn::Module {
///   Net(std::int64_t inputs, std::int64_t classes)
///       : linear(register_module("linear", torch::nn::Linear(inputs, classes))) {}
///   at::Tensor forward(const at::Tensor& x) { return linear(x.flatten(1)); }
///   torch::nn::Linear linear;
/// };
///
/// int main(int count, char** words) {
///   troupe::register_network({.name = "net", .explanation = "One linear layer.", .make = [](const auto& shape) {
///     return troupe::as_network(std::make_shared<Net>(shape.input.at(0), shape.classes));
///   }});
///   return troupe::apps::command(count, words);
/// }
/// @endcode
#pragma once

#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/module.hpp"
#include "troupe/models/networks/network.hpp"

namespace troupe {

using models::as_network;
using models::loss_function;
using models::network_kind;
using models::network_shape;
using models::random_module;
using models::register_network;

}  // namespace troupe

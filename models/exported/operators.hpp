// What is known about operators beyond their schemas: which of them are computed by our own code, and which cannot be
// trained.
#pragma once

#include "troupe/models/exported/program.hpp"
#include "troupe/models/networks/batch_norm.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace troupe::models::exported {

/// What a replaced operator knows about its call, in addition to its arguments.
struct call {
  const node& what;
  const at::Generator& generator;    ///< For all draws.
  const norm_group* group{nullptr};  ///< For a batch norm in training; see normalise_in_training().
};

/// An operator, and what replaces it.
struct known_operator {
  c10::OperatorHandle op;
  replacement replaced{nullptr};
};

/// Returns the operator that a file calls, such as "torch.ops.aten.linear.default" or an overload of it that accepts a
/// generator. Throws std::invalid_argument, with the reason and what to do, if it does not exist or cannot be trained.
/// Accepts indexing and one_hot, whose results depend on values for some arguments.
known_operator find_operator(const std::string& target);

/// Returns the arithmetic on sizes that a file calls, such as "_operator.mul", or null.
shape_arithmetic find_arithmetic(const std::string& target);

/// Returns whether a call only checks its arguments: it is left out.
bool is_assertion(const std::string& target);

}  // namespace troupe::models::exported

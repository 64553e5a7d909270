#include "troupe/models/exported/operators.hpp"

#include "troupe/models/networks/max_pool.hpp"
#include "troupe/models/networks/random_operators.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace troupe::models::exported {

namespace {

using values = std::vector<c10::IValue>;

void put(values& stack, at::Tensor result) {
  stack.clear();
  stack.emplace_back(std::move(result));
}

/// Returns the tensor of an optional argument; undefined if it is absent.
at::Tensor tensor_or_none(const c10::IValue& value) {
  return value.isNone() ? at::Tensor{} : value.toTensor();
}

// dropout(input, p, train), and its variants.
template <at::Tensor (*draw)(const at::Tensor&, double, const at::Generator&, drop_unit), drop_unit unit>
bool replace_dropout(const call& with, values& stack) {
  const auto input = stack[0].toTensor();
  const auto p = stack[1].toDouble();
  const auto is_on = stack[2].toBool() && p != 0;
  put(stack, is_on ? draw(input, p, with.generator, unit) : with.what.copies_when_off ? input.clone() : input);
  return true;
}

template <at::Tensor (*draw)(const at::Tensor&, double, const at::Generator&, drop_unit), drop_unit unit>
bool replace_dropout_in_place(const call& with, values& stack) {
  auto input = stack[0].toTensor();
  const auto p = stack[1].toDouble();
  if (stack[2].toBool() && p != 0) input.copy_(draw(input, p, with.generator, unit));
  put(stack, input);
  return true;
}

// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa).
bool replace_attention(const call& with, values& stack) {
  const auto p = stack[4].toDouble();
  if (p == 0) return false;
  attention_options how{.p = p, .causal = stack[5].toBool(), .grouped = stack[7].toBool()};
  if (!stack[3].isNone()) how.mask = stack[3].toTensor();
  if (!stack[6].isNone()) how.scale = stack[6].toDouble();
  put(stack, attention(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(), how, with.generator));
  return true;
}

// lstm, gru, rnn_tanh and rnn_relu: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
// batch_first). LibTorch draws the dropout between two layers, so each layer is a call of its own.
template <bool has_cells>
bool replace_recurrent(const call& with, values& stack) {
  const auto layers = stack[4].toInt();
  const auto p = stack[5].toDouble();
  if (layers < 2 || p == 0 || !stack[6].toBool()) return false;
  const auto directions = stack[7].toBool() ? 2 : 1;
  std::vector<at::Tensor> states;  // [layers · directions, N, H] of each kind of state
  if (has_cells)
    states = stack[1].toTensorVector();
  else
    states.push_back(stack[1].toTensor());
  const auto weights = stack[2].toTensorVector();
  const auto of_layer = weights.size() / static_cast<std::size_t>(layers);
  std::vector<std::vector<at::Tensor>> last(states.size());
  auto x = stack[0].toTensor();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    values arguments = stack;
    arguments[0] = layer == 0 ? x : dropout(x, p, with.generator);
    std::vector<at::Tensor> own;
    for (const auto& state : states) own.push_back(state.narrow(0, layer * directions, directions));
    if (has_cells)
      arguments[1] = own;
    else
      arguments[1] = own.front();
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(of_layer) * layer;
    arguments[2] = std::vector<at::Tensor>(first, first + static_cast<std::ptrdiff_t>(of_layer));
    arguments[4] = 1;
    arguments[5] = 0.0;
    with.what.op->callBoxed(arguments);
    x = arguments.at(0).toTensor();
    for (std::size_t kind = 0; kind < states.size(); ++kind) last[kind].push_back(arguments.at(kind + 1).toTensor());
  }
  stack.clear();
  stack.emplace_back(x);
  for (const auto& of_kind : last) stack.emplace_back(at::cat(of_kind));
  return true;
}

// batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled).
bool replace_batch_norm(const call& with, values& stack) {
  if (!stack[5].toBool()) return false;
  const norm_settings by{.weight = tensor_or_none(stack[1]),
                         .bias = tensor_or_none(stack[2]),
                         .running_mean = tensor_or_none(stack[3]),
                         .running_var = tensor_or_none(stack[4]),
                         .momentum = stack[6].toDouble(),
                         .epsilon = stack[7].toDouble()};
  put(stack, normalise_in_training(stack[0].toTensor(), by, with.group));
  return true;
}

// max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode).
bool replace_max_pool(const call&, values& stack) {
  const auto all = [&](std::size_t index, std::int64_t number, bool may_be_empty = false) {
    const auto list = stack[index].toIntVector();
    return (may_be_empty || !list.empty()) &&
           std::all_of(list.begin(), list.end(), [&](auto value) { return value == number; });
  };
  if (!all(1, 2) || !all(2, 2, true) || !all(3, 0) || !all(4, 1) || stack[5].toBool()) return false;
  put(stack, max_pool_2x2(stack[0].toTensor()));
  return true;
}

const std::unordered_map<std::string_view, replacement>& replacements() {
  static const std::unordered_map<std::string_view, replacement> all{
      {"aten::dropout", replace_dropout<dropout, drop_unit::value>},
      {"aten::dropout_", replace_dropout_in_place<dropout, drop_unit::value>},
      {"aten::feature_dropout", replace_dropout<dropout, drop_unit::channel>},
      {"aten::feature_dropout_", replace_dropout_in_place<dropout, drop_unit::channel>},
      {"aten::alpha_dropout", replace_dropout<alpha_dropout, drop_unit::value>},
      {"aten::alpha_dropout_", replace_dropout_in_place<alpha_dropout, drop_unit::value>},
      {"aten::feature_alpha_dropout", replace_dropout<alpha_dropout, drop_unit::channel>},
      {"aten::feature_alpha_dropout_", replace_dropout_in_place<alpha_dropout, drop_unit::channel>},
      {"aten::scaled_dot_product_attention", replace_attention},
      {"aten::lstm.input", replace_recurrent<true>},
      {"aten::gru.input", replace_recurrent<false>},
      {"aten::rnn_tanh.input", replace_recurrent<false>},
      {"aten::rnn_relu.input", replace_recurrent<false>},
      {"aten::batch_norm", replace_batch_norm},
      {"aten::max_pool2d", replace_max_pool}};
  return all;
}

/// Internal operators that programs of torch.export() call. The others are refused, because they trust their arguments.
const std::unordered_set<std::string_view>& internal_operators() {
  static const std::unordered_set<std::string_view> all{"_cdist_forward",
                                                        "_euclidean_dist",
                                                        "_log_softmax",
                                                        "_softmax",
                                                        "_to_copy",
                                                        "_unsafe_view",
                                                        "_unsafe_index",
                                                        "_weight_norm",
                                                        "_weight_norm_interface",
                                                        "_shape_as_tensor",
                                                        "_conj",
                                                        "_upsample_bicubic2d_aa",
                                                        "_upsample_bilinear2d_aa",
                                                        "_upsample_nearest_exact1d",
                                                        "_upsample_nearest_exact2d",
                                                        "_upsample_nearest_exact3d"};
  return all;
}

/// Operators that reach beyond their tensors, or change what a tensor is.
const std::unordered_set<std::string_view>& unsafe_operators() {
  static const std::unordered_set<std::string_view> all{"from_file",  "set_",        "set_data", "resize_",
                                                        "resize_as_", "as_strided_", "data"};
  return all;
}

/// Returns whether an operator is one that trusts its arguments, or belongs to the library of a device.
bool is_internal(std::string_view name) {
  if (name.starts_with("__")) return false;  // Python's operators, such as __and__
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  static constexpr std::array<std::string_view, 6> libraries{"mkldnn_", "miopen_", "cudnn_",
                                                             "mps_",    "fbgemm_", "quantized_"};
  return (name.starts_with('_') && !internal_operators().contains(name)) ||
         name.find("_backward") != std::string_view::npos || std::any_of(libraries.begin(), libraries.end(), begins);
}

bool has_argument(const c10::FunctionSchema& schema, const std::string& name) {
  return schema.argumentIndexWithName(name).has_value();
}

/// Returns the overload of a random operator that also accepts a generator, if there is one.
std::optional<c10::OperatorHandle> with_generator(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& own = schema.overload_name();
  for (const std::string& overload : {std::string{"generator"}, own + "_generator", std::string{"low_generator"},
                                      std::string{"low_generator_dtype"}, std::string{"Tensor_generator"}}) {
    const auto other = c10::Dispatcher::singleton().findSchema({schema.name(), overload});
    if (!other || !has_argument(other->schema(), "generator")) continue;
    const auto& accepted = other->schema();
    const auto& needed = schema.arguments();
    const auto accepts = [&](const c10::Argument& one) { return has_argument(accepted, one.name()); };
    if (accepted.arguments().size() == needed.size() + 1 && std::all_of(needed.begin(), needed.end(), accepts))
      return other;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_size() {
  throw std::domain_error("a size is too large");
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t value = 0;
  if (__builtin_add_overflow(a, b, &value)) refuse_size();
  return value;
}

std::int64_t difference(std::int64_t a, std::int64_t b) {
  std::int64_t value = 0;
  if (__builtin_sub_overflow(a, b, &value)) refuse_size();
  return value;
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t value = 0;
  if (__builtin_mul_overflow(a, b, &value)) refuse_size();
  return value;
}

/// Returns the quotient, rounded down as in Python.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) throw std::domain_error("a size is divided by zero");
  if (b == -1) return difference(0, a);
  return a % b != 0 && (a < 0) != (b < 0) ? a / b - 1 : a / b;
}

constexpr const char* how_to_fix = "replace it in the module, and export it again";

}  // namespace

known_operator find_operator(const std::string& target) {
  const auto refuse = [&](const std::string& why, const std::string& fix = how_to_fix) {
    throw std::invalid_argument("it " + why + "; " + fix);
  };
  constexpr std::string_view prefix = "torch.ops.", higher = "torch.ops.higher_order.", aten = "torch.ops.aten.";
  if (target.starts_with(higher))
    refuse(
        "is a higher-order operator, which runs a graph within the graph (torch.cond(), torch.no_grad(), "
        "torch.autocast(), checkpoint() …)");
  if (target.starts_with(prefix) && !target.starts_with(aten))
    refuse("is a custom operator, which this program does not have");
  const auto dot = target.rfind('.');
  if (!target.starts_with(aten) || dot < aten.size())
    refuse("computes a size in a way that is not supported; supported are +, -, *, // and %");
  const auto name = target.substr(aten.size(), dot - aten.size());
  const auto overload = target.substr(dot + 1);
  if (unsafe_operators().contains(name) || is_internal(name)) refuse("is an operator that Troupe does not run");
  auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload == "default" ? "" : overload});
  if (!op) refuse("is not an operator of this LibTorch");
  static const std::unordered_set<std::string_view> depending_on_arguments{"index", "_unsafe_index", "one_hot"};
  const auto by_values = op->hasTag(at::Tag::dynamic_output_shape) || op->hasTag(at::Tag::data_dependent_output);
  if ((by_values && !depending_on_arguments.contains(name)) || name == "item")
    refuse("returns a shape or a number that depends on the values of tensors");

  const auto qualified = op->schema().name() + (overload == "default" ? "" : "." + overload);
  const auto own = replacements().find(qualified);
  if (own != replacements().end()) return {*op, own->second};
  if (op->hasTag(at::Tag::nondeterministic_seeded) && !has_argument(op->schema(), "generator")) {
    const auto other = with_generator(*op);
    if (!other) refuse("draws random numbers that cannot be reproduced");
    return {*other};
  }
  return {*op};
}

shape_arithmetic find_arithmetic(const std::string& target) {
  if (target == "_operator.add") return sum;
  if (target == "_operator.sub") return difference;
  if (target == "_operator.mul") return product;
  if (target == "_operator.floordiv") return quotient;
  if (target == "_operator.mod")
    return [](std::int64_t a, std::int64_t b) { return difference(a, product(quotient(a, b), b)); };
  if (target == "_operator.neg") return [](std::int64_t a, std::int64_t) { return difference(0, a); };
  return nullptr;
}

bool is_assertion(const std::string& target) {
  static const std::unordered_set<std::string> all{
      "torch.ops.aten._assert_tensor_metadata.default", "torch.ops.aten._assert_scalar.default",
      "torch.ops.aten._assert_async.msg", "torch.ops.aten.sym_constrain_range.default",
      "torch.ops.aten.sym_constrain_range_for_size.default"};
  return all.contains(target);
}

}  // namespace troupe::models::exported

// The contents of a file of torch.export.save(): a graph of operators in the order of execution, and the tensors that
// it starts from. Names as in torch/_export/serde/schema.py. Heavy: include it only in the .cpp files of models.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::models::exported {

/// Index of a value of a running graph: an input, or the result of a node.
using slot = std::uint32_t;

/// A value of another node, or a constant.
struct operand {
  std::optional<slot> from{};
  c10::IValue constant{};  ///< If `from` is empty.
};

/// An argument of an operator, in the form that its schema requires.
struct argument {
  enum class form : std::uint8_t {
    single,            ///< The only operand as it is.
    tensor_of_number,  ///< The only operand, an integer, as a tensor that takes part in arithmetic as a number does.
    tensors,           ///< A list of tensors.
    optional_tensors,  ///< A list of tensors, some of which are absent.
    integers           ///< A list of integers.
  };
  form how{form::single};
  std::vector<operand> operands{};
};

/// A result of an operator: a value or, if `is_list`, a list of tensors, each of which has a slot.
struct result {
  bool is_list{false};
  std::vector<slot> into{};
};

/// Computes an integer from two others; the second is 0 for an operator with one operand. Throws std::domain_error.
using shape_arithmetic = std::int64_t (*)(std::int64_t, std::int64_t);

struct call;

/// Computes the results of a call in the place of LibTorch's operator: replaces the arguments on the stack by them.
/// Returns false, and leaves the stack as it is, if the operator should be called after all.
using replacement = bool (*)(const call& with, std::vector<c10::IValue>& stack);

/// A call of an operator.
struct node {
  std::string target;  ///< For messages, such as "aten.linear.default".
  std::string place;   ///< Where the module calls it, such as "net.py:12". Empty if the file does not say it.
  std::optional<c10::OperatorHandle> op{};  ///< Empty for arithmetic on sizes.
  shape_arithmetic arithmetic{nullptr};
  replacement replaced{nullptr};      ///< Null if LibTorch's operator is called.
  std::vector<argument> arguments{};  ///< In the order of the schema.
  std::vector<result> results{};
  std::vector<slot> last_uses{};                  ///< Values that no later node needs.
  std::optional<std::size_t> training{};          ///< The argument that evaluation sets to false.
  std::optional<std::size_t> drop_probability{};  ///< The argument that evaluation sets to 0.
  std::optional<std::size_t> generator{};         ///< The argument that is the generator.
  std::vector<std::size_t> devices{};             ///< The arguments that are the device of the input.
  bool copies_when_off{false};                    ///< Whether a dropout that is off must not return its input itself.
  std::optional<std::size_t> norm{};              ///< Number of a batch norm that trains, among all of them.
  std::string sizes{};                            ///< Sizes of the first result, for people: "[N, 10]".
};

/// A tensor that the graph starts from.
struct stored_tensor {
  std::string name;
  at::Tensor values;            ///< On the CPU.
  std::optional<slot> where{};  ///< Empty if no node uses it.
  bool changes{false};          ///< Whether a forward pass in training writes it.
};

/// What the graph accepts as its only input.
struct input_form {
  slot where{0};
  at::ScalarType type{at::kFloat};
  std::vector<std::optional<std::int64_t>> sizes{};  ///< A size that may vary is empty, as the first always is.
  batch_range samples{};
};

struct program {
  std::filesystem::path path;
  input_form input{};
  slot output{0};
  std::size_t slots{0};
  std::vector<node> nodes{};
  std::vector<stored_tensor> parameters{};    ///< Those to train. Tied ones are the same tensor under several names.
  std::vector<stored_tensor> buffers{};       ///< Frozen parameters, and buffers of the state dict.
  std::vector<stored_tensor> constants{};     ///< Tensors that are not in the state dict.
  std::vector<std::int64_t> norm_channels{};  ///< Channels of each batch norm that trains.
  std::vector<std::string> notes{};           ///< Facts about the file that its user should know.
};

/// A tensor of a file.
struct read_tensor {
  std::string name;       ///< Name in the module's state_dict, or of a constant.
  at::Tensor values;      ///< On the CPU.
  bool learnable{false};  ///< Whether it is a parameter that requires a gradient.
};

/// Reads a file. Throws file_error.
program read_program(const std::filesystem::path& path);

/// Reads the state_dict of a file, whatever its graph is. Throws file_error.
std::vector<read_tensor> read_weights(const std::filesystem::path& path);

}  // namespace troupe::models::exported

// The steps of read_program(), one per file.
#pragma once

#include "troupe/files/json.hpp"
#include "troupe/files/stored_zip.hpp"
#include "troupe/models/exported/program.hpp"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace troupe::models::exported {

using files::json;

/// What is known about a value of the graph while it is read.
struct known_value {
  enum class kind : std::uint8_t { tensor, integer };
  slot where{0};
  kind is{kind::tensor};
};

/// The values of a graph by name.
class value_table {
 public:
  /// Returns the slot of a new value. Throws std::invalid_argument if there is one of this name.
  slot add(const std::string& name, known_value::kind is);

  /// Returns a value. Throws std::invalid_argument if there is none of this name.
  const known_value& at(const std::string& name) const;

  std::size_t size() const { return next_; }

 private:
  std::unordered_map<std::string, known_value> values_;
  slot next_{0};
};

/// Returns the only member of an object, which names the type of its value: {"as_int": 3}. Throws std::invalid_argument
/// if there are more or none.
std::pair<const std::string&, const json&> tagged(const json& value);

/// Returns LibTorch's type for a number of the file's ScalarType. Throws std::invalid_argument if it is unknown.
at::ScalarType scalar_type_of(std::int64_t number);

/// Returns the name of a size that may vary, such as "s77"; empty if it is a number or an expression.
std::string symbol_of(const json& size);

/// Returns the sizes of a tensor for people, where the symbol `samples` is "N": "[N, 3, 32, 32]".
std::string sizes_text(const json& tensor_meta, const std::string& samples);

/// Reads the tensors of a folder of the archive, such as "data/weights/", that its list `config` names; the result is
/// in its order. Equal entries are one tensor. Throws std::invalid_argument and what stored_zip does.
std::vector<read_tensor> read_tensors(const files::stored_zip& archive, const std::string& folder, const json& config);

/// What ends most messages about a damaged or outdated file.
inline constexpr const char* how_to_export_again = "export the module again";

/// Returns a tensor that takes part in arithmetic as a number does: it does not change the type of a result.
at::Tensor number_tensor(const at::Scalar& number);

/// Returns an argument whose value is always the same.
argument constant(c10::IValue value);

/// Returns an integer: a constant, or the value of a node. Throws std::invalid_argument.
operand integer_named(const value_table& values, const json& value);

/// Returns an argument in the form that a schema requires. Throws std::invalid_argument if it does not fit.
argument read_argument(const c10::Argument& of, const json& given, const value_table& values);

/// Inputs of the graph that nodes write.
struct written_inputs {
  std::unordered_map<slot, std::string> by_operators;  ///< In evaluation as well; where the module calls the first.
  std::unordered_set<slot> by_norms;  ///< Running statistics of batch norms and instance norms, in training only.
};

/// Appends the nodes of a graph. Throws std::invalid_argument for what cannot be trained.
written_inputs read_nodes(const json& graph, const std::string& samples, value_table& values, program& into);

}  // namespace troupe::models::exported

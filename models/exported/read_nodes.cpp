#include "troupe/models/exported/operators.hpp"
#include "troupe/models/exported/reading.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace troupe::models::exported {

namespace {

using c10::TypeKind;

constexpr const char* export_again = "export the module again";

/// The type of an argument, without the optional around it.
struct required_type {
  explicit required_type(const c10::Argument& of) : type{of.type()}, size{of.N().value_or(0)} {
    if (type->kind() != TypeKind::OptionalType) return;
    is_optional = true;
    type = type->expectRef<c10::OptionalType>().getElementType();
  }

  bool is(TypeKind kind) const { return type->kind() == kind; }
  bool is_integer() const { return is_integer(*type); }
  bool is_list() const { return is(TypeKind::ListType); }

  bool is_list_of(TypeKind kind) const { return is_list() && element().kind() == kind; }
  bool is_list_of_integers() const { return is_list() && is_integer(element()); }
  bool is_list_of_optional_tensors() const {
    return is_list_of(TypeKind::OptionalType) &&
           element().expectRef<c10::OptionalType>().getElementType()->kind() == TypeKind::TensorType;
  }

  c10::TypePtr type;
  std::int64_t size;  ///< Number of integers in a list that a single integer may stand for; 0 if it may not.
  bool is_optional{false};

 private:
  static bool is_integer(const c10::Type& type) {
    return type.kind() == TypeKind::IntType || type.kind() == TypeKind::SymIntType;
  }

  const c10::Type& element() const { return *type->expectRef<c10::ListType>().getElementType(); }
};

/// Returns a tensor that takes part in arithmetic as a number does: it does not change the type of a result.
at::Tensor wrapped(const at::Scalar& number) {
  const auto type = number.isBoolean() ? at::kBool : number.isFloatingPoint() ? at::kDouble : at::kLong;
  auto tensor = at::scalar_tensor(number, type);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

argument constant(c10::IValue value) {
  return {.how = argument::form::single, .operands = {{.from = {}, .constant = std::move(value)}}};
}

/// Turns the arguments of a file into those that a schema requires.
class argument_reader {
 public:
  explicit argument_reader(const value_table& values) : values_{values} {}

  /// Throws std::invalid_argument if the value does not fit the type.
  argument read(const c10::Argument& of, const json& given) const {
    const required_type wanted{of};
    const auto& [kind, value] = tagged(given);
    auto found = of_tensors(wanted, kind, value);
    if (!found) found = of_integers(wanted, kind, value);
    if (!found) found = of_other_constants(wanted, kind, value);
    if (!found)
      throw std::invalid_argument("its argument " + of.name() + " (" + kind + ") is not what the operator requires; " +
                                  export_again);
    return *std::move(found);
  }

 private:
  using maybe = std::optional<argument>;

  operand tensor_named(const json& value) const {
    const auto& known = values_.at(value.at("name").get<std::string>());
    if (known.is != known_value::kind::tensor) throw std::invalid_argument("a number is used as a tensor");
    return {.from = known.where};
  }

  operand integer_named(const json& value) const {
    const auto& [kind, named] = tagged(value);
    if (kind == "as_int") return {.constant = named.get<std::int64_t>()};
    const auto& known = values_.at(named.get<std::string>());
    if (known.is != known_value::kind::integer) throw std::invalid_argument("a tensor is used as a number");
    return {.from = known.where};
  }

  maybe of_tensors(const required_type& wanted, const std::string& kind, const json& value) const {
    if (kind == "as_none" && wanted.is_optional) return constant({});
    if (kind == "as_tensor" && wanted.is(TypeKind::TensorType)) return argument{.operands = {tensor_named(value)}};
    if (kind == "as_tensors" && wanted.is_list_of(TypeKind::TensorType)) {
      argument list{.how = argument::form::tensors};
      for (const auto& entry : value) list.operands.push_back(tensor_named(entry));
      return list;
    }
    if (kind == "as_optional_tensor" && wanted.is(TypeKind::TensorType)) {
      const auto& [inner, named] = tagged(value);
      if (inner == "as_tensor") return argument{.operands = {tensor_named(named)}};
      if (wanted.is_optional) return constant({});
    }
    if (!wanted.is_list_of_optional_tensors()) return std::nullopt;
    argument list{.how = argument::form::optional_tensors};
    if (kind == "as_tensors") {
      for (const auto& entry : value) list.operands.push_back(tensor_named(entry));
      return list;
    }
    if (kind != "as_optional_tensors") return std::nullopt;
    for (const auto& entry : value) {
      const auto& [inner, named] = tagged(entry);
      list.operands.push_back(inner == "as_tensor" ? tensor_named(named) : operand{});
    }
    return list;
  }

  maybe of_integers(const required_type& wanted, const std::string& kind, const json& value) const {
    if (kind == "as_ints" || kind == "as_sym_ints") {
      argument list{.how = argument::form::integers};
      for (const auto& entry : value)
        list.operands.push_back(kind == "as_ints" ? operand{.constant = entry.get<std::int64_t>()}
                                                  : integer_named(entry));
      if (wanted.is_list_of_integers()) return as_constant(std::move(list));
      if (!wanted.is_list_of(TypeKind::FloatType) || kind != "as_ints") return std::nullopt;
      return constant(value.get<std::vector<double>>());
    }
    if (kind != "as_int" && kind != "as_sym_int") return std::nullopt;
    const auto number = kind == "as_int" ? operand{.constant = value.get<std::int64_t>()} : integer_named(value);
    if (wanted.is_integer() || wanted.is(TypeKind::NumberType)) return argument{.operands = {number}};
    if (wanted.is(TypeKind::TensorType)) {
      if (number.from) return argument{.how = argument::form::tensor_of_number, .operands = {number}};
      return constant(wrapped(number.constant.toInt()));
    }
    if (wanted.is_list_of_integers() && wanted.size > 0)
      return as_constant({.how = argument::form::integers,
                          .operands = std::vector<operand>(static_cast<std::size_t>(wanted.size), number)});
    if (number.from) return std::nullopt;
    if (wanted.is(TypeKind::FloatType)) return constant(static_cast<double>(number.constant.toInt()));
    if (wanted.is(TypeKind::BoolType)) return constant(number.constant.toInt() != 0);
    return std::nullopt;
  }

  /// Makes a list of integers without values of other nodes once, not in each call.
  static argument as_constant(argument list) {
    std::vector<std::int64_t> numbers;
    for (const auto& entry : list.operands) {
      if (entry.from) return list;
      numbers.push_back(entry.constant.toInt());
    }
    return constant(std::move(numbers));
  }

  static maybe of_other_constants(const required_type& wanted, const std::string& kind, const json& value) {
    if (kind == "as_float") {
      const auto number = value.get<double>();
      if (wanted.is(TypeKind::FloatType) || wanted.is(TypeKind::NumberType)) return constant(number);
      if (wanted.is(TypeKind::TensorType)) return constant(wrapped(number));
    }
    if (kind == "as_bool") {
      const auto truth = value.get<bool>();
      if (wanted.is(TypeKind::BoolType) || wanted.is(TypeKind::NumberType)) return constant(truth);
      if (wanted.is(TypeKind::TensorType)) return constant(wrapped(truth));
    }
    if (kind == "as_string" && wanted.is(TypeKind::StringType)) return constant(value.get<std::string>());
    if (kind == "as_floats" && wanted.is_list_of(TypeKind::FloatType))
      return constant(value.get<std::vector<double>>());
    if (kind == "as_bools" && wanted.is_list_of(TypeKind::BoolType)) return constant(value.get<std::vector<bool>>());
    if (kind == "as_device" && wanted.is(TypeKind::DeviceObjType)) return constant(c10::Device{c10::kCPU});
    if (!wanted.is_integer()) return std::nullopt;
    if (kind == "as_scalar_type") return constant(static_cast<std::int64_t>(scalar_type_of(value.get<std::int64_t>())));
    if (kind == "as_memory_format") return constant(static_cast<std::int64_t>(memory_format_of(value)));
    if (kind == "as_layout" && value.get<std::int64_t>() == strided)
      return constant(static_cast<std::int64_t>(at::kStrided));
    return std::nullopt;
  }

  static c10::MemoryFormat memory_format_of(const json& value) {
    switch (value.get<std::int64_t>()) {
      case 1:
        return c10::MemoryFormat::Contiguous;
      case 2:
        return c10::MemoryFormat::ChannelsLast;
      case 3:
        return c10::MemoryFormat::ChannelsLast3d;
      default:
        return c10::MemoryFormat::Preserve;
    }
  }

  static constexpr std::int64_t strided = 7;  ///< Layout.Strided of the file.

  const value_table& values_;
};

/// Returns "net.py:12" for the innermost call of a Python stack trace that is not in PyTorch itself or, if there is
/// none, in its modules. Empty if the file does not say it.
std::string place_of(const json& node) {
  const auto metadata = node.find("metadata");
  if (metadata == node.end() || !metadata->contains("stack_trace")) return {};
  const auto trace = metadata->at("stack_trace").get<std::string>();
  const std::string before = "File \"", between = "\", line ";
  std::string of_torch;
  for (auto file = trace.rfind(before); file != std::string::npos;
       file = file == 0 ? std::string::npos : trace.rfind(before, file - 1)) {
    const auto begin = file + before.size(), line = trace.find(between, begin);
    if (line == std::string::npos) break;
    const auto path = trace.substr(begin, line - begin);
    const auto number = line + between.size();
    const auto place = std::filesystem::path{path}.filename().string() + ":" +
                       trace.substr(number, trace.find_first_not_of("0123456789", number) - number);
    if (path.find("/torch/") == std::string::npos) return place;
    if (of_torch.empty() && path.find("/torch/nn/") != std::string::npos) of_torch = place;
  }
  return of_torch;
}

class node_reader {
 public:
  node_reader(const json& graph, const std::string& samples, value_table& values, program& into)
      : samples_{samples}, values_{values}, into_{into}, arguments_{values} {
    for (const auto& [name, meta] : graph.at("tensor_values").items()) tensors_.emplace(name, &meta);
  }

  void read(const json& given) {
    const auto target = given.at("target").get<std::string>();
    if (is_assertion(target)) return;
    node made{.target = target.starts_with(prefix) ? target.substr(prefix.size()) : target, .place = place_of(given)};
    try {
      if (is_comparison(target)) return;
      made.arithmetic = find_arithmetic(target);
      if (made.arithmetic != nullptr)
        read_arithmetic(given, made);
      else
        read_call(given, target, made);
      read_results(given, made);
    } catch (const std::invalid_argument& reason) {
      throw std::invalid_argument((made.place.empty() ? made.target : made.place + ": " + made.target) + ": " +
                                  reason.what());
    }
    into_.nodes.push_back(std::move(made));
  }

  /// Returns what nodes write, after all of them were read.
  written_inputs written() && {
    if (flags_ > 0 && flags_set_ == 0)
      into_.notes.push_back(
          "the module was exported in evaluation mode: its dropout and batch norm do nothing in training; to train "
          "with "
          "them, call model.train() before torch.export.export()");
    return std::move(written_);
  }

 private:
  static constexpr std::string_view prefix = "torch.ops.";

  /// Comparisons of sizes only serve assertions. What else uses one is refused, because it has no slot.
  static bool is_comparison(const std::string& target) {
    static const std::unordered_set<std::string> all{"_operator.eq", "_operator.ne", "_operator.lt",  "_operator.le",
                                                     "_operator.gt", "_operator.ge", "_operator.and_"};
    return all.contains(target);
  }

  void read_arithmetic(const json& given, node& made) const {
    for (const auto& input : given.at("inputs")) {
      const auto& [kind, value] = tagged(input.at("arg"));
      argument number;
      if (kind == "as_int")
        number.operands.push_back({.constant = value.get<std::int64_t>()});
      else if (kind == "as_sym_int")
        number.operands.push_back(integer(value));
      else
        throw std::invalid_argument(std::string("it computes with other values than sizes; ") + export_again);
      made.arguments.push_back(std::move(number));
    }
    if (made.arguments.empty() || made.arguments.size() > 2)
      throw std::invalid_argument("it has a wrong number of arguments");
  }

  operand integer(const json& value) const {
    const auto& [kind, named] = tagged(value);
    if (kind == "as_int") return {.constant = named.get<std::int64_t>()};
    const auto& known = values_.at(named.get<std::string>());
    if (known.is != known_value::kind::integer) throw std::invalid_argument("a tensor is used as a size");
    return {.from = known.where};
  }

  void read_call(const json& given, const std::string& target, node& made) {
    const auto known = find_operator(target);
    made.op = known.op;
    made.replaced = known.replaced;
    const auto& schema = known.op.schema();
    const auto& wanted = schema.arguments();
    made.arguments.resize(wanted.size());
    std::vector<bool> is_given(wanted.size());
    for (const auto& input : given.at("inputs")) {
      const auto name = input.at("name").get<std::string>();
      const auto index = schema.argumentIndexWithName(name);
      if (!index) throw std::invalid_argument("it has an argument " + name + ", which the operator does not have");
      const auto i = static_cast<std::size_t>(*index);
      made.arguments[i] = arguments_.read(wanted[i], input.at("arg"));
      if (schema.name().ends_with("index") && name == "indices") require_no_mask(input.at("arg"));
      is_given[i] = true;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!is_given[i]) made.arguments[i] = constant(default_of(wanted[i]));
      if (wanted[i].name() == "generator") made.generator = i;
      if (wanted[i].name() == "device") made.devices.push_back(i);
    }
    note_training(given, schema, made);
    note_writes(schema, made);
  }

  /// Refuses an index that selects as many values as are true.
  void require_no_mask(const json& indices) const {
    for (const auto& index : tagged(indices).second) {
      const auto& named = index.contains("as_tensor") ? index.at("as_tensor") : index;
      if (!named.contains("name")) continue;
      const auto meta = tensors_.find(named.at("name").get<std::string>());
      const auto type =
          meta == tensors_.end() ? at::kBool : scalar_type_of(meta->second->at("dtype").get<std::int64_t>());
      if (type == at::kBool || type == at::kByte)
        throw std::invalid_argument(
            "it selects as many values as a mask has true ones; use torch.where() or multiply by the mask, and export "
            "the "
            "module again");
    }
  }

  static c10::IValue default_of(const c10::Argument& of) {
    if (of.default_value()) return *of.default_value();
    if (of.type()->kind() == TypeKind::OptionalType) return {};
    throw std::invalid_argument("its argument " + of.name() + " is missing");
  }

  /// Finds what evaluation changes, and the batch norms that train.
  void note_training(const json& given, const c10::FunctionSchema& schema, node& made) {
    const auto& wanted = schema.arguments();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& name = wanted[i].name();
      if ((name == "training" || name == "train") && constant_at(made, i).isBool()) {
        ++flags_;
        if (!constant_at(made, i).toBool()) continue;
        made.training = i;
        ++flags_set_;
      }
      if (name == "dropout_p" && constant_at(made, i).isDouble()) made.drop_probability = i;
    }
    if (schema.name() != "aten::batch_norm" || !made.training) return;
    made.norm = into_.norm_channels.size();
    into_.norm_channels.push_back(channels_of(given));
  }

  /// Returns the constant of an argument; none if it is the value of a node.
  static c10::IValue constant_at(const node& made, std::size_t index) {
    const auto& all = made.arguments[index].operands;
    return all.size() == 1 && !all.front().from ? all.front().constant : c10::IValue{};
  }

  /// Returns the number of channels of a batch norm's input [N, C, …].
  std::int64_t channels_of(const json& norm) const {
    const auto name = norm.at("inputs").at(0).at("arg").at("as_tensor").at("name").get<std::string>();
    const auto meta = tensors_.find(name);
    if (meta == tensors_.end()) throw std::invalid_argument("the file does not describe its input");
    const auto& sizes = meta->second->at("sizes");
    if (sizes.size() < 2 || !sizes[1].contains("as_int"))
      throw std::invalid_argument(std::string("the number of its channels may vary; ") + export_again);
    return sizes[1].at("as_int").get<std::int64_t>();
  }

  /// Notes which inputs of the graph the operator writes, directly or through views, and of what its results are views.
  void note_writes(const c10::FunctionSchema& schema, const node& made) {
    viewed_.reset();
    const auto& wanted = schema.arguments();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto running = wanted[i].name() == "running_mean" || wanted[i].name() == "running_var";
      const auto* alias = wanted[i].alias_info();
      for (const auto& entry : made.arguments[i].operands) {
        if (!entry.from || (alias == nullptr && !running)) continue;
        const auto origin = origin_of(*entry.from);
        if (running)
          written_.by_norms.insert(origin);
        else if (alias->isWrite())
          written_.by_operators.insert(origin);
        if (alias != nullptr && !viewed_) viewed_ = origin;
      }
    }
  }

  slot origin_of(slot value) const {
    const auto found = origins_.find(value);
    return found == origins_.end() ? value : found->second;
  }

  void read_results(const json& given, node& made) {
    const auto& outputs = given.at("outputs");
    const auto expected = made.op ? made.op->schema().returns().size() : 1;
    if (outputs.size() > std::max<std::size_t>(expected, 1)) throw std::invalid_argument("it has too many results");
    for (const auto& output : outputs) {
      const auto& [kind, value] = tagged(output);
      const auto index = made.results.size();
      const auto returned = made.op && index < expected ? made.op->schema().returns()[index].type()->kind()
                            : made.op                   ? TypeKind::NoneType
                                                        : TypeKind::SymIntType;
      result into;
      if (kind == "as_tensor" && returned == TypeKind::TensorType) {
        into.into.push_back(add(value.at("name").get<std::string>(), known_value::kind::tensor));
        describe(value, made);
      } else if (kind == "as_tensors" && returned == TypeKind::ListType) {
        into.is_list = true;
        for (const auto& entry : value)
          into.into.push_back(add(entry.at("name").get<std::string>(), known_value::kind::tensor));
        if (!value.empty()) describe(value.front(), made);
      } else if (kind == "as_sym_int" && (returned == TypeKind::SymIntType || returned == TypeKind::IntType)) {
        into.into.push_back(values_.add(value.at("as_name").get<std::string>(), known_value::kind::integer));
      } else if (kind != "as_none") {
        throw std::invalid_argument("its result (" + kind + ") is not what the operator returns; " + export_again);
      }
      made.results.push_back(std::move(into));
    }
  }

  slot add(const std::string& name, known_value::kind is) {
    const auto where = values_.add(name, is);
    if (viewed_) origins_.emplace(where, *viewed_);
    return where;
  }

  void describe(const json& named, node& made) const {
    const auto meta = tensors_.find(named.at("name").get<std::string>());
    if (meta != tensors_.end() && made.sizes.empty()) made.sizes = sizes_text(*meta->second, samples_);
  }

  const std::string& samples_;
  value_table& values_;
  program& into_;
  argument_reader arguments_;
  std::unordered_map<std::string, const json*> tensors_;  ///< Descriptions of all tensors.
  std::unordered_map<slot, slot> origins_;                ///< The value of which each view is a part.
  std::optional<slot> viewed_;  ///< The value of which the results of the current call are views.
  written_inputs written_;
  std::size_t flags_{0}, flags_set_{0};
};

}  // namespace

written_inputs read_nodes(const json& graph, const std::string& samples, value_table& values, program& into) {
  node_reader reader{graph, samples, values, into};
  for (const auto& given : graph.at("nodes")) reader.read(given);
  return std::move(reader).written();
}

}  // namespace troupe::models::exported

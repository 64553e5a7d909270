#include "troupe/models/exported/reading.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>
#include <stdexcept>

namespace troupe::models::exported {

namespace {

using c10::TypeKind;

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
    if (!found && kind == "as_complex")
      throw std::invalid_argument("it has a complex constant, which is not supported");
    if (!found)
      throw std::invalid_argument("its argument " + of.name() + " (" + kind + ") is not what the operator requires; " +
                                  how_to_export_again);
    return *std::move(found);
  }

 private:
  using maybe = std::optional<argument>;

  operand tensor_named(const json& value) const {
    const auto& known = values_.at(value.at("name").get<std::string>());
    if (known.is != known_value::kind::tensor) throw std::invalid_argument("a number is used as a tensor");
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
                                                  : integer_named(values_, entry));
      if (wanted.is_list_of_integers()) return as_constant(std::move(list));
      if (!wanted.is_list_of(TypeKind::FloatType) || kind != "as_ints") return std::nullopt;
      return constant(value.get<std::vector<double>>());
    }
    if (kind != "as_int" && kind != "as_sym_int") return std::nullopt;
    const auto number =
        kind == "as_int" ? operand{.constant = value.get<std::int64_t>()} : integer_named(values_, value);
    if (wanted.is_integer() || wanted.is(TypeKind::NumberType)) return argument{.operands = {number}};
    if (wanted.is(TypeKind::TensorType)) {
      if (number.from) return argument{.how = argument::form::tensor_of_number, .operands = {number}};
      return constant(number_tensor(number.constant.toInt()));
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
      const auto number = number_of(value);
      if (wanted.is(TypeKind::FloatType) || wanted.is(TypeKind::NumberType)) return constant(number);
      if (wanted.is(TypeKind::TensorType)) return constant(number_tensor(number));
    }
    if (kind == "as_bool") {
      const auto truth = value.get<bool>();
      if (wanted.is(TypeKind::BoolType) || wanted.is(TypeKind::NumberType)) return constant(truth);
      if (wanted.is(TypeKind::TensorType)) return constant(number_tensor(truth));
    }
    if (kind == "as_string" && wanted.is(TypeKind::StringType)) return constant(value.get<std::string>());
    if (kind == "as_floats" && wanted.is_list_of(TypeKind::FloatType)) {
      std::vector<double> numbers;
      for (const auto& entry : value) numbers.push_back(number_of(entry));
      return constant(std::move(numbers));
    }
    if (kind == "as_bools" && wanted.is_list_of(TypeKind::BoolType)) return constant(value.get<std::vector<bool>>());
    if (kind == "as_device" && wanted.is(TypeKind::DeviceObjType)) return constant(c10::Device{c10::kCPU});
    if (!wanted.is_integer()) return std::nullopt;
    if (kind == "as_scalar_type") return constant(static_cast<std::int64_t>(scalar_type_of(value.get<std::int64_t>())));
    if (kind == "as_memory_format") return constant(static_cast<std::int64_t>(memory_format_of(value)));
    if (kind == "as_layout" && value.get<std::int64_t>() == strided)
      return constant(static_cast<std::int64_t>(at::kStrided));
    return std::nullopt;
  }

  /// Returns a number, which the file writes as a text if it is not finite.
  static double number_of(const json& value) {
    if (!value.is_string()) return value.get<double>();
    const auto text = value.get<std::string>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    throw std::invalid_argument("it has the number " + text + ", which is unknown");
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

}  // namespace

at::Tensor number_tensor(const at::Scalar& number) {
  const auto type = number.isBoolean() ? at::kBool : number.isFloatingPoint() ? at::kDouble : at::kLong;
  auto tensor = at::scalar_tensor(number, type);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

argument constant(c10::IValue value) {
  return {.how = argument::form::single, .operands = {{.from = {}, .constant = std::move(value)}}};
}

operand integer_named(const value_table& values, const json& value) {
  const auto& [kind, named] = tagged(value);
  if (kind == "as_int") return {.constant = named.get<std::int64_t>()};
  const auto& known = values.at(named.get<std::string>());
  if (known.is != known_value::kind::integer) throw std::invalid_argument("a tensor is used as a number");
  return {.from = known.where};
}

argument read_argument(const c10::Argument& of, const json& given, const value_table& values) {
  return argument_reader{values}.read(of, given);
}

}  // namespace troupe::models::exported

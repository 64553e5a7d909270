#include "troupe/models/exported/operators.hpp"
#include "troupe/models/exported/reading.hpp"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace troupe::models::exported {

namespace {

using c10::TypeKind;

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
      : samples_{samples}, values_{values}, into_{into} {
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
          "the module was exported in evaluation mode, so its dropout and batch norm are off in training as well; to "
          "train with them, call model.train() before torch.export.export()");
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
        number.operands.push_back(integer_named(values_, value));
      else
        throw std::invalid_argument(std::string("it computes with other values than sizes; ") + how_to_export_again);
      made.arguments.push_back(std::move(number));
    }
    if (made.arguments.empty() || made.arguments.size() > 2)
      throw std::invalid_argument("it has a wrong number of arguments");
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
      made.arguments[i] = read_argument(wanted[i], input.at("arg"), values_);
      if (schema.name().ends_with("index") && name == "indices") require_no_mask(input.at("arg"));
      is_given[i] = true;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!is_given[i]) made.arguments[i] = constant(default_of(wanted[i]));
      if (wanted[i].name() == "generator") made.generator = i;
      if (wanted[i].name() == "device") made.devices.push_back(i);
    }
    if (schema.name() == "aten::one_hot" && (!constant_at(made, 1).isInt() || constant_at(made, 1).toInt() < 0))
      throw std::invalid_argument(
          "the number of its classes depends on the values of tensors; give num_classes, and export the module again");
    note_training(given, schema, made);
    note_writes(given, schema, made);
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
    const auto index_of = [&](const char* name) { return schema.argumentIndexWithName(name); };
    const auto statistics = index_of("running_mean");
    // Without running statistics, evaluation uses those of its batch.
    const auto keeps_statistics =
        !statistics || made.arguments[static_cast<std::size_t>(*statistics)].operands.front().from;
    auto trains = false;
    for (const auto* name : {"training", "train", "use_input_stats"}) {
      const auto index = index_of(name);
      if (!index || !constant_at(made, static_cast<std::size_t>(*index)).isBool()) continue;
      trains = constant_at(made, static_cast<std::size_t>(*index)).toBool();
      ++flags_;
      flags_set_ += trains ? 1 : 0;
      if (trains && keeps_statistics) made.training = static_cast<std::size_t>(*index);
    }
    if (const auto index = index_of("dropout_p")) made.drop_probability = static_cast<std::size_t>(*index);
    if (schema.name() != "aten::batch_norm" || !trains) return;
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
    const auto& inputs = norm.at("inputs");
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [](const json& one) { return one.at("name") == "input"; });
    if (input == inputs.end()) throw std::invalid_argument("it has no input");
    const auto name = input->at("arg").at("as_tensor").at("name").get<std::string>();
    const auto meta = tensors_.find(name);
    if (meta == tensors_.end()) throw std::invalid_argument("the file does not describe its input");
    const auto& sizes = meta->second->at("sizes");
    if (sizes.size() < 2 || !sizes[1].contains("as_int"))
      throw std::invalid_argument(std::string("the number of its channels may vary; ") + how_to_export_again);
    return sizes[1].at("as_int").get<std::int64_t>();
  }

  /// Notes which inputs of the graph the operator writes, directly or through views, and of what its results are views.
  void note_writes(const json& given, const c10::FunctionSchema& schema, const node& made) {
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
          note_write(origin, made.place);
        if (alias != nullptr && !viewed_ && !converts(given, schema)) viewed_ = origin;
      }
    }
  }

  void note_write(slot origin, const std::string& place) {
    written_.by_operators.emplace(origin, place);
    if (const auto dropout = dropouts_.find(origin); dropout != dropouts_.end())
      into_.nodes[dropout->second].copies_when_off = true;
  }

  /// Returns whether a conversion returns a copy, because the type of its result is another one.
  bool converts(const json& given, const c10::FunctionSchema& schema) const {
    if (schema.name() != "aten::to") return false;
    const auto type_of_tensor = [&](const json& named) -> std::int64_t {
      const auto meta = tensors_.find(named.at("as_tensor").at("name").get<std::string>());
      return meta == tensors_.end() ? 0 : meta->second->at("dtype").get<std::int64_t>();
    };
    return type_of_tensor(given.at("inputs").at(0).at("arg")) != type_of_tensor(given.at("outputs").at(0));
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
        into.into.push_back(add(value.at("name").get<std::string>(), known_value::kind::tensor, made));
        describe(value, made);
      } else if (kind == "as_tensors" && returned == TypeKind::ListType) {
        into.is_list = true;
        for (const auto& entry : value)
          into.into.push_back(add(entry.at("name").get<std::string>(), known_value::kind::tensor, made));
        if (!value.empty()) describe(value.front(), made);
      } else if (kind == "as_sym_int" && (returned == TypeKind::SymIntType || returned == TypeKind::IntType)) {
        into.into.push_back(values_.add(value.at("as_name").get<std::string>(), known_value::kind::integer));
      } else if (kind != "as_none") {
        throw std::invalid_argument("its result (" + kind + ") is not what the operator returns; " +
                                    how_to_export_again);
      }
      made.results.push_back(std::move(into));
    }
    const auto is_size =
        made.results.size() == 1 && made.results.front().into.size() == 1 && !made.results.front().is_list;
    if (!made.op && !is_size) throw std::invalid_argument("it has no result");
  }

  slot add(const std::string& name, known_value::kind is, const node& made) {
    const auto where = values_.add(name, is);
    if (made.target.find("dropout.") != std::string::npos) dropouts_.emplace(where, into_.nodes.size());
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
  std::unordered_map<std::string, const json*> tensors_;  ///< Descriptions of all tensors.
  std::unordered_map<slot, std::size_t> dropouts_;        ///< The node of each result of a dropout.
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

#include "troupe/models/exported/reading.hpp"
#include "troupe/models/networks/model_file.hpp"

#include <torch/version.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace troupe::models::exported {

namespace {

constexpr const char* how_to_export =
    "export the module with torch.export.save(torch.export.export(model.train(), (batch,), dynamic_shapes=({0: "
    "torch.export.Dim(\"batch\")},)), \"net.pt2\")";

/// An archive whose entries are those of a folder with any name.
std::string folder_of(const files::stored_zip& archive) {
  if (archive.entries().empty()) throw files::zip_error("it is empty");
  const auto& first = archive.entries().begin()->first;
  return first.substr(0, first.find('/') + 1);
}

/// Reads a file from its archive to the values and nodes of its graph.
class program_reader {
 public:
  explicit program_reader(const std::filesystem::path& path) : archive_{path}, folder_{folder_of(archive_)} {
    into_.path = path;
  }

  std::vector<read_tensor> read_weights() {
    require_kind();
    return tensors("weights", name_of_model() + "_weights_config.json");
  }

  program read() {
    require_kind();
    const auto name = name_of_model();
    // The graph is read last, because its description takes the most memory while it is in use.
    const auto weights = tensors("weights", name + "_weights_config.json");
    const auto constants = tensors("constants", name + "_constants_config.json");
    const auto document = parsed("models/" + name + ".json", unneeded());
    require_version(document);
    const auto& module = document.at("graph_module");
    read_inputs(module, document.at("range_constraints"), weights, constants);
    const auto written = read_nodes(module.at("graph"), samples_, values_, into_);
    read_output(module.at("signature").at("output_specs"));
    note_writes(written);
    into_.slots = values_.size();
    find_last_uses();
    return std::move(into_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, const std::string& fix = how_to_export) {
    throw std::invalid_argument(what + "; " + fix);
  }

  bool has(const std::string& name) const { return archive_.find(folder_ + name) != nullptr; }

  json parsed(const std::string& name, const files::members& without = {}) const {
    auto document = files::parse_json_without(without, archive_.text(folder_ + name));
    if (document.is_discarded()) throw files::zip_error("its entry " + name + " is not JSON");
    return document;
  }

  void require_kind() const {
    if (has("constants.pkl"))
      refuse("the file is a TorchScript module, not an exported program",
             "use it as model.script, or " + std::string(how_to_export));
    if (archive_.find("serialized_exported_program.json") != nullptr || has("serialized_exported_program.json"))
      refuse("the file was written by PyTorch 2.7 or older", "with PyTorch " + torch_series() + ", " + how_to_export);
    if (!has("archive_format") || archive_.text(folder_ + "archive_format") != "pt2")
      refuse("the file is not an exported program");
  }

  std::string name_of_model() const {
    std::vector<std::string> names;
    const auto begin = folder_ + "models/", end = std::string(".json");
    for (const auto& [entry, place] : archive_.entries())
      if (entry.starts_with(begin) && entry.ends_with(end) && entry.size() > begin.size() + end.size())
        names.push_back(entry.substr(begin.size(), entry.size() - begin.size() - end.size()));
    if (names.size() != 1) refuse("the file has " + std::to_string(names.size()) + " models; expected one");
    return names.front();
  }

  /// Returns the members of the description of a graph that take much memory and are not read.
  static const files::members& unneeded() {
    static const files::members all{{1, "guards_code"},   {2, "module_call_graph"}, {5, "device"},
                                    {5, "layout"},        {5, "strides"},           {5, "storage_offset"},
                                    {5, "requires_grad"}, {6, "nn_module_stack"},   {6, "source_fn_stack"},
                                    {6, "torch_fn"},      {6, "from_node"}};
    return all;
  }

  static std::string torch_series() {
    return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  }

  static void require_version(const json& document) {
    const auto with = "with PyTorch " + torch_series() + ", " + how_to_export;
    const auto schema = document.at("schema_version").at("major").get<std::int64_t>();
    if (schema != 8) refuse("its format has the version " + std::to_string(schema) + "; expected 8", with);
    const auto torch = document.at("torch_version").get<std::string>();
    if (!torch.starts_with(torch_series() + "."))
      refuse("it was written by PyTorch " + torch + ", and the operators of another release may differ", with);
  }

  std::vector<read_tensor> tensors(const std::string& kind, const std::string& list) const {
    const auto config = parsed("data/" + kind + "/" + list);
    return read_tensors(archive_, folder_ + "data/" + kind + "/", config.at("config"));
  }

  using by_name = std::unordered_map<std::string, const read_tensor*>;

  static by_name named(const std::vector<read_tensor>& tensors) {
    by_name names;
    for (const auto& tensor : tensors) names.emplace(tensor.name, &tensor);
    return names;
  }

  static const read_tensor& find(const by_name& names, const std::string& name) {
    const auto found = names.find(name);
    if (found == names.end()) throw files::zip_error("it has no values of " + name);
    return *found->second;
  }

  /// Reads what the graph starts from, in the order of the module's parameters and buffers.
  void read_inputs(const json& module, const json& ranges, const std::vector<read_tensor>& weights,
                   const std::vector<read_tensor>& constants) {
    const auto weight_names = named(weights), constant_names = named(constants);
    std::unordered_set<std::string> placed;
    bool has_input = false;
    for (const auto& spec : module.at("signature").at("input_specs")) {
      const auto& [kind, about] = tagged(spec);
      if (kind == "parameter") {
        const auto name = about.at("parameter_name").get<std::string>();
        placed.insert(name);
        place(find(weight_names, name), add(about));
      } else if (kind == "buffer") {
        const auto name = about.at("buffer_name").get<std::string>();
        if (about.at("persistent").get<bool>()) {
          placed.insert(name);
          place(find(weight_names, name), add(about));
        } else {
          into_.constants.push_back({name, find(constant_names, name).values, add(about)});
        }
      } else if (kind == "tensor_constant") {
        const auto name = about.at("tensor_constant_name").get<std::string>();
        into_.constants.push_back({name, find(constant_names, name).values, add(about)});
      } else if (kind == "user_input") {
        if (has_input) refuse("its forward() has several inputs; Troupe passes one, a batch of samples");
        has_input = true;
        read_input(about.at("arg"), module.at("graph").at("tensor_values"), ranges);
      } else if (kind != "constant_input") {
        refuse("its forward() has an input of the kind " + kind + ", which is not supported");
      }
    }
    if (!has_input) refuse("its forward() has no input");
    for (const auto& weight : weights)  // other names of tied parameters, and what no node uses
      if (!placed.contains(weight.name)) place(weight, std::nullopt);
    require_something_to_learn();
  }

  slot add(const json& about) {
    return values_.add(about.at("arg").at("name").get<std::string>(), known_value::kind::tensor);
  }

  void place(const read_tensor& tensor, std::optional<slot> where) {
    if (!tensor.learnable) return place_buffer(tensor, where);
    if (tensor.values.scalar_type() != at::kFloat)
      refuse(tensor.name + " is " + type_name(tensor.values.scalar_type()) + ", but parameters must be float32",
             "export model.float()");
    if (tensor.values.numel() == 0)
      refuse(tensor.name + " has no elements", "export the module without it, or give it a size");
    placed_.emplace(tensor.values.unsafeGetTensorImpl(), tensor.name);
    into_.parameters.push_back({tensor.name, tensor.values, where});
  }

  void place_buffer(const read_tensor& tensor, std::optional<slot> where) {
    const auto same = placed_.find(tensor.values.unsafeGetTensorImpl());
    if (same != placed_.end())
      refuse("its buffer " + tensor.name + " is the memory of the parameter " + same->second,
             "register a clone of the parameter, or use the parameter itself");
    into_.buffers.push_back({tensor.name, tensor.values, where});
  }

  void require_something_to_learn() const {
    if (into_.parameters.empty())
      refuse("the module has no trainable parameters", "export it with requires_grad set on the parameters to train");
  }

  void read_input(const json& given, const json& tensor_values, const json& ranges) {
    const auto& [kind, about] = tagged(given);
    if (kind != "as_tensor") refuse("the input of its forward() is not a tensor");
    const auto name = about.at("name").get<std::string>();
    const auto& meta = tensor_values.at(name);
    auto& input = into_.input;
    input.where = values_.add(name, known_value::kind::tensor);
    input.type = scalar_type_of(meta.at("dtype").get<std::int64_t>());
    for (const auto& size : meta.at("sizes"))
      input.sizes.push_back(size.contains("as_int") ? std::optional{size.at("as_int").get<std::int64_t>()}
                                                    : std::nullopt);
    if (input.sizes.empty()) refuse("the input of its forward() has no dimension for the samples");
    if (input.sizes.front())
      refuse("the number of samples in a batch is fixed to " + std::to_string(*input.sizes.front()) +
             " (or the first dimension does not count samples)");
    samples_ = symbol_of(meta.at("sizes").front());
    if (samples_.empty()) refuse("the number of samples in a batch is limited to multiples of a number");
    const auto range = ranges.find(samples_);
    if (range == ranges.end()) return;
    // PyTorch assumes at least two samples for every size that may vary; its operators accept one as well.
    const auto bound = [&](const char* key, std::int64_t none) {
      return range->contains(key) && range->at(key).is_number_integer() ? range->at(key).get<std::int64_t>() : none;
    };
    const auto least = bound("min_val", 0);
    input.samples.least = least <= 2 ? 0 : least;
    input.samples.most = bound("max_val", input.samples.most);
  }

  void read_output(const json& specs) {
    std::vector<std::string> names;
    for (const auto& spec : specs) {
      const auto& [kind, about] = tagged(spec);
      if (kind == "user_input_mutation")
        refuse("its forward() changes its input", "use an operator that returns a copy");
      if (kind != "user_output")
        refuse("it was changed after its export (" + kind +
               "), as by run_decompositions(), and is not in the form for training");
      const auto& [type, value] = tagged(about.at("arg"));
      if (type != "as_tensor")
        refuse("its forward() returns other values than tensors; expected a single tensor for the loss");
      names.push_back(value.at("name").get<std::string>());
    }
    if (names.size() != 1)
      refuse("its forward() returns " + std::to_string(names.size()) + " tensors; expected a single one for the loss");
    const auto& output = values_.at(names.front());
    if (output.is != known_value::kind::tensor) refuse("its forward() does not return a tensor");
    into_.output = output.where;
    const auto is_result = [&](const result& one) {
      return std::find(one.into.begin(), one.into.end(), output.where) != one.into.end();
    };
    const auto returns = [&](const node& one) {
      return std::any_of(one.results.begin(), one.results.end(), is_result);
    };
    if (std::none_of(into_.nodes.begin(), into_.nodes.end(), returns))
      refuse("its forward() returns its input or a tensor of the module; expected the result of an operator",
             "return what is to be trained");
  }

  /// Refuses writes to what is not kept from step to step, and notes which buffers change.
  void note_writes(const written_inputs& written) {
    const auto changes = [&](const stored_tensor& tensor) {
      return tensor.where && (written.by_operators.contains(*tensor.where) || written.by_norms.contains(*tensor.where));
    };
    const auto place = [&](std::optional<slot> where) -> std::string {
      const auto found = where ? written.by_operators.find(*where) : written.by_operators.end();
      return found == written.by_operators.end() || found->second.empty() ? "" : found->second + ": ";
    };
    if (written.by_operators.contains(into_.input.where))
      refuse(place(into_.input.where) + "its forward() changes its input", "use an operator that returns a copy");
    for (const auto& parameter : into_.parameters)
      if (changes(parameter))
        refuse(place(parameter.where) + "its forward() changes the parameter " + parameter.name,
               "change a copy of it, and leave out options such as max_norm of an embedding");
    for (const auto& constant : into_.constants)
      if (changes(constant))
        refuse(place(constant.where) + "its forward() changes " + constant.name + ", which is not in its state_dict",
               "register it as a buffer with persistent=True");
    for (auto& buffer : into_.buffers) {
      if (!changes(buffer)) continue;
      if (buffer.values.scalar_type() != at::kFloat && !counts_batches(buffer.name, buffer.values))
        refuse(place(buffer.where) + "its forward() changes the buffer " + buffer.name + ", which is " +
                   type_name(buffer.values.scalar_type()) + ", but only float32 buffers may change",
               "make it float32");
      buffer.changes = written.by_operators.contains(*buffer.where);
    }
  }

  /// Finds the last use of each value that is the result of a node.
  void find_last_uses() {
    std::unordered_set<slot> made, used{into_.output};
    for (const auto& node : into_.nodes)
      for (const auto& result : node.results) made.insert(result.into.begin(), result.into.end());
    for (auto node = into_.nodes.rbegin(); node != into_.nodes.rend(); ++node) {
      const auto release = [&](slot value) {
        if (made.contains(value) && used.insert(value).second) node->last_uses.push_back(value);
      };
      for (const auto& argument : node->arguments)
        for (const auto& entry : argument.operands)
          if (entry.from) release(*entry.from);
      for (const auto& result : node->results)
        for (const auto value : result.into) release(value);
    }
  }

  files::stored_zip archive_;
  std::string folder_;
  program into_{};
  value_table values_;
  std::string samples_;                                             ///< Symbol of the number of samples.
  std::unordered_map<const c10::TensorImpl*, std::string> placed_;  ///< Parameters by their tensors.
};

}  // namespace

slot value_table::add(const std::string& name, known_value::kind is) {
  if (!values_.emplace(name, known_value{next_, is}).second)
    throw std::invalid_argument("two of its values are called " + name);
  return next_++;
}

const known_value& value_table::at(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end())
    throw std::invalid_argument("it uses a value " + name + " that no earlier operator returns");
  return found->second;
}

std::pair<const std::string&, const json&> tagged(const json& value) {
  if (!value.is_object() || value.size() != 1) throw std::invalid_argument("it has a value without a type");
  const auto only = value.begin();
  return {only.key(), only.value()};
}

namespace {

/// Returns act(), and turns every failure into a file_error.
template <class Act>
auto reading(const std::filesystem::path& path, Act act) {
  const auto refuse = [&](const std::string& what) -> file_error { return file_error(path.string() + ": " + what); };
  try {
    return act();
  } catch (const files::unreadable& problem) {
    throw file_error(problem.what());
  } catch (const files::zip_error& problem) {
    throw refuse(std::string("not a complete exported program: ") + problem.what() + "; copy or export it again");
  } catch (const json::exception& problem) {  // "[json.exception.out_of_range.403] key 'graph' not found"
    const std::string text = problem.what();
    throw refuse("its description of the graph is damaged (" + text.substr(text.find(' ') + 1) +
                 "); copy or export it again");
  } catch (const std::invalid_argument& problem) {
    throw refuse(problem.what());
  }
}

}  // namespace

program read_program(const std::filesystem::path& path) {
  return reading(path, [&] { return program_reader{path}.read(); });
}

std::vector<read_tensor> read_weights(const std::filesystem::path& path) {
  return reading(path, [&] { return program_reader{path}.read_weights(); });
}

}  // namespace troupe::models::exported

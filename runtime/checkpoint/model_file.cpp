#include "troupe/runtime/checkpoint/model_file.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

namespace troupe::checkpoint {

namespace {

constexpr auto* model_file_version = "1";

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Lists at most three of `items` and the number of the remaining ones.
std::string some_of(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(items.size(), 3); ++i) text += (i > 0 ? ", " : "") + items[i];
  return items.size() > 3 ? text + " and " + std::to_string(items.size() - 3) + " more" : text;
}

/// Parses a metadata entry that is a list of double or std::string.
template <class Item>
std::vector<Item> list_of(const std::filesystem::path& path, const weights& content, const std::string& key) {
  constexpr bool numbers = std::is_same_v<Item, double>;
  const auto entry = content.metadata.find(key);
  if (entry == content.metadata.end()) return {};
  const auto list = files::parse_json(entry->second);
  const auto fits = [](const auto& item) { return numbers ? item.is_number() : item.is_string(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), fits))
    throw input_error(path.string() + ": the metadata entry " + key + " is not a list of " +
                      (numbers ? "numbers" : "strings") + "; save the weights again");
  return list.get<std::vector<Item>>();
}

std::vector<double> numbers(const std::filesystem::path& path, const weights& content, const std::string& key) {
  return list_of<double>(path, content, key);
}

/// Differences between the tensors of a file and those of a model.
struct differences {
  std::vector<std::string> missing, unexpected, reshaped;
  bool any() const { return !missing.empty() || !unexpected.empty() || !reshaped.empty(); }
  std::string text() const {
    std::string description;
    const auto add = [&](const std::string& label, const std::vector<std::string>& items) {
      if (!items.empty()) description += (description.empty() ? "" : "; ") + label + some_of(items);
    };
    add("missing: ", missing);
    add("unexpected: ", unexpected);
    add("wrong shape: ", reshaped);
    return description;
  }
};

}  // namespace

void write_model(const std::filesystem::path& path, const model_card& card, const models::flat_layout& layout,
                 const at::Tensor& flat) {
  weights content;
  content.tensors = models::unflatten(layout, flat);
  for (const auto& [name, first] : card.tied) {
    const auto named = [&, &first = first](const auto& tensor) { return tensor.first == first; };
    const auto original = std::find_if(content.tensors.begin(), content.tensors.end(), named);
    if (original == content.tensors.end())
      throw std::runtime_error(path.string() + ": the model has no tensor " + first + " for the additional name " +
                               name);
    content.tensors.emplace_back(name, at::Tensor{original->second});
  }
  for (const auto& [name, values] : card.constants) content.tensors.emplace_back(name, values.cpu().contiguous());
  content.metadata = {{"troupe_format", model_file_version},
                      {"model", card.model},
                      {"data", card.data},
                      {"loss", card.loss},
                      {"mean", files::json_text(card.scale.mean)},
                      {"std", files::json_text(card.scale.std)}};
  if (!card.shape.empty()) content.metadata["shape"] = files::json_text(card.shape);
  if (!card.class_names.empty()) content.metadata["class_names"] = files::json_text(card.class_names);
  if (!card.made_by.empty()) content.metadata["made_by"] = files::json_text(card.made_by);
  write_safetensors(path, content);
}

model_card card_of(const std::filesystem::path& path, const weights& content) {
  const auto text = [&](const std::string& key) {
    const auto entry = content.metadata.find(key);
    return entry == content.metadata.end() ? std::string() : entry->second;
  };
  const auto version = text("troupe_format");
  if (!version.empty() && version != model_file_version)
    throw input_error(path.string() + ": unsupported model file format " + version + "; expected format " +
                      model_file_version);
  model_card card{
      text("model"), text("data"), {numbers(path, content, "mean"), numbers(path, content, "std")}, text("loss")};
  constexpr double most = 1 << 30;
  const auto whole = [&](const std::string& key) {
    std::vector<std::int64_t> sizes;
    for (const auto size : numbers(path, content, key)) {
      if (!(size >= 1 && size <= most) || size != std::floor(size))
        throw input_error(path.string() + ": the metadata entry " + key +
                          " contains an invalid size; save the weights again");
      sizes.push_back(static_cast<std::int64_t>(size));
    }
    return sizes;
  };
  card.shape = whole("shape");
  card.class_names = list_of<std::string>(path, content, "class_names");
  card.made_by = list_of<std::string>(path, content, "made_by");
  if (card.scale.mean.size() != card.scale.std.size())
    throw input_error(path.string() +
                      ": the metadata entries mean and std have different lengths; save the weights again");
  return card;
}

at::Tensor load_into(const std::filesystem::path& path, const weights& content, const std::string& model,
                     const models::flat_layout& layout, models::buffer_pool& pool,
                     const std::vector<models::tied_name>& tied, const models::network::named_tensors& constants) {
  std::map<std::string, at::Tensor> given(content.tensors.begin(), content.tensors.end());
  for (const auto& [name, first] : tied) {
    auto further = given.extract(name);
    if (further.empty()) continue;
    const auto [known, alone] = given.try_emplace(first, further.mapped());
    if (!alone && !known->second.equal(further.mapped()))
      throw input_error(path.string() + ": " + first + " and " + name + " are the same tensor in " + model +
                        ", but they differ in this file; use weights that were saved from " + model);
  }
  for (const auto& [name, right] : constants) {
    const auto values = given.extract(name);
    if (!values.empty() && !values.mapped().to(right.scalar_type()).equal(right))
      throw input_error(path.string() + ": " + name + " is a constant of " + model +
                        ", but it differs in this file; use weights that were saved from " + model);
  }
  auto flat = pool.take_zeros(layout.total);
  differences mismatches;
  for (const auto* entries : {&layout.parameters, &layout.buffers})
    for (const auto& entry : *entries) {
      const auto node = given.extract(entry.name);
      if (node.empty()) {
        mismatches.missing.push_back(entry.name);
      } else if (const auto& values = node.mapped(); values.sizes() != at::IntArrayRef(entry.shape)) {
        mismatches.reshaped.push_back(entry.name + " " + shape_text(values.sizes()) + " instead of " +
                                      shape_text(entry.shape));
      } else {
        flat.narrow(0, entry.first, entry.count).copy_(values.reshape({-1}));
      }
    }
  for (const auto& [name, values] : given) mismatches.unexpected.push_back(name);
  if (!mismatches.any()) return flat;
  const auto maker = content.metadata.find("model");
  const bool foreign = maker != content.metadata.end() && maker->second != model;
  throw input_error(path.string() + ": these are not the weights of " + model + " (" + mismatches.text() + "); " +
                    (foreign ? "the file was saved from " + maker->second + "; use the model " + maker->second
                             : "use weights that were saved from " + model));
}

}  // namespace troupe::checkpoint

// Samples that were prepared in Python: a safetensors file with the tensors `inputs` and `targets`, one sample in each
// row of both.
#include "troupe/data/formats/reading.hpp"
#include "troupe/data/formats/safetensors.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/json.hpp"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <charconv>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// A larger label is a mistake, such as an identifier in the place of a label; every class has a name in memory.
constexpr std::int64_t classes_at_most = std::int64_t{1} << 20;

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// One of the two files.
class samples {
 public:
  samples(fs::path file, const std::string& key) : file_{std::move(file)} {
    content_ = reading(file_, key, "the samples", [](const fs::path& path) {
      const files::input opened{path};  // if this fails, the message names the key
      return read_safetensors(path, {.wanted = {"inputs", "targets"}});
    });
    inputs_ = as_inputs(tensor("inputs"));
    targets_ = as_targets(tensor("targets"));
    if (inputs_.size(0) != targets_.size(0)) {
      fail(std::to_string(inputs_.size(0)) + " inputs and " + std::to_string(targets_.size(0)) +
           " targets; expected equal numbers of both");
    }
    if (inputs_.numel() == 0)
      fail("inputs have shape " + shape_text(inputs_.sizes()) + "; expected at least one sample");
    if (targets_.dim() == 2 && (inputs_.scalar_type() != at::kLong || targets_.sizes() != inputs_.sizes())) {
      fail("targets have shape " + shape_text(targets_.sizes()) +
           "; expected one target per sample, or int64 targets of the same shape as int64 inputs, one per position");
    }
    // Tokens are not classes here, but a network's table has a row for each token up to the highest.
    if (inputs_.scalar_type() == at::kLong && targets_.dim() == 1) check_range("inputs", inputs_, classes_at_most);
    check_numbers("inputs", inputs_);
    check_numbers("targets", targets_);
  }

  // Returns the names that the file gives to classes; empty if it gives none.
  std::vector<std::string> classes() const {
    const auto entry = content_.metadata.find("classes");
    if (entry == content_.metadata.end()) return {};
    const auto given = files::parse_json(entry->second);
    const auto is_name = [](const auto& value) { return value.is_string(); };
    if (given.is_array() && !given.empty() && std::all_of(given.begin(), given.end(), is_name))
      return given.get<std::vector<std::string>>();
    if (given.is_number_integer() && given >= 1 && given <= classes_at_most) return numbered(given.get<std::int64_t>());
    fail(
        "metadata entry `classes` is neither a number of classes nor a list of class names; expected, for instance, "
        "\"10\"");
  }

  static std::vector<std::string> numbered(std::int64_t count) {
    std::vector<std::string> names;
    for (std::int64_t index = 0; index < count; ++index) names.push_back(std::to_string(index));
    return names;
  }

  bool stand_for_numbers() const { return targets_.scalar_type() == at::kFloat; }

  // Returns the number of classes implied by the targets, and for text also by the inputs.
  std::int64_t classes_shown() const {
    auto most = targets_.max().item<std::int64_t>();
    if (targets_.dim() == 2) most = std::max(most, inputs_.max().item<std::int64_t>());
    return most + 1;
  }

  // Throws if a target or, for text, an input is not below `count`.
  void check_classes(std::int64_t count) const {
    check_range("targets", targets_, count);
    if (targets_.dim() == 2) check_range("inputs", inputs_, count);
  }

  void check_like(const samples& training) const {
    const auto& other = training.inputs_;
    if (inputs_.sizes().slice(1) != other.sizes().slice(1) || inputs_.scalar_type() != other.scalar_type()) {
      fail("its samples are " + std::string(c10::toString(inputs_.scalar_type())) + " with shape " +
           shape_text(inputs_.sizes().slice(1)) + ", but those of " + training.file_.filename().string() + " are " +
           c10::toString(other.scalar_type()) + " with shape " + shape_text(other.sizes().slice(1)) +
           "; expected the same type and shape in both files");
    }
    if (targets_.scalar_type() != training.targets_.scalar_type() || targets_.dim() != training.targets_.dim()) {
      fail("its targets differ in kind from those of " + training.file_.filename().string() +
           "; expected class indices in both, or numbers in both");
    }
  }

  std::shared_ptr<const dataset> set(const std::vector<std::string>& classes) const {
    return std::make_shared<dataset>(dataset{.inputs = inputs_, .targets = targets_, .classes = classes});
  }

  std::vector<std::int64_t> sample_shape() const { return inputs_.sizes().slice(1).vec(); }

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw data_error(file_.string() + ": " + reason); }

  at::Tensor tensor(const std::string& name) const {
    std::string names;
    for (const auto& [known, values] : content_.tensors) {
      if (known == name) return values;
      names += (names.empty() ? "" : ", ") + known;
    }
    for (const auto& known : content_.left_out) names += (names.empty() ? "" : ", ") + known;
    fail("the file has no tensor named \"" + name + "\"" + (names.empty() ? "" : " (it has " + names + ")") +
         "; save it in Python with safetensors.torch.save_file({\"inputs\": …, \"targets\": …}, \"" +
         file_.filename().string() + "\")");
  }

  at::Tensor as_inputs(const at::Tensor& given) const {
    if (given.scalar_type() == at::kByte && given.dim() == 4) return given;
    if (at::isFloatingType(given.scalar_type()) && given.dim() >= 2) return given.to(at::kFloat);
    if ((given.scalar_type() == at::kLong || given.scalar_type() == at::kInt) && given.dim() == 2)
      return given.to(at::kLong);
    fail("inputs are " + std::string(c10::toString(given.scalar_type())) + " with shape " + shape_text(given.sizes()) +
         "; expected uint8 [N, C, H, W] for images, a floating-point type [N, …], or int64 [N, T] for tokens");
  }

  // Returns the targets, [N] instead of [N, 1] unless each sample is a single token.
  at::Tensor as_targets(const at::Tensor& given) const {
    const auto type = given.scalar_type();
    const bool tokens = inputs_.scalar_type() == at::kLong && inputs_.sizes() == given.sizes();
    const auto values = given.dim() == 2 && given.size(1) == 1 && !tokens ? given.squeeze(1) : given;
    if (values.dim() == 1 && at::isFloatingType(type)) return values.to(at::kFloat);
    if (values.dim() >= 1 && values.dim() <= 2 && at::isIntegralType(type, true)) return values.to(at::kLong);
    fail(
        "targets are " + std::string(c10::toString(type)) + " with shape " + shape_text(given.sizes()) +
        "; expected int64 or bool [N] or [N, 1] for class indices, a floating-point type [N] or [N, 1] for numbers, or "
        "int64 [N, T] for tokens");
  }

  void check_numbers(const std::string& name, const at::Tensor& values) const {
    if (values.scalar_type() != at::kFloat) return;
    const auto* begin = values.const_data_ptr<float>();
    const auto* end = begin + values.numel();
    const auto* wrong = std::find_if_not(begin, end, [](float value) { return std::isfinite(value); });
    if (wrong == end) return;
    fail(name + " of sample " + std::to_string((wrong - begin) / (values.numel() / values.size(0))) +
         " (counting from 0) contain " + (std::isnan(*wrong) ? "nan" : "an infinite number") +
         "; expected finite single-precision numbers");
  }

  void check_range(const std::string& name, const at::Tensor& values, std::int64_t count) const {
    const auto* begin = values.const_data_ptr<std::int64_t>();
    const auto* end = begin + values.numel();
    const auto* wrong = std::find_if(begin, end, [&](auto value) { return value < 0 || value >= count; });
    if (wrong == end) return;
    const auto sample = (wrong - begin) / (values.numel() / values.size(0));
    fail(name + " of sample " + std::to_string(sample) + " (counting from 0) " +
         (values.dim() == 1 ? "is " : "contain ") + std::to_string(*wrong) + "; expected 0 to " +
         std::to_string(count - 1));
  }

  fs::path file_;
  tensor_file content_;
  at::Tensor inputs_, targets_;
};

dataset_pair load_tensors(const data_source& from) {
  const samples train{from.file, "data.file"};
  std::optional<samples> test;
  if (!from.test_file.empty()) {
    test.emplace(from.test_file, "data.test_file");
    test->check_like(train);
  }
  std::vector<std::string> classes;
  if (!train.stand_for_numbers()) {
    classes = train.classes();
    const bool told = !classes.empty();
    const auto most = told ? static_cast<std::int64_t>(classes.size()) : classes_at_most;
    train.check_classes(most);
    if (test) test->check_classes(most);
    if (!told) {
      classes = samples::numbered(std::max(train.classes_shown(), test ? test->classes_shown() : 0));
    }
  }
  dataset_pair pair{.train = train.set(classes),
                    .test{},
                    .scale{},
                    .files = {from.file.string()},
                    .sample_shape = train.sample_shape()};
  pair.test = test ? test->set(classes) : pair.train;
  if (test) pair.files.push_back(from.test_file.string());
  return pair;
}

}  // namespace

dataset_kind tensors() {
  return {.name = "tensors",
          .explanation = "your own safetensors file with the tensors `inputs` and `targets`, as saved by Python",
          .folder = "",
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load = load_tensors,
          .reads = {"file", "test_file"}};
}

}  // namespace troupe::data

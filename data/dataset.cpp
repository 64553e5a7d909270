#include "troupe/data/dataset.hpp"

#include <ATen/ops/empty.h>

#include <array>
#include <cstdlib>

namespace troupe::data {

// One for each data set, in the file of its name.
dataset_kind cifar10();
dataset_kind digits();
dataset_kind mnist();
dataset_kind fashion_mnist();

namespace {

// What each of the 256 byte values becomes, in single precision and in the order of operations of torchvision's
// ToTensor and Normalize, so that the values are those of a PyTorch script to the last bit.
std::array<float, 256> levels(const normalisation& scale, std::size_t channel) {
  const float mean = scale.mean.empty() ? 0.0f : static_cast<float>(scale.mean.at(channel));
  const float std = scale.std.empty() ? 1.0f : static_cast<float>(scale.std.at(channel));
  std::array<float, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte)
    table[byte] = (static_cast<float>(byte) / 255.0f - mean) / std;
  return table;
}

}  // namespace

batch make_batch(const dataset& set, const normalisation& scale, const std::vector<std::int64_t>& indices) {
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t channels = set.inputs.size(1);
  const std::int64_t pixels = set.inputs.size(2) * set.inputs.size(3);
  std::vector<std::array<float, 256>> tables;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    tables.push_back(levels(scale, static_cast<std::size_t>(channel)));
  }
  batch made{at::empty({count, channels, set.inputs.size(2), set.inputs.size(3)}, at::kFloat),
             at::empty({count}, at::kLong)};
  const auto* bytes = set.inputs.const_data_ptr<std::uint8_t>();
  const auto* targets = set.targets.const_data_ptr<std::int64_t>();
  auto* value = made.inputs.mutable_data_ptr<float>();
  auto* target = made.targets.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= set.size()) {
      throw std::out_of_range("sample " + std::to_string(index) + " of a data set of " + std::to_string(set.size()));
    }
    const std::uint8_t* byte = bytes + index * channels * pixels;
    for (const auto& table : tables) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) *value++ = table[*byte++];
    }
    *target++ = targets[index];
  }
  return made;
}

const std::vector<dataset_kind>& dataset_kinds() {
  static const std::vector<dataset_kind> kinds{digits(), mnist(), fashion_mnist(), cifar10()};
  return kinds;
}

const dataset_kind* find_dataset(const std::string& name) {
  for (const auto& kind : dataset_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::filesystem::path data_folder(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("TROUPE_DATA");
  return named != nullptr && *named != '\0' ? named : "data-cache";
}

}  // namespace troupe::data

#include "troupe/data/dataset.hpp"

#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

namespace troupe::data {

// One for each data set, in the file of its name.
dataset_kind cifar10();
dataset_kind digits();
dataset_kind mnist();
dataset_kind fashion_mnist();
dataset_kind libsvm();
dataset_kind sparse();
dataset_kind triplets();
dataset_kind image_folder();
dataset_kind tensors();
dataset_kind text();

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

// The elements at `indices`, in that order.
template <class Number>
at::Tensor gathered(const at::Tensor& all, const std::vector<std::int64_t>& indices) {
  at::Tensor made = at::empty({static_cast<std::int64_t>(indices.size())}, all.options());
  const auto* from = all.const_data_ptr<Number>();
  std::transform(indices.begin(), indices.end(), made.mutable_data_ptr<Number>(),
                 [&](std::int64_t index) { return from[index]; });
  return made;
}

at::Tensor targets_of(const dataset& set, const std::vector<std::int64_t>& indices) {
  return set.targets.scalar_type() == at::kFloat ? gathered<float>(set.targets, indices)
                                                 : gathered<std::int64_t>(set.targets, indices);
}

// The first sparse CSR tensor of a process makes LibTorch warn that their kind is young: that is none of a user's
// business, so it is made here, with nobody listening.
void hush() {
  struct deaf : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  [[maybe_unused]] static const bool once = [] {
    deaf handler;
    const c10::WarningUtils::WarningHandlerGuard guard{&handler};
    const at::Tensor none = at::empty({0}, at::kInt), begins = at::zeros({1}, at::kInt);
    at::_sparse_csr_tensor_unsafe(begins, none, none, {0, 1}, none.options().layout(at::kSparseCsr));
    return true;
  }();
}

at::Tensor csr(const sparse_rows& rows, const std::vector<std::int64_t>& indices) {
  std::int64_t nonzeros = 0;
  for (const std::int64_t index : indices) nonzeros += rows.at(index).count;
  if (nonzeros > std::numeric_limits<std::int32_t>::max()) {
    throw std::out_of_range("a batch of " + std::to_string(nonzeros) + " nonzeros; data.batch_size is too large");
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  const at::Tensor begins = at::empty({count + 1}, at::kInt), columns = at::empty({nonzeros}, at::kInt);
  const at::Tensor values = at::empty({nonzeros}, at::kFloat);
  auto* begin = begins.mutable_data_ptr<std::int32_t>();
  auto* column = columns.mutable_data_ptr<std::int32_t>();
  auto* value = values.mutable_data_ptr<float>();
  *begin = 0;
  for (const std::int64_t index : indices) {
    const auto row = rows.at(index);
    column = std::copy_n(row.columns, row.count, column);
    value = std::copy_n(row.values, row.count, value);
    begin[1] = begin[0] + static_cast<std::int32_t>(row.count);
    ++begin;
  }
  hush();
  // Without checks: rows are checked when they are read, and a look at each batch would take longer than its step.
  return at::_sparse_csr_tensor_unsafe(begins, columns, values, {count, rows.columns()},
                                       values.options().layout(at::kSparseCsr));
}

}  // namespace

batch make_batch(const dataset& set, const normalisation& scale, const std::vector<std::int64_t>& indices,
                 const augmenting& by) {
  (void)by;
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= set.size()) {
      throw std::out_of_range("sample " + std::to_string(index) + " of a data set of " + std::to_string(set.size()));
    }
  }
  if (set.rows) return {csr(*set.rows, indices), targets_of(set, indices)};
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t channels = set.inputs.size(1);
  const std::int64_t pixels = set.inputs.size(2) * set.inputs.size(3);
  std::vector<std::array<float, 256>> tables;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    tables.push_back(levels(scale, static_cast<std::size_t>(channel)));
  }
  batch made{at::empty({count, channels, set.inputs.size(2), set.inputs.size(3)}, at::kFloat),
             targets_of(set, indices)};
  const auto* bytes = set.inputs.const_data_ptr<std::uint8_t>();
  auto* value = made.inputs.mutable_data_ptr<float>();
  for (const std::int64_t index : indices) {
    const std::uint8_t* byte = bytes + index * channels * pixels;
    for (const auto& table : tables) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) *value++ = table[*byte++];
    }
  }
  return made;
}

const std::vector<dataset_kind>& dataset_kinds() {
  static const std::vector<dataset_kind> kinds{digits(),  mnist(), fashion_mnist(), cifar10(),  image_folder(),
                                               tensors(), text(),  libsvm(),        triplets(), sparse()};
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

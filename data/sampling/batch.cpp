#include "troupe/data/sampling/batch.hpp"

#include "troupe/data/formats/checked_rows.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/sampling/augment.hpp"

#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::data {

namespace {

using table = std::array<float, 256>;

// Returns the value for each of the 256 byte values, computed in single precision and in the order of operations of
// torchvision's ToTensor and Normalize, so that the values are those of a PyTorch script, bit for bit.
table levels(const normalisation& scale, std::size_t channel) {
  const float mean = scale.mean.empty() ? 0.0f : static_cast<float>(scale.mean.at(channel));
  const float std = scale.std.empty() ? 1.0f : static_cast<float>(scale.std.at(channel));
  table values{};
  for (std::size_t byte = 0; byte < values.size(); ++byte)
    values[byte] = (static_cast<float>(byte) / 255.0f - mean) / std;
  return values;
}

std::vector<std::int64_t> sizes_of(std::int64_t count, at::IntArrayRef one) {
  std::vector<std::int64_t> sizes{count};
  sizes.insert(sizes.end(), one.begin(), one.end());
  return sizes;
}

/// Returns the sizes of the inputs of a batch of `count` samples.
std::vector<std::int64_t> input_sizes(const dataset& set, std::int64_t count) {
  return set.files ? sizes_of(count, set.files->shape()) : sizes_of(count, set.inputs.sizes().slice(1));
}

bool are_images(const dataset& set) {
  return set.files || set.inputs.scalar_type() == at::kByte;
}

at::ScalarType input_type(const dataset& set) {
  return are_images(set) ? at::kFloat : set.inputs.scalar_type();
}

// Copies the samples at `indices`, in that order and as they are.
void gather(const at::Tensor& all, std::span<const std::int64_t> indices, const at::Tensor& into) {
  if (indices.empty()) return;
  const auto bytes = into.nbytes() / indices.size();
  const auto* from = static_cast<const char*>(all.const_data_ptr());
  auto* to = static_cast<char*>(into.mutable_data_ptr());
  for (const std::int64_t index : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(index) * bytes, bytes);
    to += bytes;
  }
}

at::Tensor targets_of(const dataset& set, const std::vector<std::int64_t>& indices) {
  const auto result = at::empty(sizes_of(static_cast<std::int64_t>(indices.size()), set.targets.sizes().slice(1)),
                                set.targets.options());
  gather(set.targets, indices, result);
  return result;
}

void fill_images(const dataset& set, const normalisation& scale, std::span<const std::int64_t> indices,
                 const augmenting& by, const at::Tensor& into) {
  const image_size size{into.size(1), into.size(2), into.size(3)};
  std::vector<table> tables;
  for (std::int64_t channel = 0; channel < size.channels; ++channel)
    tables.push_back(levels(scale, static_cast<std::size_t>(channel)));
  std::optional<augmenter> changes;
  if (by.how && by.how->any()) changes.emplace(*by.how, size);
  std::vector<std::uint8_t> scratch(set.files || changes ? size.bytes() : 0);
  const auto* bytes = set.files ? nullptr : set.inputs.const_data_ptr<std::uint8_t>();
  auto* value = into.mutable_data_ptr<float>();
  for (const std::int64_t index : indices) {
    const std::uint8_t* byte = scratch.data();
    if (set.files)
      set.files->read(index, scratch.data());
    else if (changes)
      std::memcpy(scratch.data(), bytes + static_cast<std::size_t>(index) * size.bytes(), size.bytes());
    else
      byte = bytes + static_cast<std::size_t>(index) * size.bytes();
    if (changes) {
      const auto key = keyed(by.seed, purpose::augmentation, by.epoch, static_cast<std::uint64_t>(index));
      changes->change(scratch.data(), draw(*by.how, key));
    }
    for (const auto& level : tables) {
      for (std::size_t pixel = 0; pixel < size.pixels(); ++pixel) *value++ = level[*byte++];
    }
  }
}

// Returns where the window of sample `index` begins in a text of `length` characters; one more character follows the
// window, as its last target.
std::int64_t beginning_of(std::int64_t index, std::int64_t length, std::int64_t window, const augmenting& by) {
  random_stream stream{keyed(by.seed, purpose::window, by.epoch, static_cast<std::uint64_t>(index))};
  return static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(length - window)));
}

void fill_windows(const at::Tensor& text, std::span<const std::int64_t> indices, const augmenting& by,
                  const batch& into) {
  const auto window = into.inputs.size(1);
  const auto* from = text.const_data_ptr<std::int64_t>();
  auto* input = into.inputs.mutable_data_ptr<std::int64_t>();
  auto* target = into.targets.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    const auto* begin = from + beginning_of(index, text.numel(), window, by);
    input = std::copy_n(begin, window, input);
    target = std::copy_n(begin + 1, window, target);
  }
}

void check_indices(const dataset& set, std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= set.size()) {
      throw std::out_of_range("sample index " + std::to_string(index) + " is out of range; the data set has " +
                              std::to_string(set.size()) + " samples");
    }
  }
}

// The first sparse CSR tensor of a process makes LibTorch warn that this tensor type is in beta. Users need not see
// that, so it is made here with warnings discarded.
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
  checked_rows checked;
  const auto taken = checked.take(rows, indices);
  std::int64_t nonzeros = 0;
  for (const auto& row : taken) nonzeros += row.count;
  if (nonzeros > std::numeric_limits<std::int32_t>::max()) {
    throw std::out_of_range("a batch has " + std::to_string(nonzeros) +
                            " nonzeros, too many for 32-bit indices; reduce data.batch_size");
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  const at::Tensor begins = at::empty({count + 1}, at::kInt), columns = at::empty({nonzeros}, at::kInt);
  const at::Tensor values = at::empty({nonzeros}, at::kFloat);
  auto* begin = begins.mutable_data_ptr<std::int32_t>();
  auto* column = columns.mutable_data_ptr<std::int32_t>();
  auto* value = values.mutable_data_ptr<float>();
  *begin = 0;
  for (const auto& row : taken) {
    column = std::copy_n(row.columns, row.count, column);
    value = std::copy_n(row.values, row.count, value);
    begin[1] = begin[0] + static_cast<std::int32_t>(row.count);
    ++begin;
  }
  checked.require_unchanged();
  hush();
  // Without checks: rows are checked when they are read, and checking each batch would take longer than its step.
  return at::_sparse_csr_tensor_unsafe(begins, columns, values, {count, rows.columns()},
                                       values.options().layout(at::kSparseCsr));
}

}  // namespace

batch empty_batch(const dataset& set, std::int64_t count, const spawn_memory& from) {
  return {from(input_sizes(set, count), input_type(set)),
          from(sizes_of(count, set.targets.sizes().slice(1)), set.targets.scalar_type())};
}

std::int64_t batch_bytes(const dataset& set, std::int64_t count) {
  const auto bytes_of = [](const std::vector<std::int64_t>& sizes, at::ScalarType type) {
    auto bytes = static_cast<std::int64_t>(c10::elementSize(type));
    for (const auto size : sizes) bytes *= size;
    return bytes;
  };
  return bytes_of(input_sizes(set, count), input_type(set)) +
         bytes_of(sizes_of(count, set.targets.sizes().slice(1)), set.targets.scalar_type());
}

void fill_batch(const dataset& set, const normalisation& scale, std::span<const std::int64_t> indices,
                const augmenting& by, const batch& into) {
  check_indices(set, indices);
  if (by.how && set.drawn_from.defined()) return fill_windows(set.drawn_from, indices, by, into);
  if (are_images(set))
    fill_images(set, scale, indices, by, into.inputs);
  else
    gather(set.inputs, indices, into.inputs);
  gather(set.targets, indices, into.targets);
}

batch make_batch(const dataset& set, const normalisation& scale, const std::vector<std::int64_t>& indices,
                 const augmenting& by) {
  if (set.rows) {
    check_indices(set, indices);
    return {csr(*set.rows, indices), targets_of(set, indices)};
  }
  const auto result =
      empty_batch(set, static_cast<std::int64_t>(indices.size()),
                  [](at::IntArrayRef sizes, at::ScalarType type) { return at::empty(sizes, at::dtype(type)); });
  fill_batch(set, scale, indices, by, result);
  return result;
}

}  // namespace troupe::data

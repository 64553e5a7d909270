#include "troupe/models/exported/reading.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace troupe::models::exported {

namespace {

using sizes = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& name, const std::string& what, const std::string& mend) {
  throw std::invalid_argument("its tensor " + name + " " + what + "; " + mend);
}

sizes integers_of(const json& list) {
  sizes found;
  for (const auto& entry : list) found.push_back(entry.at("as_int").get<std::int64_t>());
  return found;
}

/// Where a tensor is in the bytes of its entry. Numbers count elements.
struct placed {
  std::string path;
  at::ScalarType type;
  sizes extent, strides;
  std::int64_t offset;
  auto operator<=>(const placed&) const = default;
};

/// Returns the index of the last element in the entry, or -1 if there is none. Throws unless all elements are in
/// `bytes`.
std::int64_t last_of(const placed& where, const std::string& name, std::uint64_t bytes) {
  const auto held = static_cast<std::int64_t>(bytes / c10::elementSize(where.type));
  std::int64_t last = where.offset, count = 1;
  auto fits = where.offset >= 0 && where.extent.size() == where.strides.size();
  for (std::size_t i = 0; fits && i < where.extent.size(); ++i) {
    const auto size = where.extent[i];
    std::int64_t span = 0;
    fits = size >= 0 && where.strides[i] >= 0 && !__builtin_mul_overflow(count, size, &count) &&
           !__builtin_mul_overflow(std::max<std::int64_t>(size - 1, 0), where.strides[i], &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  if (fits && count == 0) return -1;
  if (!fits || last >= held || count > held)
    refuse(name, "is larger than the data stored for it", "make it contiguous, and export the module again");
  return last;
}

/// Reads entries, each once, and makes the tensors in them.
class tensor_reader {
 public:
  tensor_reader(const files::stored_zip& archive, const std::string& folder) : archive_{archive}, folder_{folder} {}

  read_tensor read(const std::string& name, const json& described) {
    if (described.at("use_pickle").get<bool>())
      refuse(name, "is an object of a Python class", "export the module with ordinary tensors");
    const auto& meta = described.at("tensor_meta");
    const placed where{.path = described.at("path_name").get<std::string>(),
                       .type = scalar_type_of(meta.at("dtype").get<std::int64_t>()),
                       .extent = integers_of(meta.at("sizes")),
                       .strides = integers_of(meta.at("strides")),
                       .offset = meta.at("storage_offset").at("as_int").get<std::int64_t>()};
    const auto& bytes = bytes_of(where.path);
    const auto last = last_of(where, name, bytes.nbytes());
    const auto learnable = described.at("is_param").get<bool>() && meta.at("requires_grad").get<bool>();
    if (learnable) require_apart(where, last, name);
    auto [found, is_new] = made_.try_emplace(where);
    if (is_new) found->second = tensor_in(bytes, where);
    return {name, found->second, learnable};
  }

 private:
  const at::Tensor& bytes_of(const std::string& path) {
    auto [found, is_new] = bytes_.try_emplace(path);
    if (!is_new) return found->second;
    const auto full = folder_ + path;
    const auto* entry = archive_.find(full);
    if (entry == nullptr) throw files::zip_error("it has no entry " + full);
    found->second = at::empty({entry->is_stored ? static_cast<std::int64_t>(entry->bytes) : 0}, at::kByte);
    archive_.read(full, *entry, found->second.data_ptr());
    return found->second;
  }

  static at::Tensor tensor_in(const at::Tensor& bytes, const placed& where) {
    auto tensor = at::empty({0}, where.type).set_(bytes.storage(), where.offset, where.extent, where.strides);
    // A byte other than 0 and 1 is not a truth value of C++.
    if (where.type == at::kBool) tensor = tensor.view(at::kByte).ne(0);
    return tensor;
  }

  /// Refuses tensors to train that share a part of their elements. Flat storage holds each of them once.
  void require_apart(const placed& where, std::int64_t last, const std::string& name) {
    for (const auto& [other, end] : learnable_[where.path])
      if (other != where && where.offset <= end && other.offset <= last)
        refuse(name, "shares a part of its memory with another parameter", "give each of them memory of its own");
    learnable_[where.path].emplace_back(where, last);
  }

  const files::stored_zip& archive_;
  const std::string& folder_;
  std::map<std::string, at::Tensor> bytes_;
  std::map<placed, at::Tensor> made_;
  std::map<std::string, std::vector<std::pair<placed, std::int64_t>>> learnable_;
};

}  // namespace

at::ScalarType scalar_type_of(std::int64_t number) {
  switch (number) {
    case 1:
      return at::kByte;
    case 2:
      return at::kChar;
    case 3:
      return at::kShort;
    case 4:
      return at::kInt;
    case 5:
      return at::kLong;
    case 6:
      return at::kHalf;
    case 7:
      return at::kFloat;
    case 8:
      return at::kDouble;
    case 12:
      return at::kBool;
    case 13:
      return at::kBFloat16;
    default:
      throw std::invalid_argument(
          "it has values of a type that Troupe does not support (complex, quantised or 8 bits)");
  }
}

std::vector<read_tensor> read_tensors(const files::stored_zip& archive, const std::string& folder, const json& config) {
  tensor_reader reader{archive, folder};
  std::vector<read_tensor> tensors;
  for (const auto& [name, described] : config.items()) tensors.push_back(reader.read(name, described));
  return tensors;
}

}  // namespace troupe::models::exported

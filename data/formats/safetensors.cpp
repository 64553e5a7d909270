#include "troupe/data/formats/safetensors.hpp"

#include "troupe/data/formats/data_error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace troupe::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and so is this code");

struct element {
  const char* name;
  at::ScalarType type;
};

/// The element types that LibTorch and the format share.
constexpr std::array elements{element{"F64", at::kDouble},    element{"F32", at::kFloat}, element{"F16", at::kHalf},
                              element{"BF16", at::kBFloat16}, element{"I64", at::kLong},  element{"I32", at::kInt},
                              element{"I16", at::kShort},     element{"I8", at::kChar},   element{"U8", at::kByte},
                              element{"BOOL", at::kBool}};

/// Length of the header's own length.
constexpr std::uint64_t prefix_bytes = 8;
/// A file with a longer header is broken. The reference implementation has the same limit.
constexpr std::uint64_t header_bytes_max = 100'000'000;
constexpr std::uint64_t alignment = 8;

std::string element_name(const std::string& tensor, at::ScalarType type) {
  for (const auto& known : elements)
    if (known.type == type) return known.name;
  throw std::runtime_error("tensor " + tensor + " has an element type that safetensors cannot store");
}

/// A reader for one file. Every error states the file, the reason and the fix.
class reader {
 public:
  reader(std::filesystem::path path, reading_options options) : path_(std::move(path)), options_(std::move(options)) {
    file_.emplace(path_);
    file_bytes_ = file_->bytes();
  }

  /// A reader for bytes in memory; `name` is used in messages.
  reader(std::string bytes, const std::string& name)
      : path_(name), bytes_(std::move(bytes)), file_bytes_(bytes_.size()) {}

  tensor_file read() {
    tensor_file content;
    std::vector<claim> claims;
    const auto header = parse(header_text());
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__")
        content.metadata = metadata(entry);
      else
        claims.push_back(checked(name, entry));
    }
    require_all_covered(claims);  // before any allocation: now all claims together fit in the file
    for (const auto& claim : claims) {
      if (claim.type)
        content.tensors.emplace_back(claim.name, tensor(claim));
      else
        content.left_out.push_back(claim.name);
    }
    return content;
  }

 private:
  using json = files::json;

  /// What the header states about a tensor, checked.
  struct claim {
    std::string name;
    std::optional<at::ScalarType> type;  ///< None if the tensor is not wanted.
    std::vector<std::int64_t> shape;
    std::int64_t begin, end;  ///< Bytes, counted from the end of the header.
  };

  [[noreturn]] void refuse(const std::string& what, const std::string& mend) const {
    throw data_error(path_.string() + ": " + what + "; " + mend);
  }

  [[noreturn]] void refuse_as_broken(const std::string& what) const {
    refuse("not a complete safetensors file: " + what,
           "save or copy it again" + (options_.alternatives.empty() ? "" : ", or give " + options_.alternatives));
  }

  bool is_wanted(const std::string& name) const {
    const auto& wanted = options_.wanted;
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  }

  /// Reads `count` bytes from `offset` on. Returns false if there are fewer.
  bool read_at(std::uint64_t offset, void* into, std::uint64_t count) const {
    if (file_) return file_->read_at(offset, into, count) == count;
    if (offset > bytes_.size() || count > bytes_.size() - offset) return false;
    std::copy_n(bytes_.data() + offset, count, static_cast<char*>(into));
    return true;
  }

  std::string header_text() {
    if (file_bytes_ < prefix_bytes) refuse_as_broken("it has only " + std::to_string(file_bytes_) + " bytes");
    std::uint64_t length = 0;
    if (!read_at(0, &length, prefix_bytes)) refuse_as_broken("it shrank while it was being read");
    if (length > header_bytes_max)
      refuse("not a safetensors file", options_.alternatives.empty()
                                           ? "expected a file such as safetensors.torch.save_file() writes"
                                           : "expected a safetensors file, " + options_.alternatives);
    if (length > file_bytes_ - prefix_bytes)
      refuse_as_broken("its header claims " + std::to_string(length) + " bytes, but the file has " +
                       std::to_string(file_bytes_));
    std::string text(length, '\0');
    if (!read_at(prefix_bytes, text.data(), length)) refuse_as_broken("it ends within the header");
    data_first_ = prefix_bytes + length;
    return text;
  }

  json parse(const std::string& text) const {
    // A name that occurs twice is refused: the library would silently drop one of the two.
    std::vector<std::string> names;
    const auto watch = [&](int depth, json::parse_event_t event, const json& value) {
      if (event == json::parse_event_t::key && depth == 1) names.push_back(value.get<std::string>());
      return true;
    };
    try {
      auto header = json::parse(text, watch);
      if (!header.is_object()) refuse_as_broken("its header is not a JSON object");
      std::sort(names.begin(), names.end());
      if (const auto same = std::adjacent_find(names.begin(), names.end()); same != names.end())
        refuse_as_broken("tensor " + *same + " is listed twice");
      return header;
    } catch (const json::exception&) {
      refuse_as_broken("its header is not JSON");
    }
  }

  std::map<std::string, std::string> metadata(const json& entry) const {
    std::map<std::string, std::string> values;
    if (!entry.is_object()) refuse_as_broken("its metadata is not a JSON object");
    for (const auto& [name, value] : entry.items()) {
      if (!value.is_string()) refuse_as_broken("its metadata " + name + " is not a string");
      values.emplace(name, value.get<std::string>());
    }
    return values;
  }

  /// Returns the unsigned integers of a JSON list, each small enough for LibTorch.
  std::vector<std::int64_t> numbers(const std::string& name, const json& entry, const char* key) const {
    const auto list = entry.find(key);
    if (list == entry.end() || !list->is_array()) refuse_as_broken("tensor " + name + " has no list " + key);
    std::vector<std::int64_t> values;
    for (const auto& value : *list) {
      if (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse_as_broken("tensor " + name + " has an invalid size in " + key);
      values.push_back(value.get<std::int64_t>());
    }
    return values;
  }

  at::ScalarType type(const std::string& name, const json& entry) const {
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) refuse_as_broken("tensor " + name + " has no dtype");
    for (const auto& known : elements)
      if (*dtype == known.name) return known.type;
    refuse("tensor " + name + " has dtype " + dtype->get<std::string>() + ", which is not supported", "save it as F32");
  }

  claim checked(const std::string& name, const json& entry) const {
    if (!entry.is_object()) refuse_as_broken("tensor " + name + " is not described by a JSON object");
    const auto element_type = is_wanted(name) ? std::optional(type(name, entry)) : std::nullopt;
    const auto shape = numbers(name, entry, "shape");
    const auto offsets = numbers(name, entry, "data_offsets");
    const auto data_bytes = static_cast<std::int64_t>(file_bytes_ - data_first_);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes)
      refuse_as_broken("tensor " + name + " extends beyond the file's " + std::to_string(file_bytes_) + " bytes");
    const auto bytes = offsets[1] - offsets[0];
    if (element_type && !takes(shape, static_cast<std::int64_t>(c10::elementSize(*element_type)), bytes))
      refuse_as_broken("tensor " + name + " has " + std::to_string(bytes) + " bytes, which does not match its shape");
    return {name, element_type, shape, offsets[0], offsets[1]};
  }

  /// Returns whether a tensor of this shape takes exactly `bytes`; false if its size cannot be represented.
  static bool takes(const std::vector<std::int64_t>& shape, std::int64_t element_bytes, std::int64_t bytes) {
    auto product = element_bytes;
    for (const auto size : shape)
      if (__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product)) return false;
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    return bytes == (empty ? 0 : product);
  }

  /// Throws unless every byte after the header is part of exactly one tensor, as the reference implementation does.
  void require_all_covered(std::vector<claim> claims) const {
    std::sort(claims.begin(), claims.end(),
              [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    std::int64_t covered = 0;
    const auto refuse_gap = [&](std::int64_t end, const std::string& where) {
      refuse("not a sound safetensors file: " + std::to_string(end - covered) +
                 (end - covered == 1 ? " byte" : " bytes") + " " + where + " belong to no tensor",
             "save or copy it again");
    };
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i].begin < covered)
        refuse_as_broken("tensors " + claims[i - 1].name + " and " + claims[i].name + " overlap");
      if (claims[i].begin > covered) refuse_gap(claims[i].begin, "before tensor " + claims[i].name);
      covered = claims[i].end;
    }
    const auto data_bytes = static_cast<std::int64_t>(file_bytes_ - data_first_);
    if (covered < data_bytes) refuse_gap(data_bytes, "at its end");
  }

  at::Tensor tensor(const claim& claim) const {
    auto values = at::empty(claim.shape, at::TensorOptions().dtype(*claim.type));
    if (!read_at(data_first_ + static_cast<std::uint64_t>(claim.begin), values.mutable_data_ptr(), values.nbytes()))
      refuse_as_broken("it ends within tensor " + claim.name);
    return values;
  }

  std::filesystem::path path_;
  reading_options options_{};
  std::optional<files::input> file_{};  ///< Empty if the bytes are in memory, in `bytes_`.
  std::string bytes_{};
  std::uint64_t file_bytes_{0};
  std::uint64_t data_first_{0};
};

}  // namespace

std::string safetensors_header(const tensor_file& content) {
  files::json header;
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::uint64_t end = 0;
  for (const auto& [name, values] : content.tensors) {
    const auto first = end;
    end += values.nbytes();
    header[name] = {{"dtype", element_name(name, values.scalar_type())},
                    {"shape", values.sizes().vec()},
                    {"data_offsets", {first, end}}};
  }
  auto text = header.is_null() ? std::string("{}") : files::json_text(header);
  // The data begins at a multiple of eight, so that a reader may map it.
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(prefix_bytes, '\0');
  std::memcpy(bytes.data(), &length, prefix_bytes);
  return bytes + text;
}

std::string safetensors_of(const tensor_file& content) {
  auto bytes = safetensors_header(content);
  std::size_t total = bytes.size();
  for (const auto& [name, values] : content.tensors) total += values.nbytes();
  bytes.reserve(total);
  for (const auto& [name, values] : content.tensors) {
    const auto plain = values.contiguous();
    bytes.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
  }
  return bytes;
}

tensor_file read_safetensors(const std::filesystem::path& path, const reading_options& options) try {
  return reader(path, options).read();
} catch (const files::unreadable& problem) {
  throw data_error(problem.what());
}

tensor_file parse_safetensors(std::string bytes, const std::string& name) {
  return reader(std::move(bytes), name).read();
}

}  // namespace troupe::data

#include "troupe/algorithms/messages/state_dict.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

namespace troupe {

namespace {

template <class Element>
at::Tensor tensor_of(const Element* values, std::size_t count, at::ScalarType type) {
  auto result = at::empty({static_cast<std::int64_t>(count)}, type);
  if (count > 0) std::memcpy(result.data_ptr(), values, count * sizeof(Element));
  return result;
}

template <class Element>
std::vector<Element> elements_of(const at::Tensor& values) {
  std::vector<Element> all(static_cast<std::size_t>(values.numel()));
  if (!all.empty()) std::memcpy(all.data(), values.const_data_ptr(), all.size() * sizeof(Element));
  return all;
}

}  // namespace

void state_dict::put(const std::string& name, const at::Tensor& values) {
  TROUPE_ASSERT(values.defined() && values.is_cpu() && values.is_contiguous(),
                "a state must consist of contiguous tensors on the CPU");
  const auto fresh = entries_.emplace(name, values).second;
  TROUPE_ASSERT(fresh, "a state must not have two entries of one name");
}

void state_dict::put_count(const std::string& name, std::uint64_t value) {
  put_counts(name, {value});
}

void state_dict::put_counts(const std::string& name, const std::vector<std::uint64_t>& values) {
  put(name, tensor_of(values.data(), values.size(), at::kLong));  // the same 64 bits
}

void state_dict::put_number(const std::string& name, double value) {
  put(name, tensor_of(&value, 1, at::kDouble));
}

void state_dict::put_text(const std::string& name, const std::string& text) {
  put(name, tensor_of(text.data(), text.size(), at::kByte));
}

void state_dict::put_all(const std::string& name, const state_dict& inner) {
  for (const auto& [key, values] : inner.entries_) put(name + "/" + key, values);
}

const at::Tensor& state_dict::entry(const std::string& name, at::ScalarType type) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw state_error("the entry \"" + name + "\" is missing");
  if (found->second.scalar_type() != type)
    throw state_error("the entry \"" + name + "\" has the type " + at::toString(found->second.scalar_type()) +
                      "; expected " + at::toString(type));
  return found->second;
}

at::Tensor state_dict::tensor(const std::string& name, std::optional<std::int64_t> elements) const {
  const auto& values = entry(name, at::kFloat);
  if (elements && values.numel() != *elements)
    throw state_error("the entry \"" + name + "\" has " + std::to_string(values.numel()) + " elements; expected " +
                      std::to_string(*elements));
  return values;
}

std::vector<std::uint64_t> state_dict::counts(const std::string& name, std::optional<std::size_t> size) const {
  const auto& values = entry(name, at::kLong);
  if (size && static_cast<std::size_t>(values.numel()) != *size)
    throw state_error("the entry \"" + name + "\" has " + std::to_string(values.numel()) + " elements; expected " +
                      std::to_string(*size));
  return elements_of<std::uint64_t>(values);
}

std::uint64_t state_dict::count(const std::string& name) const {
  return counts(name, 1).front();
}

double state_dict::number(const std::string& name) const {
  const auto& value = entry(name, at::kDouble);
  if (value.numel() != 1) throw state_error("the entry \"" + name + "\" is not one number");
  return value.const_data_ptr<double>()[0];
}

std::string state_dict::text(const std::string& name) const {
  const auto bytes = elements_of<char>(entry(name, at::kByte));
  return {bytes.begin(), bytes.end()};
}

state_dict state_dict::all(const std::string& name) const {
  state_dict result;
  const auto prefix = name + "/";
  for (auto item = entries_.lower_bound(prefix); item != entries_.end() && item->first.starts_with(prefix); ++item)
    result.entries_.emplace(item->first.substr(prefix.size()), item->second);
  return result;
}

}  // namespace troupe

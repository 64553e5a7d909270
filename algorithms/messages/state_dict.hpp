// The state of an actor or of a part of one, as named tensors: what a checkpoint stores and a resumed run starts from,
// like PyTorch's state_dict. Nothing here depends on actors or files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

/// Thrown if a state lacks an entry, or has one of the wrong type or size: it belongs to another run.
struct state_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The state of an actor. Names are unique; '/' separates levels. Tensors are on the CPU, contiguous and frozen.
class state_dict {
 public:
  /// Adds a tensor, float32 or bytes; the name must be new. Keeps a reference, so the tensor must not be written any
  /// more.
  void put(const std::string& name, const at::Tensor& values);
  void put_count(const std::string& name, std::uint64_t value);                        ///< Adds an integer.
  void put_counts(const std::string& name, const std::vector<std::uint64_t>& values);  ///< Adds integers.
  void put_number(const std::string& name, double value);           ///< Adds a floating-point number, exactly.
  void put_text(const std::string& name, const std::string& text);  ///< Adds a text.
  /// Adds all entries of `inner` under `name`/.
  void put_all(const std::string& name, const state_dict& inner);

  /// Returns whether there is an entry with this name.
  bool has(const std::string& name) const { return entries_.contains(name); }

  /// Returns whether there is no entry.
  bool empty() const { return entries_.empty(); }

  // The following throw state_error if the entry is missing, has another type, or does not have the given size.

  /// Returns a tensor, float32.
  at::Tensor tensor(const std::string& name, std::optional<std::int64_t> elements = {}) const;
  std::uint64_t count(const std::string& name) const;  ///< Returns an integer.
  /// Returns integers.
  std::vector<std::uint64_t> counts(const std::string& name, std::optional<std::size_t> size = {}) const;
  double number(const std::string& name) const;     ///< Returns a floating-point number.
  std::string text(const std::string& name) const;  ///< Returns a text.

  /// Returns the entries under `name`/, without that prefix.
  state_dict all(const std::string& name) const;

  /// Returns all entries, by name.
  const std::map<std::string, at::Tensor>& entries() const { return entries_; }

 private:
  const at::Tensor& entry(const std::string& name, at::ScalarType type) const;
  std::map<std::string, at::Tensor> entries_;
};

}  // namespace troupe

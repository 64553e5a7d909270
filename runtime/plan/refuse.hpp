// Reports why a plan cannot be made.
#pragma once

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/constraints.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe {

/// Throws input_error with `reason` after the place where `key` is set ("data.batch_size", "exchange.ring.kind"), or
/// after the name of the file if it is not set. A topology that was not read from a file has neither.
[[noreturn]] inline void refuse(const topology::topology& file, const std::string& key, const std::string& reason) {
  const auto place = file.given.place_of(key);
  const auto from = place.empty() ? file.file.string() : place;
  throw input_error(from.empty() ? reason : from + ": " + reason);
}

/// Returns a function that throws input_error for a violation of a rule. `file` must outlive it.
inline topology::refusal refusal_in(const topology::topology& file) {
  return [&file](const std::string& path, const std::string& text) {
    refuse(file, topology::named_path(file, path), text);
  };
}

}  // namespace troupe

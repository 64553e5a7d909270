// Numbers of metrics.jsonl.
#pragma once

#include "troupe/files/json.hpp"

#include <optional>

namespace troupe::comparing {

/// Returns the number `key` of a line, or nothing.
inline std::optional<double> json_number(const files::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

}  // namespace troupe::comparing

#include "troupe/runtime/support/csv.hpp"

#include "troupe/files/json.hpp"

#include <cmath>

namespace troupe {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return "\"" + quoted + "\"";
}

std::string csv_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? files::json_text(*value) : std::string();
}

}  // namespace troupe

#include "troupe/files/json.hpp"

namespace troupe::files {

json parse_json(std::string_view text) {
  constexpr bool throws = false;
  return json::parse(text, nullptr, throws);
}

std::string json_text(const json& value, json_style style) {
  return value.dump(style.indent, ' ', style.ascii, json::error_handler_t::replace);
}

}  // namespace troupe::files

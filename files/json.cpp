#include "troupe/files/json.hpp"

namespace troupe::files {

json parse_json(std::string_view text) {
  constexpr bool throws = false;
  return json::parse(text, nullptr, throws);
}

json parse_json_without(const members& unneeded, std::string_view text) {
  const auto keeps = [&](int depth, json::parse_event_t event, json& value) {
    return event != json::parse_event_t::key || !unneeded.contains({depth, value.get<std::string>()});
  };
  constexpr bool throws = false;
  return json::parse(text, keeps, throws);
}

std::string json_text(const json& value, json_style style) {
  return value.dump(style.indent, ' ', style.ascii, json::error_handler_t::replace);
}

std::optional<double> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

}  // namespace troupe::files

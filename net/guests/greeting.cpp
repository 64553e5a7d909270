#include "troupe/net/guests/greeting.hpp"

#include "troupe/files/json.hpp"

#include <caf/config.hpp>

namespace troupe::guests {

namespace {

using json = files::json;

constexpr auto *as_actors = "actors", *as_member = "member";

json parsed(std::string_view line) {
  auto object = files::parse_json(line);
  if (!object.is_object()) throw greeting_error("it sent a greeting that is not a JSON object");
  return object;
}

std::string text_in(const json& object, const char* key) {
  const auto entry = object.find(key);
  if (entry == object.end() || !entry->is_string()) return {};
  return entry->get<std::string>();
}

std::uint64_t number_in(const json& object, const char* key) {
  const auto entry = object.find(key);
  if (entry == object.end() || !entry->is_number_unsigned()) throw greeting_error("it sent a greeting without numbers");
  return entry->get<std::uint64_t>();
}

}  // namespace

std::string line_of(const introduction& who) {
  json object{
      {"protocol", who.protocol}, {"name", who.name}, {"as", who.as == purpose::actors ? as_actors : as_member}};
  if (who.as == purpose::actors) object["caf"] = who.caf;
  return files::json_text(object) + "\n";
}

std::string line_of(const answer& to) {
  json object = to.refusal.empty() ? json{{"node", to.node}, {"troupe", to.version}}
                                   : json{{"refused", to.refusal}, {"troupe", to.version}};
  if (const auto& place = to.exchange)
    object["exchange"] = {{"name", place->name},       {"run", place->run},
                          {"members", place->members}, {"elements", place->elements},
                          {"sends", place->sends},     {"answers", place->answers_all ? "same" : "each"},
                          {"frames", place->frames}};
  return files::json_text(object) + "\n";
}

introduction parse_introduction(std::string_view line) {
  const auto object = parsed(line);
  introduction who{.name = text_in(object, "name"), .caf = text_in(object, "caf")};
  const auto version = object.find("protocol");
  if (version == object.end() || !version->is_number_integer())
    throw greeting_error("it sent a greeting without a protocol");
  who.protocol = version->get<std::int64_t>();
  const auto as = text_in(object, "as");
  if (as == as_member)
    who.as = purpose::member;
  else if (as != as_actors)
    throw greeting_error("it sent a greeting that does not say what it wants to be (\"as\")");
  if (who.name.empty()) throw greeting_error("it sent a greeting without a name");
  return who;
}

answer parse_answer(std::string_view line) {
  const auto object = parsed(line);
  answer to{
      .refusal = text_in(object, "refused"), .node = text_in(object, "node"), .version = text_in(object, "troupe")};
  if (const auto place = object.find("exchange"); place != object.end() && place->is_object())
    to.exchange = exchange_place{.name = text_in(*place, "name"),
                                 .run = number_in(*place, "run"),
                                 .members = static_cast<std::uint32_t>(number_in(*place, "members")),
                                 .elements = static_cast<std::int64_t>(number_in(*place, "elements")),
                                 .sends = text_in(*place, "sends"),
                                 .answers_all = text_in(*place, "answers") != "each",
                                 .frames = number_in(*place, "frames")};
  return to;
}

std::string caf_version() {
  return std::to_string(CAF_MAJOR_VERSION) + "." + std::to_string(CAF_MINOR_VERSION) + "." +
         std::to_string(CAF_PATCH_VERSION);
}

}  // namespace troupe::guests

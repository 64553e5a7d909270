#include "troupe/runtime/topology/reference.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

namespace troupe::topology {
namespace {

using json = files::json;

// Markdown. --------------------------------------------------------------------------------------------------------

std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

std::vector<std::string> in_code(std::vector<std::string> words) {
  for (std::string& word : words) word = code(word);
  return words;
}

std::string value_text(const setting& row) {
  if (row.choices.empty() || row.type == setting_type::delay) return expectation(row);
  std::vector<std::string> words = in_code(text::in_quotes(row.choices));
  if (row.type == setting_type::choice_or_matrix) words.push_back(matrix_expectation(row));
  return text::listed(words);
}

std::string table(const std::vector<setting>& rows) {
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const setting& row : rows) {
    text += "| " + code(row.name) + " | " + value_text(row) + " | " + code(row.default_text) + " | " + row.explanation +
            " |\n";
  }
  return text;
}

// JSON Schema. -----------------------------------------------------------------------------------------------------

json type_of(const setting& row) {
  switch (row.type) {
    case setting_type::boolean:
      return "boolean";
    case setting_type::integer:
    case setting_type::integer_or_integers:
      return "integer";
    case setting_type::real:
    case setting_type::reals:
    case setting_type::real_or_reals:
    case setting_type::choice_or_matrix:
      return "number";
    case setting_type::every:
    case setting_type::column:
    case setting_type::columns:
      return {"integer", "string"};
    default:
      return "string";
  }
}

/// Returns the default as JSON. A TOML scalar is valid JSON, except for a string without quotes.
json default_of(const setting& row) {
  const json value = files::parse_json(row.default_text);
  return value.is_discarded() ? json(row.default_text) : value;
}

json number(double value, bool whole) {
  return whole ? json(static_cast<std::int64_t>(value)) : json(value);
}

/// Returns a regular expression for what the grammars of durations, delays, rates and intervals accept, or "". It
/// admits some values that are refused, such as a duration of zero.
std::string pattern_of(const setting& row) {
  const std::string number = "[0-9]*\\.?[0-9]+ *";
  switch (row.type) {
    case setting_type::duration:
      return "^" + number + "(ms|s|min|h)$";
    case setting_type::delay:
      return "^(" + text::joined(row.choices, "|") + (row.choices.empty() ? "" : "|") + number + "(us|ms|s|min|h))$";
    case setting_type::rate:
      return "^" + number + "(k|M|G|T|Ki|Mi|Gi|Ti)?(bit|B)/s$";
    case setting_type::every:
      return "^[0-9]+( steps?| epochs?)?$";
    default:
      return "";
  }
}

json described(json schema, const setting& row) {
  if (!row.default_text.empty()) schema["default"] = default_of(row);
  schema["description"] = row.explanation;
  return schema;
}

json schema_of(const setting& row) {
  json result = {{"type", type_of(row)}};
  if (const auto pattern = pattern_of(row); !pattern.empty()) result["pattern"] = pattern;
  if (row.type == setting_type::every) result["minimum"] = 1;
  const bool whole = row.type == setting_type::integer || row.type == setting_type::integer_or_integers;
  if (row.type == setting_type::choice) result["enum"] = row.choices;
  if (row.type == setting_type::duration) return described(std::move(result), row);  // its minimum is in seconds
  if (row.minimum) result[row.minimum_excluded ? "exclusiveMinimum" : "minimum"] = number(*row.minimum, whole);
  if (row.maximum) result[row.maximum_excluded ? "exclusiveMaximum" : "maximum"] = number(*row.maximum, whole);
  if (row.type == setting_type::words || row.type == setting_type::paths || row.type == setting_type::reals) {
    result = {{"type", "array"}, {"items", result}};
  }
  if (row.type == setting_type::real_or_reals || row.type == setting_type::integer_or_integers ||
      row.type == setting_type::columns) {
    result = {{"oneOf", {result, {{"type", "array"}, {"items", result}}}}};
  }
  if (row.type == setting_type::choice_or_matrix) {
    const json rows = {{"type", "array"}, {"items", {{"type", "array"}, {"items", result}}}};
    result = {{"oneOf", {{{"type", "string"}, {"enum", row.choices}}, rows}}};
  }
  if (row.type == setting_type::devices) {
    result = {{"oneOf", {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}}}};
  }
  if (row.type == setting_type::pairs) {
    const json ends = {{"type", "array"}, {"items", result}, {"minItems", 2}, {"maxItems", 2}};
    result = {{"type", "array"}, {"items", ends}};
  }
  return described(std::move(result), row);
}

json schema_of(const section& section) {
  json properties = json::object();
  for (const key& key : section.keys) properties[key.row.name] = schema_of(key.row);
  return {{"type", "object"},
          {"description", section.explanation},
          {"properties", properties},
          {"additionalProperties", false}};
}

/// Returns whether any of the kinds has settings of its own.
bool have_settings(const std::vector<named_kind>& kinds) {
  return std::any_of(kinds.begin(), kinds.end(), [](const named_kind& kind) { return !kind.settings->empty(); });
}

/// Adds the settings of all kinds that a key names: their names, so that editors offer them, and for each kind a rule
/// for the values that its own settings accept. Unless others are ignored, the rule allows only its own settings.
/// `usual` is the default of the key.
void add_kinds(json& schema, const kinds_of_key& kinds, const std::string& usual) {
  const auto all = kinds.all();
  if (!have_settings(all)) return;
  json common = json::array();
  for (const auto& [name, value] : schema["properties"].items()) common.push_back(name);
  for (const named_kind& kind : all) {
    json own = json::object(), names = common;
    for (const setting& row : *kind.settings) {
      own[row.name] = schema_of(row);
      names.push_back(row.name);
      if (!schema["properties"].contains(row.name)) schema["properties"][row.name] = {{"description", row.explanation}};
    }
    json is_kind = {{"properties", {{kinds.key, {{"const", kind.name}}}}}};
    if (to_toml(kind.name) != usual) is_kind["required"] = {kinds.key};
    json rule = {{"properties", own}};
    if (!kinds.ignores_others) rule["propertyNames"] = {{"enum", names}};
    schema["allOf"].push_back({{"if", is_kind}, {"then", rule}});
  }
}

/// Returns the keys that sections must set, such as "`kind` of an `[exchange]`".
std::vector<std::string> needed() {
  std::vector<std::string> words;
  for (const section& section : sections()) {
    const std::string article = section.name.find_first_of("aeiou") == 0 ? "an " : "a ";
    if (!section.needed.empty())
      words.push_back(code(section.needed) + " of " + article + code("[" + section.name + "]"));
  }
  return words;
}

/// Joins two conditions: `route = "direct"` and `route = "ring"` make `route = "direct" or "ring"`.
std::string either(const std::string& one, const std::string& other) {
  const auto value = other.find('"');
  const auto same_key = value != std::string::npos && one.compare(0, value, other, 0, value) == 0;
  return one + " or " + (same_key ? other.substr(value) : other);
}

}  // namespace

std::string reference_page() {
  std::string text =
      "# The topology file: every key\n\n"
      "Generated from the tables in `runtime/topology/schema_*.cpp` by `troupe explain --markdown`; a test compares "
      "the "
      "two.\n\n"
      "A topology is a TOML file. Every key has a default or may be left out, except " +
      text::listed(needed(), "and") +
      ". On the command line, `--set section.key=value` overrides a key. The value is read as TOML, or as a string if "
      "it is not TOML. If there are several `[[exchange]]` or `[[node]]` sections, `--set exchange.NAME.key=value` "
      "selects one by its name. Relative paths in the file start at the file's folder; those in `--set` start at the "
      "current folder. If `--set` sets one of two keys that cannot be combined, it overrides the other one in the "
      "file. A key "
      "whose condition is not met is refused, or causes a warning if it does no harm. An error message states what was "
      "expected and, if one key is wrong, its line and column.\n";
  for (const section& section : sections()) {
    text += section.name.empty() ? "\n## Top of the file\n\n" : "\n## `[" + section.name + "]`\n\n";
    std::vector<setting> rows;
    for (const key& key : section.keys) rows.push_back(key.row);
    text += section.explanation + "\n\n" + table(rows);
    for (const kinds_of_key& kinds : section.kinds) {
      const auto all = kinds.all();
      if (!have_settings(all)) continue;
      for (const named_kind& kind : all) {
        const auto* exchange = section.name == "exchange" ? find_exchange(kind.name) : nullptr;
        text += "\n### `" + kinds.key + " = \"" + kind.name + "\"`\n\n" + kind.explanation +
                (exchange != nullptr ? " Source: " + exchange->source + "." : "") + "\n";
        if (!kind.settings->empty()) text += "\n" + table(*kind.settings);
      }
    }
  }
  return text;
}

std::vector<conditional_text> grouped(const exchange_facts& facts, std::string exchange_variant::*column) {
  std::vector<conditional_text> texts;
  for (const exchange_variant& variant : facts.variants) {
    const auto same = [&](const conditional_text& other) { return other.text == variant.*column; };
    const auto text = std::find_if(texts.begin(), texts.end(), same);
    if (text == texts.end())
      texts.push_back({variant.when, variant.*column});
    else
      text->when = either(text->when, variant.when);
  }
  if (texts.size() == 1) texts.front().when.clear();
  return texts;
}

std::vector<std::string> tests_of(const exchange_facts& facts) {
  std::vector<std::string> tests;
  for (const exchange_variant& variant : facts.variants)
    for (const std::string& test : variant.shown_by)
      if (std::find(tests.begin(), tests.end(), test) == tests.end()) tests.push_back(test);
  return tests;
}

std::string exchange_table() {
  std::string text =
      "| exchange | messages | bytes | synchronisation | staleness | must match | tested in "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const exchange_kind& kind : exchange_kinds()) {
    const auto facts = facts_of_kind(kind.name);
    for (const exchange_variant& variant : facts.variants)
      text += "| `" + kind.name + "`" + (variant.when.empty() ? "" : ", " + variant.when) + " | " +
              text::joined({variant.messages, variant.bytes, variant.synchronisation, variant.staleness, variant.equals,
                            "`" + text::joined(variant.shown_by, "`, `") + "`"},
                           " | ") +
              " |\n";
  }
  return text;
}

std::string json_schema() {
  json properties = json::object(), with_needed = json::object();
  for (const section& section : sections()) {
    json schema = schema_of(section);
    if (section.name.empty()) {
      for (const auto& [name, value] : schema["properties"].items()) properties[name] = value;
      continue;
    }
    for (const kinds_of_key& kinds : section.kinds)
      add_kinds(schema, kinds, find_key(section, kinds.key)->row.default_text);
    if (section.repeated()) schema = {{"anyOf", {schema, {{"type", "array"}, {"items", schema}}}}};
    properties[section.name] = schema;
    if (section.needed.empty()) continue;
    const json needed = {{"required", {section.needed}}};
    with_needed[section.name] = {{"if", {{"type", "array"}}}, {"then", {{"items", needed}}}, {"else", needed}};
  }
  const json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "Troupe topology"},
                       {"type", "object"},
                       {"properties", properties},
                       {"additionalProperties", false},
                       {"if", {{"required", {"extends"}}}},  // the other file may set the needed keys
                       {"then", true},
                       {"else", {{"properties", with_needed}}}};
  return files::json_text(schema, {.indent = 2}) + "\n";
}

std::string json_schema(const setting& row) {
  return files::json_text(schema_of(row));
}

}  // namespace troupe::topology

// Makes the rows of the schema. Only for schema*.cpp.
#pragma once

#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <type_traits>
#include <utility>

namespace troupe::topology::rows {

// In schema_run.cpp and schema_emulation.cpp.

section run_section();
section workers_section();
section exchange_section();
section evaluate_section();
section checkpoint_section();
section node_section();
section transport_section();
section security_section();
section actors_section();
section link_section();
section fault_section();
section simulate_section();

// In schema_training.cpp.

section model_section();
section data_section();
section augment_section();
section optimizer_section();

using std::chrono::milliseconds;

// How a setting_value holds a member. -----------------------------------------------------------------------------

template <class T>
struct holds : std::type_identity<T> {};
template <class T>
struct holds<std::optional<T>> : std::type_identity<T> {};

template <class Member>
constexpr setting_type type_of() {
  using held = typename holds<Member>::type;
  if constexpr (std::is_same_v<held, bool>) return setting_type::boolean;
  if constexpr (std::is_integral_v<held>) return setting_type::integer;
  if constexpr (std::is_same_v<held, double>) return setting_type::real;
  if constexpr (std::is_same_v<held, std::filesystem::path>) return setting_type::path;
  if constexpr (std::is_same_v<held, milliseconds>) return setting_type::duration;
  if constexpr (std::is_same_v<held, std::chrono::microseconds>) return setting_type::delay;
  if constexpr (std::is_same_v<held, byte_rate>) return setting_type::rate;
  if constexpr (std::is_same_v<held, interval>) return setting_type::every;
  if constexpr (std::is_same_v<held, std::vector<std::string>>) return setting_type::words;
  if constexpr (std::is_same_v<held, std::vector<double>>) return setting_type::reals;
  return setting_type::text;
}

template <class T>
void assign(T& member, const setting_value& value) {
  if constexpr (std::is_same_v<T, milliseconds>) {
    const double* seconds = std::get_if<double>(&value);
    member = seconds ? milliseconds(std::llround(*seconds * 1000)) : *parse_duration(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, std::chrono::microseconds>) {
    member = *parse_delay(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, byte_rate>) {
    member = *parse_rate(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, interval>) {
    member = *parse_interval(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    member = std::get<std::string>(value);
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    member = static_cast<T>(std::get<std::int64_t>(value));
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    const double* single = std::get_if<double>(&value);
    member = single ? std::vector{*single} : std::get<T>(value);
  } else {
    member = std::get<T>(value);
  }
}

template <class T>
void assign(std::optional<T>& member, const setting_value& value) {
  assign(member.emplace(), value);
}

template <class T>
std::optional<setting_value> value_of(const T& member, setting_type type) {
  if constexpr (std::is_same_v<T, milliseconds>) {
    if (type == setting_type::real) return static_cast<double>(member.count()) / 1000;
    return print_duration(member);
  } else if constexpr (std::is_same_v<T, std::chrono::microseconds>) {
    return print_delay(member);
  } else if constexpr (std::is_same_v<T, byte_rate>) {
    return member.text;
  } else if constexpr (std::is_same_v<T, interval>) {
    return print_interval(member);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    if (member.empty()) return {};
    return member.string();
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>) {
    return member;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(member);
  } else {
    if (member.empty()) return {};
    if constexpr (std::is_same_v<T, std::vector<std::string>>)
      if (type == setting_type::devices && member.size() == 1) return member.front();
    if constexpr (std::is_same_v<T, std::vector<double>>)
      if (type == setting_type::real_or_reals && member.size() == 1) return member.front();
    return member;
  }
}

template <class T>
std::optional<setting_value> value_of(const std::optional<T>& member, setting_type type) {
  return member ? value_of(*member, type) : std::nullopt;
}

// Rows. ------------------------------------------------------------------------------------------------------------

/// Returns a function that accesses a member of a section's struct (in), or of a list of such structs (each).
template <class Section, class Member>
auto in(Section topology::*section, Member Section::*member) {
  return [=](auto& file, std::size_t) -> auto& {
    return file.*section.*member;
  };
}

template <class Section, class Member>
auto each(std::vector<Section> topology::*sections, Member Section::*member) {
  return [=](auto& file, std::size_t index) -> auto& {
    return (file.*sections).at(index).*member;
  };
}

struct limits {
  std::optional<double> minimum{}, maximum{};
  bool minimum_excluded{false}, maximum_excluded{false};
  std::vector<std::string> choices{};
  std::optional<setting_type> type{};  ///< Type in the file, if it differs from the member's own.
};

/// Makes a key. Its type and default are those of the member, so that they are defined in one place.
template <class Where>
key row(std::string name, Where where, limits within, std::string explanation) {
  topology defaults;
  defaults.exchanges.resize(1);
  defaults.nodes.resize(1);
  defaults.links.resize(1);
  defaults.faults.resize(1);
  using member = std::decay_t<decltype(where(defaults, 0))>;
  const setting_type type = within.type.value_or(within.choices.empty() ? type_of<member>() : setting_type::choice);
  const auto value = value_of(where(defaults, 0), type);
  return {.row = {.name = std::move(name),
                  .type = type,
                  .default_text = value ? to_toml(*value) : "",
                  .explanation = std::move(explanation),
                  .choices = std::move(within.choices),
                  .minimum = within.minimum,
                  .maximum = within.maximum,
                  .minimum_excluded = within.minimum_excluded,
                  .maximum_excluded = within.maximum_excluded},
          .get = [=](const topology& file, std::size_t index) { return value_of(where(file, index), type); },
          .set = [=](topology& file, std::size_t index, const setting_value& v) { assign(where(file, index), v); }};
}

/// Makes a section that may appear several times.
template <class Section>
section list(std::string name, std::string explanation, std::vector<Section> topology::*tables, std::string needed,
             std::vector<key> keys) {
  return {.name = std::move(name),
          .explanation = std::move(explanation),
          .keys = std::move(keys),
          .needed = std::move(needed),
          .count = [=](const topology& file) { return (file.*tables).size(); },
          .resize = [=](topology& file, std::size_t count) { (file.*tables).resize(count); }};
}

template <class Kinds>
std::vector<std::string> names(const Kinds& kinds) {
  std::vector<std::string> result;
  for (const auto& kind : kinds) result.push_back(kind.name);
  return result;
}

/// Returns kinds as the schema describes them.
template <class Kinds>
std::vector<named_kind> described(const Kinds& kinds) {
  std::vector<named_kind> result;
  for (const auto& kind : kinds) result.push_back({kind.name, kind.explanation, &kind.settings});
  return result;
}

/// Lets `made` have settings of the kinds that its keys name; `where` accesses their values, like in() and each().
template <class Where>
section with_kinds(section made, Where where, std::vector<kinds_of_key> kinds) {
  made.kinds = std::move(kinds);
  made.options = [=](const topology& file, std::size_t index) -> const setting_values& { return where(file, index); };
  made.set_options = [=](topology& file, std::size_t index, setting_values values) {
    where(file, index) = std::move(values);
  };
  return made;
}

}  // namespace troupe::topology::rows

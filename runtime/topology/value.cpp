#include "troupe/runtime/topology/value.hpp"

#include "troupe/files/text.hpp"
#include "troupe/net/channels/endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

namespace troupe::topology {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t largest_count = 1'000'000'000'000;
constexpr double longest_duration_ms = 10'000.0 * 3'600'000.0;
constexpr std::string_view longest_duration = "10000h";
constexpr std::pair<std::string_view, std::int64_t> units[] = {
    {"h", 3'600'000}, {"min", 60'000}, {"s", 1'000}, {"ms", 1}};

std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// Returns a number for prose: integers are written without exponents.
std::string bound(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? std::to_string(static_cast<std::int64_t>(value))
                                                              : number(value);
}

std::string basic_string(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\u00";
      result += hex[byte >> 4];
      result += hex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

template <class T>
std::string array(const std::vector<T>& values) {
  std::string result = "[";
  for (const T& value : values) result += (result.size() > 1 ? ", " : "") + to_toml(value);
  return result + "]";
}

std::string range(const setting& row) {
  const std::string least = row.minimum ? bound(*row.minimum) : "";
  const std::string most = row.maximum ? bound(*row.maximum) : "";
  if (row.minimum && row.maximum && !row.minimum_excluded && !row.maximum_excluded) {
    return " from " + least + " to " + most;
  }
  std::string result;
  if (row.minimum) result = (row.minimum_excluded ? " above " : " of at least ") + least;
  if (row.maximum) {
    result += result.empty() ? "" : " and";
    result += (row.maximum_excluded ? " below " : row.minimum ? " at most " : " of at most ") + most;
  }
  return result;
}

milliseconds duration_of(double seconds) {
  return std::chrono::round<milliseconds>(std::chrono::duration<double>(seconds));
}

/// Returns the number at the beginning of a text and the unit after it, or nothing if there is no number.
std::optional<std::pair<double, std::string_view>> split_quantity(std::string_view text) {
  double count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count, std::chars_format::fixed);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  return std::pair{count, text};
}

bool in_range(const setting& row, double value) {
  if (!std::isfinite(value)) return false;
  if (row.minimum && (row.minimum_excluded ? value <= *row.minimum : value < *row.minimum)) return false;
  return !row.maximum || (row.maximum_excluded ? value < *row.maximum : value <= *row.maximum);
}

}  // namespace

std::string to_toml(const setting_value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using held_type = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<held_type, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<held_type, std::int64_t>) {
          return std::to_string(held);
        } else if constexpr (std::is_same_v<held_type, double>) {
          const std::string text = number(held);
          return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
        } else if constexpr (std::is_same_v<held_type, std::string>) {
          return basic_string(held);
        } else {
          return array(held);
        }
      },
      value);
}

std::optional<milliseconds> parse_duration(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (!quantity) return {};
  const auto [count, unit] = *quantity;
  const auto known_unit =
      std::find_if(std::begin(units), std::end(units), [&](const auto& u) { return u.first == quantity->second; });
  if (known_unit == std::end(units)) return {};
  const double exact = count * static_cast<double>(known_unit->second);
  const double whole = std::round(exact);
  if (!(whole >= 1 && whole <= longest_duration_ms) || std::abs(exact - whole) > 1e-6) return {};
  return milliseconds(static_cast<std::int64_t>(whole));
}

std::string print_duration(milliseconds duration) {
  return duration.count() % 1000 == 0 ? std::to_string(duration.count() / 1000) + "s"
                                      : std::to_string(duration.count()) + "ms";
}

std::optional<microseconds> parse_delay(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (!quantity) return {};
  const auto [count, unit] = *quantity;
  double scale = unit == "us" ? 1 : 0;
  for (const auto& [name, milliseconds] : units)
    if (unit == name) scale = 1000.0 * static_cast<double>(milliseconds);
  const double exact = count * scale;
  const double whole = std::round(exact);
  if (scale == 0 || !(whole >= 0 && whole <= 1000 * longest_duration_ms) || std::abs(exact - whole) > 1e-6) return {};
  return microseconds(static_cast<std::int64_t>(whole));
}

std::string print_delay(microseconds delay) {
  if (delay.count() % 1000 != 0) return std::to_string(delay.count()) + "us";
  return print_duration(std::chrono::duration_cast<milliseconds>(delay));
}

std::optional<byte_rate> parse_rate(std::string_view text) {
  constexpr std::pair<std::string_view, double> prefixes[] = {
      {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0},
      {"k", 1e3},     {"M", 1e6},        {"G", 1e9},           {"T", 1e12}};
  const auto quantity = split_quantity(text);
  if (!quantity) return {};
  byte_rate rate{.text = std::string(text), .bytes_per_second = quantity->first};
  std::string_view unit = quantity->second;
  for (const auto& [prefix, factor] : prefixes) {
    if (!unit.starts_with(prefix)) continue;
    unit.remove_prefix(prefix.size());
    rate.bytes_per_second *= factor;
    break;
  }
  if (unit == "bit/s") rate.bytes_per_second /= 8;
  const bool known = unit == "bit/s" || unit == "B/s";
  if (!known || !(rate.bytes_per_second > 0) || !std::isfinite(rate.bytes_per_second)) return {};
  return rate;
}

std::optional<interval> parse_interval(std::string_view text) {
  interval every{.count = 0, .in_epochs = false};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), every.count);
  if (error != std::errc{} || every.count < 1 || every.count > largest_count) return {};
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  every.in_epochs = unit == " epoch" || unit == " epochs";
  if (!every.in_epochs && !unit.empty() && unit != " step" && unit != " steps") return {};
  return every;
}

std::string print_interval(const interval& every) {
  const std::string unit = every.in_epochs ? " epoch" : " step";
  return std::to_string(every.count) + unit + (every.count == 1 ? "" : "s");
}

std::optional<std::size_t> index_of_gpu(std::string_view text) {
  constexpr std::string_view prefix = "cuda:";
  constexpr std::size_t highest = 127;  // c10::DeviceIndex
  if (!text.starts_with(prefix)) return {};
  text.remove_prefix(prefix.size());
  std::size_t index = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || rest != text.data() + text.size() || index > highest) return {};
  return text == std::to_string(index) ? std::optional{index} : std::nullopt;  // no 01
}

std::string print_devices(const std::vector<std::string>& devices) {
  return devices.size() == 1 ? to_toml(devices.front()) : to_toml(devices);
}

std::string devices_expectation() {
  return "\"auto\", \"cpu\", \"cuda\", a GPU such as \"cuda:0\", or a list such as [\"cuda:0\", \"cuda:1\"]";
}

std::string expectation(const setting& row) {
  if (row.minimum && row.minimum == row.maximum) return bound(*row.minimum);
  switch (row.type) {
    case setting_type::boolean:
      return "true or false";
    case setting_type::integer:
      return "an integer" + range(row);
    case setting_type::real:
      return "a number" + range(row);
    case setting_type::text:
      return "a string";
    case setting_type::choice:
      return text::listed(text::in_quotes(row.choices));
    case setting_type::path:
      return "a path (a string)";
    case setting_type::endpoint:
      return "host:port with a port from 0 to 65535, such as \"127.0.0.1:4700\", \"localhost:4700\" or \"[::1]:4700\"";
    case setting_type::duration:
      return "a duration from " + print_duration(row.minimum ? duration_of(*row.minimum) : milliseconds{1}) + " to " +
             std::string(longest_duration) + ", such as \"500ms\", \"60s\" or \"5min\"";
    case setting_type::delay:
      return (row.choices.empty() ? "" : text::listed(text::in_quotes(row.choices)) + " or ") +
             "a duration of at most " + std::string(longest_duration) + ", such as \"0s\", \"50us\" or \"20ms\"";
    case setting_type::rate:
      return "a rate such as \"100Mbit/s\" or \"8GB/s\"";
    case setting_type::real_or_reals:
      return "a number" + range(row) + ", or a list of such numbers";
    case setting_type::every:
      return "a number of steps or epochs from 1 to " + std::to_string(largest_count) +
             ", such as 100, \"100 steps\" or \"1 epoch\"";
    case setting_type::words:
      return "a list of strings";
    case setting_type::paths:
      return "a list of paths (strings)";
    case setting_type::reals:
      return "a list of numbers" + (range(row).empty() ? "" : ", each" + range(row));
    case setting_type::choice_or_matrix: {
      std::vector<std::string> words = text::in_quotes(row.choices);
      words.push_back(matrix_expectation(row));
      return text::listed(words);
    }
    case setting_type::devices:
      return devices_expectation();
    case setting_type::integer_or_integers:
      return "an integer" + range(row) + ", or a list of such integers";
    case setting_type::column:
      return "the name of a column, or its number";
    case setting_type::columns:
      return "names or numbers of columns";
    case setting_type::pairs:
      return "a list of pairs of strings, such as [[\"w0\", \"w1\"], [\"w1\", \"w2\"]]";
  }
  return {};
}

std::string matrix_expectation(const setting& row) {
  return "a matrix such as [[0.5, 0.5], [0.5, 0.5]]" + (range(row).empty() ? "" : ", each number" + range(row));
}

bool allowed(const setting& row, const setting_value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return in_range(row, static_cast<double>(*integer));
  if (const auto* real = std::get_if<double>(&value)) return in_range(row, *real);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    return std::all_of(integers->begin(), integers->end(),
                       [&](std::int64_t element) { return in_range(row, static_cast<double>(element)); });
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    return std::all_of(reals->begin(), reals->end(), [&](double element) { return in_range(row, element); });
  }
  if (const auto* matrix = std::get_if<std::vector<std::vector<double>>>(&value)) {
    return !matrix->empty() && std::all_of(matrix->begin(), matrix->end(), [&](const auto& inner) {
      return !inner.empty() && inner.size() == matrix->front().size() && allowed(row, inner);
    });
  }
  if (const auto* pairs = std::get_if<std::vector<std::vector<std::string>>>(&value)) {
    return std::all_of(pairs->begin(), pairs->end(), [](const auto& pair) { return pair.size() == 2; });
  }
  if (const auto* words = std::get_if<std::vector<std::string>>(&value); words && row.type == setting_type::devices) {
    const auto is_single = [](const std::string& word) { return word == "cpu" || index_of_gpu(word); };
    const bool single = words->size() == 1 && (words->front() == "auto" || words->front() == "cuda");
    return single || (!words->empty() && std::all_of(words->begin(), words->end(), is_single));
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (row.type == setting_type::choice || row.type == setting_type::choice_or_matrix) {
      return std::find(row.choices.begin(), row.choices.end(), *text) != row.choices.end();
    }
    if (row.type == setting_type::endpoint) return parse_endpoint(*text).has_value();
    if (row.type == setting_type::duration) {
      const auto duration = parse_duration(*text);
      return duration && (!row.minimum || *duration >= duration_of(*row.minimum));
    }
    if (row.type == setting_type::every) return parse_interval(*text).has_value();
    if (row.type == setting_type::rate) return parse_rate(*text).has_value();
    if (row.type == setting_type::delay)
      return std::find(row.choices.begin(), row.choices.end(), *text) != row.choices.end() ||
             parse_delay(*text).has_value();
  }
  return true;
}

}  // namespace troupe::topology

#include "troupe/tools/comparing/conclusion.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::comparing {

namespace {

/// A variant with the value by which it is ranked.
struct ranked_variant {
  std::string label;
  spread value;
};

/// A value by which variants are ranked.
struct ranking {
  std::string heading;
  std::function<std::optional<spread>(const summary&)> value;
  std::function<std::string(double)> text;
  bool largest_wins{false};
};

/// Returns the variants with a finite median, the best first.
std::vector<ranked_variant> ranked(const ranking& by, const comparison& what, const std::vector<summary>& of) {
  std::vector<ranked_variant> order;
  for (std::size_t i = 0; i < of.size(); ++i)
    if (const auto is = by.value(of[i]); is && std::isfinite(is->median))
      order.push_back({what.variants[i].label, *is});
  std::stable_sort(order.begin(), order.end(), [&](const ranked_variant& a, const ranked_variant& b) {
    return by.largest_wins ? a.value.median > b.value.median : a.value.median < b.value.median;
  });
  return order;
}

std::string with_range(const ranking& by, const spread& of) {
  if (!std::isfinite(of.high)) return by.text(of.median) + " (from " + by.text(of.low) + "; not in every repeat)";
  return spread_text(of, by.text);
}

bool overlap(const spread& a, const spread& b) {
  return a.count > 1 && b.count > 1 && a.low <= b.high && b.low <= a.high;
}

/// Adds a sentence that names the best variant, those that equal it, the next one, and those whose range overlaps with
/// that of the best. Returns whether any variant could be ranked.
bool add_best(conclusion& found, const ranking& by, const comparison& what, const std::vector<summary>& of) {
  const auto order = ranked(by, what, of);
  if (order.empty()) return false;
  const auto& best = order.front();
  std::vector<std::string> first;
  std::size_t next = 0;
  while (next < order.size() && by.text(order[next].value.median) == by.text(best.value.median))
    first.push_back(order[next++].label);
  auto sentence = text::listed(first, "and") + " with " + with_range(by, best.value);
  if (first.size() > 1) sentence = text::listed(first, "and") + " with " + by.text(best.value.median) + " each";
  if (next < order.size()) sentence += ", before " + order[next].label + " with " + with_range(by, order[next].value);
  sentence += ".";
  std::vector<std::string> close;
  for (auto i = next; i < order.size(); ++i)
    if (overlap(best.value, order[i].value)) close.push_back(order[i].label);
  if (!close.empty())
    sentence += (first.size() > 1 ? " The range of " + best.label : " Its range") + " overlaps with " +
                std::string(close.size() == 1 ? "that" : "those") + " of " + text::listed(close, "and") +
                ", so this may be chance.";
  found.findings.push_back({by.heading, sentence});
  return true;
}

std::optional<spread> taken(const std::optional<to_target>& of) {
  return of ? std::optional(of->taken) : std::nullopt;
}

void add_target(conclusion& found, const comparison& what, const std::vector<summary>& of) {
  const auto goal = human_number(100 * *what.target) + " %";
  const ranking time{.heading = "Fastest to " + goal,
                     .value = [](const summary& measured) { return taken(measured.seconds_to_target); },
                     .text = seconds_text};
  const ranking bytes{.heading = "Fewest bytes to " + goal,
                      .value = [](const summary& measured) { return taken(measured.bytes_to_target); },
                      .text = bytes_text};
  const auto any = add_best(found, time, what, of);
  add_best(found, bytes, what, of);
  std::vector<std::string> without;
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i].finished > 0 && !of[i].seconds_to_target->is_finite()) without.push_back(what.variants[i].label);
  if (!any && !without.empty())
    found.findings.push_back({"Reached " + goal, "none; the target is too high for these runs."});
  else if (!without.empty())
    found.findings.push_back({"Not at " + goal + " in most runs", text::listed(without, "and") + "."});
}

bool is_of_training(std::string_view key) {
  constexpr std::array<std::string_view, 8> prefixes{"model.",     "data.",     "augment.",   "optimizer.",
                                                     "run.epochs", "run.steps", "run.budget", "workers.count"};
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return key.starts_with(prefix); });
}

void add_confounders(conclusion& found, const comparison& what) {
  std::set<std::string> chosen;
  for (const auto& [key, value] : what.variants.front().varied) chosen.insert(key);
  std::vector<std::string> keys;
  for (const auto& differing : differing_settings(what))
    if (is_of_training(differing.key) && !chosen.contains(differing.key)) keys.push_back(differing.key);
  if (!keys.empty())
    found.limits.push_back("The variants also differ in " + text::listed(keys, "and") +
                           ", so not every difference is due to the wiring.");
}

void add_setting(conclusion& found, const comparison& what) {
  const auto has_links = std::any_of(what.variants.begin(), what.variants.end(), [](const variant& candidate) {
    const auto link = candidate.settings.lower_bound("link.");
    return link != candidate.settings.end() && link->first.starts_with("link.");
  });
  if (what.simulated)
    found.limits.push_back(
        "Times are virtual: they follow from the links and speeds that the files describe, and leave out what "
        "a simulation does not model.");
  else if (has_links)
    found.limits.push_back(
        "All workers shared the cores of one machine, and the links between them were emulated: on real networks, "
        "times differ.");
  else
    found.limits.push_back(
        "All workers shared the cores and the memory of one machine, where messages cost little: over a network, "
        "another variant may win.");
  if (what.machines.size() > 1)
    found.limits.push_back("The runs were made on different machines, so their times cannot be compared.");
}

void add_counts(conclusion& found, const comparison& what, const std::vector<summary>& of) {
  std::size_t started = 0, finished = 0, least = 0, most = 0;
  for (const auto& measured : of) {
    started += measured.runs;
    finished += measured.finished;
    most = std::max(most, measured.finished);
    if (measured.finished > 0) least = least == 0 ? measured.finished : std::min(least, measured.finished);
  }
  const auto planned = what.variants.size() * what.repeats;
  if (started < planned)
    found.limits.push_back(counted(planned - started, "run") + " of " + grouped(planned) + " not made yet.");
  if (finished < started)
    found.limits.push_back(counted(started - finished, "run") + " of " + grouped(planned) +
                           " failed or interrupted, and left out of all medians.");
  if (least == 1)
    found.limits.push_back(std::string(most == 1 ? "Each variant ran once" : "Some variants ran only once") +
                           ", so a small difference may be chance.");
  else if (least > 1)
    found.limits.push_back("A range is that of " + std::string(least < most ? "at least " : "") +
                           counted(least, "repeat") + "; it contains the true median with a probability of " +
                           (least < most ? "at least " : "") + human_number(100 * coverage_of_range(least), 3) + " %.");
  if (what.target)
    found.limits.push_back(
        "The target counts as reached at the first evaluation that shows it, so the true time is up to one interval "
        "between evaluations shorter.");
}

}  // namespace

namespace {

/// Returns the value of a key without quotes; empty if the variant does not have it.
std::string value_of(const variant& of, const std::string& key) {
  const auto entry = of.settings.find(key);
  if (entry == of.settings.end()) return {};
  const auto& value = entry->second;
  return value.size() >= 2 && value.front() == '"' && value.back() == '"' ? value.substr(1, value.size() - 2) : value;
}

bool are_equal(const std::string& a, const std::string& b) {
  if (a == b) return true;
  double x = 0, y = 0;
  const auto is_number = [](const std::string& text, double& value) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failed == std::errc{} && end == text.data() + text.size();
  };
  return is_number(a, x) && is_number(b, y) && x == y;
}

/// Splits "exchange.0.graph" after the number. Returns nothing for other keys.
std::optional<std::pair<std::string, std::string>> exchange_key(const std::string& key) {
  constexpr std::string_view section = "exchange.";
  if (!key.starts_with(section)) return {};
  const auto dot = key.find('.', section.size());
  if (dot == std::string::npos) return {};
  return std::pair(key.substr(0, dot), key.substr(dot + 1));
}

/// Returns whether a key of an exchange can be left out: only some variants have it, all of them with its default.
bool is_idle_default(const comparison& what, const std::string& key) {
  const auto parts = exchange_key(key);
  if (!parts) return false;
  bool in_all = true;
  for (const auto& candidate : what.variants) {
    if (!candidate.settings.contains(key)) {
      in_all = false;
      continue;
    }
    const auto* kind = find_exchange(value_of(candidate, parts->first + ".kind"));
    if (kind == nullptr || candidate.given.contains(key)) return false;
    const auto is_it = [&](const setting& row) { return row.name == parts->second; };
    const auto row = std::find_if(kind->settings.begin(), kind->settings.end(), is_it);
    if (row == kind->settings.end()) return false;
    const auto usual = row->default_text;
    const bool is_quoted = usual.size() >= 2 && usual.front() == '"' && usual.back() == '"';
    if (!are_equal(value_of(candidate, key), is_quoted ? usual.substr(1, usual.size() - 2) : usual)) return false;
  }
  return !in_all;
}

/// Returns a key with the name of its exchange in place of the number if all variants agree on the name, and with
/// neither if no variant has a second exchange.
std::string shown_key(const comparison& what, const std::string& key) {
  const auto parts = exchange_key(key);
  if (!parts) return key;
  std::set<std::string> names;
  bool has_several = false;
  for (const auto& candidate : what.variants) {
    if (const auto name = value_of(candidate, parts->first + ".name"); !name.empty()) names.insert(name);
    const auto second = candidate.settings.lower_bound("exchange.1.");
    has_several |= second != candidate.settings.end() && second->first.starts_with("exchange.1.");
  }
  if (!has_several) return "exchange." + parts->second;
  return names.size() == 1 ? "exchange." + *names.begin() + "." + parts->second : key;
}

}  // namespace

std::vector<differing_setting> differing_settings(const comparison& what) {
  std::set<std::string> keys;
  for (const auto& candidate : what.variants)
    for (const auto& [key, value] : candidate.settings) keys.insert(key);
  std::vector<differing_setting> differing;
  for (const auto& key : keys) {
    if (is_idle_default(what, key)) continue;
    differing_setting setting{.key = key, .values = {}, .shown = shown_key(what, key)};
    for (const auto& candidate : what.variants) {
      const auto value = candidate.settings.find(key);
      setting.values.push_back(value == candidate.settings.end() ? std::string() : value->second);
    }
    const auto same = std::adjacent_find(setting.values.begin(), setting.values.end(), std::not_equal_to<>());
    if (same != setting.values.end()) differing.push_back(std::move(setting));
  }
  return differing;
}

conclusion conclude(const comparison& what, const std::vector<summary>& of) {
  conclusion result;
  if (what.target) {
    add_target(result, what, of);
  } else {
    add_best(result,
             {.heading = "Shortest run",
              .value = [](const summary& measured) { return measured.seconds; },
              .text = seconds_text},
             what, of);
    add_best(result,
             {.heading = "Fewest bytes",
              .value = [](const summary& measured) { return measured.bytes; },
              .text = bytes_text},
             what, of);
  }
  add_best(result,
           {.heading = "Best final accuracy",
            .value = [](const summary& measured) { return measured.final_accuracy; },
            .text = percent_text,
            .largest_wins = true},
           what, of);
  add_counts(result, what, of);
  add_confounders(result, what);
  add_setting(result, what);
  return result;
}

}  // namespace troupe::comparing

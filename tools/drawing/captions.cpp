#include "troupe/tools/drawing/captions.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/drawing/ties.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <variant>

namespace troupe {

namespace {

/// Returns a setting of one word or number as text, or nothing if it is longer.
std::string short_text(const setting_value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return human_number(*number);
  return {};
}

/// Returns whether a setting has its default value. 25.0 and 25 are the same number.
bool is_default(const setting& setting, const setting_value& value) {
  const auto text = short_text(value);
  if (text == setting.default_text || '"' + text + '"' == setting.default_text) return true;
  const auto* number = std::get_if<double>(&value);
  double usual = 0;
  const auto* end = setting.default_text.data() + setting.default_text.size();
  const auto [last, error] = std::from_chars(setting.default_text.data(), end, usual);
  return number && error == std::errc{} && last == end && usual == *number;
}

std::string text_of(const planned_exchange& exchange, const std::string& key) {
  const auto entry = exchange.settings.find(key);
  return entry == exchange.settings.end() ? "" : short_text(entry->second);
}

bool is_random(const planned_exchange& exchange) {
  return text_of(exchange, "graph").starts_with("random");
}

/// Returns the settings that differ from their defaults: " (route = ring)". The size of buckets is shown only if
/// buckets are sent. remark_of() describes a random graph.
std::string choices_of(const planned_exchange& exchange) {
  std::string choices;
  for (const auto& setting : exchange.kind->settings) {
    const auto given = exchange.settings.find(setting.name);
    if (given == exchange.settings.end()) continue;
    const auto text = short_text(given->second);
    const bool of_buckets = setting.name == "bucket_mb";
    const bool shown_elsewhere = is_random(exchange) && (setting.name == "graph" || setting.name == "graph_seed");
    const bool shown = of_buckets ? text_of(exchange, "send") == "bucket" : !is_default(setting, given->second);
    if (text.empty() || shown_elsewhere || !shown) continue;
    choices += (choices.empty() ? "" : ", ") + setting.name + " = " + text;
  }
  return choices.empty() ? "" : " (" + choices + ")";
}

/// Returns what the lines of a graph cannot show.
std::string remark_of(const plan& plan, const planned_exchange& exchange) {
  if (changes(plan.traffic_of(exchange))) return "drawn anew at each exchange";
  if (!is_random(exchange)) return {};
  const auto seed = text_of(exchange, "graph_seed");
  return "random graph, seed " + (seed.empty() ? "0" : seed);
}

/// Returns how many bytes the ties of one exchange carry in one direction, as a range.
std::string range_of(const std::vector<tie>& ties, std::size_t exchange) {
  std::vector<std::uint64_t> amounts;
  for (const auto& tie : ties)
    for (const auto bytes : {tie.bytes_there, tie.bytes_back})
      if (tie.exchange == exchange && bytes > 0) amounts.push_back(bytes);
  if (amounts.empty()) return {};
  const auto [least, most] = std::minmax_element(amounts.begin(), amounts.end());
  const auto from = human_bytes(*least);
  const auto to = human_bytes(*most);
  return from == to ? from : from + " to " + to;
}

std::string what_of(const plan& plan, const planned_exchange& exchange) {
  const auto& [sends, answers, behind_apply] = exchange.carries;
  const auto remark = remark_of(plan, exchange);
  return exchange.name + ": " + exchange.kind->name + choices_of(exchange) + " of the " +
         (exchange.of_norms ? "statistics" : name_of(sends)) +
         (answers == sends ? "" : ", answered with the " + name_of(answers)) +
         (when_of(exchange).empty() ? "" : ", " + when_of(exchange)) + (remark.empty() ? "" : "; " + remark);
}

std::string cost_of(const plan& plan, const picture& drawn, std::size_t place) {
  const auto& exchange = plan.exchanges[place];
  double mean_messages = 0, mean_bytes = 0, mean_crossing = 0;
  for (const auto& edge : plan.traffic[place].edges) {
    mean_messages += edge.used * static_cast<double>(edge.messages);
    mean_bytes += edge.used * static_cast<double>(edge.bytes);
    if (plan.crosses(edge)) mean_crossing += edge.used * static_cast<double>(edge.bytes);
  }
  const auto whole = [](double mean) { return static_cast<std::uint64_t>(std::llround(mean)); };
  const auto messages = whole(mean_messages), bytes = whole(mean_bytes), crossing = whole(mean_crossing);
  if (messages == 0) return {};
  auto cost = grouped(messages) + " messages and " + human_bytes(bytes) +
              (exchange.due.every > 1 ? " per exchange" : " per step");
  if (plan.nodes.size() > 1)
    cost += ", " +
            (crossing == bytes ? "all"
             : crossing == 0   ? "none"
                               : human_bytes(crossing)) +
            " of it between nodes";
  const auto per_arrow = range_of(drawn.ties, place);
  if (per_arrow.empty() || drawn.styles[place] == tie_style::bundle) return cost;  // the hub shows the bytes
  if (!has_labels(drawn)) cost += ", " + per_arrow + " per arrow" + (drawn.changing[place] ? " in use" : "");
  if (drawn.styles[place] == tie_style::faint)
    cost += "; faint: all but the arrows of " + drawn.units[first_unit_of(drawn, place)].title;
  if (drawn.styles[place] == tie_style::bus) cost += "; every worker exchanges with every server";
  return cost;
}

/// Widths of the narrowest panel and of the narrowest page, less their margins.
constexpr double panel_width = 625, page_width = 670;

void add(lines_of_text& lines, const std::string& text, double size, const std::string& colour, double width) {
  for (const auto& line : wrapped(text, size, width)) lines.push_back({size, colour, line});
}

}  // namespace

std::vector<std::string> wrapped(const std::string& text, double size, double width) {
  std::vector<std::string> lines{""};
  std::size_t at = 0;
  while (at <= text.size()) {
    const auto end = std::min(text.find(' ', at), text.size());
    const auto word = text.substr(at, end - at);
    if (lines.back().empty())
      lines.back() = word;
    else if (width_of(lines.back() + " " + word, size) <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
    at = end + 1;
  }
  return lines;
}

bool changes(const exchange_traffic& traffic) {
  return std::any_of(traffic.edges.begin(), traffic.edges.end(), [](const auto& edge) { return edge.used < 1; });
}

lines_of_text subtitle_of(const plan& plan, const std::string& where) {
  std::string loop;
  for (const auto& word : plan.file.workers.loop) loop += (loop.empty() ? "" : " → ") + word;
  lines_of_text lines;
  add(lines,
      plan.model->name + " with " + grouped(static_cast<std::uint64_t>(plan.layout.parameter_count)) +
          " parameters on " + plan.data->name + (loop.empty() ? "" : "  ·  " + loop),
      13, colours::quiet.text, page_width);
  add(lines,
      counted(plan.workers, "worker") + "  ·  " + devices_text(plan.devices) + "  ·  " +
          (plan.sampling.sizes.empty() ? "batch " : "batches of at most ") + std::to_string(plan.sampling.batch_size) +
          (plan.workers == 1 || !plan.sampling.sizes.empty() ? "" : " each") + (where.empty() ? "" : "  ·  " + where),
      12, colours::quiet.text, page_width);
  return lines;
}

std::vector<lines_of_text> captions_of(const plan& plan, const picture& drawn) {
  std::vector<lines_of_text> captions;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    const std::string colour = colours::of_exchange(place);
    lines_of_text lines;
    add(lines, what_of(plan, plan.exchanges[place]), 12.5, colour, panel_width);
    const auto cost = cost_of(plan, drawn, place);
    if (!cost.empty()) add(lines, cost, small_text, colour, panel_width);
    captions.push_back(lines);
  }
  return captions;
}

std::vector<note> hub_text_of(const plan& plan, const picture& drawn) {
  std::vector<note> text;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    if (drawn.styles[place] != tie_style::bundle) continue;
    const std::string colour = colours::of_exchange(place);
    if (text.empty())
      text.push_back({"each of the " + grouped(drawn.units.size()) + " with " +
                          (drawn.changing[place] ? "any" : "every") + " other",
                      colours::title});
    if (drawn.changing[place]) {
      text.push_back({remark_of(plan, plan.exchanges[place]), colour});
      text.push_back({range_of(drawn.ties, place) + " per edge in use", colour});
      continue;
    }
    const auto edges =
        2 * std::count_if(drawn.ties.begin(), drawn.ties.end(), [&](const auto& tie) { return tie.exchange == place; });
    text.push_back({grouped(static_cast<std::uint64_t>(edges)) + " edges of " + range_of(drawn.ties, place), colour});
  }
  return text;
}

std::string when_of(const planned_exchange& exchange) {
  const auto& due = exchange.due;
  std::vector<std::string> words;
  const auto streams = streaming_of(exchange.settings).is_used();
  if (due.stamps && !streams) words.push_back(counted(due.stamps->size(), "time") + ",");
  if (due.every > 1 || (due.stamps && !streams)) words.push_back("every " + counted(due.every, "step"));
  if (due.stamps && !streams) words.push_back("and less often as the learning rate falls");
  const auto regular = make_cadence(due.every, due.lead > 0, exchange.nature.due_from_start);
  if (due.first > regular.first) words.push_back("from step " + grouped(due.first + 1 - due.lead));
  if (due.last < cadence::never) words.push_back("until step " + grouped(due.last + 1 - due.lead));
  return text::joined(words, " ");
}

std::string encoding_of(const encoding_options& options) {
  const auto nature = codec_of(options.how).nature();
  auto words = "encoding = " + codec_of(options.how).name();
  if (nature.takes_ratio) words += ", ratio = " + topology::to_toml(options.ratio);
  if (nature.takes_rank) words += ", rank = " + std::to_string(options.rank);
  if (options.feedback) words += ", feedback";
  if (options.momentum_correction > 0)
    words += ", momentum_correction = " + topology::to_toml(options.momentum_correction);
  if (options.after > 0) words += ", after " + counted(options.after, "step") + " of float32";
  return words;
}

}  // namespace troupe

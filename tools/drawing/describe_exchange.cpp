#include "troupe/algorithms/rules/symmetry.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/drawing/captions.hpp"
#include "troupe/tools/drawing/describe.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

namespace troupe {

namespace {

/// Maximum number of edges that are listed; more are summarised.
constexpr std::size_t edges_listed_max = 16;
/// Maximum number of members, groups or servers that are named.
constexpr std::size_t named_max = 16;
/// Maximum number of members whose mixing matrix is printed.
constexpr std::size_t matrix_printed_max = 10;
/// Maximum number of lists that are shown of a setting that is a list of lists.
constexpr std::size_t lists_shown_max = 4;

/// Returns a number with at most four decimals, without trailing zeros.
std::string short_number(double number) {
  return human_number(std::round(number * 1e4) / 1e4);
}

std::string text_of(bool on) {
  return on ? "true" : "false";
}
std::string text_of(std::int64_t number) {
  return std::to_string(number);
}
std::string text_of(double number) {
  return human_number(number);
}
std::string text_of(const std::string& text) {
  return text;
}

template <class Element>
std::string text_of(const std::vector<Element>& list) {
  std::vector<std::string> words;
  for (const auto& element : list) words.push_back(text_of(element));
  return "[" + text::joined(words, ", ") + "]";
}

template <class Element>
std::string text_of(const std::vector<std::vector<Element>>& lists) {
  if (lists.size() > lists_shown_max) return "a list of " + grouped(lists.size()) + " lists";
  std::vector<std::string> words;
  for (const auto& list : lists) words.push_back(text_of(list));
  return "[" + text::joined(words, ", ") + "]";
}

std::string text_of(const setting_value& value) {
  return std::visit([](const auto& plain) { return text_of(plain); }, value);
}

/// Returns the messages and bytes of one exchange, on average if its edges change.
std::pair<double, std::uint64_t> messages_and_bytes(const std::vector<planned_edge>& edges) {
  double messages = 0, bytes = 0;
  for (const auto& edge : edges) {
    messages += edge.used * static_cast<double>(edge.messages);
    bytes += edge.used * static_cast<double>(edge.bytes);
  }
  return {messages, rounded(bytes)};
}

/// Returns ", in 33.3 % of the exchanges" if not every exchange uses the edge.
std::string used_text(const planned_edge& edge) {
  return edge.used == 1 ? "" : ", in " + human_number(std::round(1000 * edge.used) / 10) + " % of the exchanges";
}

std::string name_of_id(const plan& plan, const planned_exchange& exchange, std::uint32_t id) {
  if (id < plan.workers) return "worker " + std::to_string(id);
  if (exchange.nature.is_elsewhere()) return "actor " + exchange.nature.actor;
  return "server " + std::to_string(id - exchange.first_server);
}

/// Returns text such as "workers 0, 1 and 5".
std::string workers_named(const std::vector<std::uint32_t>& ranks) {
  if (ranks.size() > named_max) return counted(ranks.size(), "worker");
  std::string text = ranks.size() == 1 ? "worker " : "workers ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ") + std::to_string(ranks[i]);
  return text;
}

/// Adds the members, unless each worker is one.
void describe_members(page& page, const plan& plan, const planned_exchange& exchange) {
  if (!exchange.has_groups()) {
    if (exchange.members.size() < plan.workers) page.more("among " + workers_named(exchange.ranks()));
    return;
  }
  if (exchange.members.size() > named_max) {
    page.more("among " + counted(exchange.members.size(), "member") +
              "; each group is led by its worker of lowest rank");
    return;
  }
  for (const auto& member : exchange.members)
    page.more("member " + member.name + ": " + workers_named(member.ranks) +
              (member.ranks.size() > 1 ? ", led by worker " + std::to_string(member.ranks.front()) : ""));
}

void describe_servers(page& page, const plan& plan, const planned_exchange& exchange) {
  const auto servers = exchange.nature.servers;
  if (servers == 0) return;
  if (const auto& actor = exchange.nature.actor; !actor.empty())
    return page.more("the rule is that of actor " + actor + ", in another program");
  if (!exchange.nature.in_loop)
    return page.more(human_bytes(plan.bytes_held(exchange, 0)) + " of shared memory, no messages");
  std::vector<std::string> held;
  for (std::uint32_t i = 0; i < servers; ++i) held.push_back(human_bytes(plan.bytes_held(exchange, i)));
  const auto& node = plan.nodes.front().name;
  page.more(counted(servers, "server") + (node.empty() ? "" : " on " + node) +
            (held.size() > named_max ? "" : ", holding " + text::listed(held, "and")));
}

/// Returns a time with three digits, such as "40.3 ms".
std::string time_text(double seconds) {
  constexpr int digits = 3;
  if (seconds < 1e-3) return human_number(1e6 * seconds, digits) + " us";
  if (seconds < 1) return human_number(1e3 * seconds, digits) + " ms";
  return (seconds < 1000 ? human_number(seconds, digits) : grouped(rounded(seconds))) + " s";
}

/// Describes the choice, the time of each candidate for all buckets one after the other, and the assumed links.
void describe_choices(page& page, const exchange_traffic& traffic) {
  if (traffic.choices.empty() || traffic.choices.front().candidates.empty()) return;
  std::map<std::string, std::size_t> chosen;
  std::map<std::string, double> seconds;
  double fastest = 0;
  for (const auto& choice : traffic.choices) {
    chosen[choice.candidates.front().value] += 1;
    fastest += choice.candidates.front().seconds;
    for (const auto& candidate : choice.candidates) seconds[candidate.value] += candidate.seconds;
  }
  std::vector<std::string> names, others;
  for (const auto& [name, buckets] : chosen)
    names.push_back(name + (chosen.size() > 1 ? " for " + counted(buckets, "bucket") : ""));
  for (const auto& [name, time] : seconds)
    if (chosen.size() > 1 || !chosen.contains(name)) others.push_back(name + " " + time_text(time));
  page.more(traffic.choices.front().key + " auto is " + text::listed(names, "and") + ", predicted to take " +
            time_text(fastest) + (others.empty() ? "" : " (" + text::joined(others, ", ") + ")"));
  page.more("assuming " + text::joined(traffic.assumed_links, "; "));
}

/// Describes the rates of W. The contraction is a separate figure only if W is not normal.
std::string rates_text(const rules::mixing_rates& rates) {
  constexpr double same = 1e-6;
  const auto gap = "spectral gap of W: " + human_number(rates.gap);
  if (std::abs(rates.contraction - (1 - rates.gap)) <= same) return gap;
  return gap + " (asymptotic); one exchange multiplies the distance to the mean by at most " +
         human_number(rates.contraction);
}

/// Describes what the exchanges of a period do together, or nothing if there are too many members to compute it.
std::string period_text(const rules::mixing_schedule& schedule) {
  constexpr double rounding = 1e-12;
  if (schedule.members() > 1024) return "";
  const auto rates = rules::rates_of(rules::product_of_period(schedule));
  if (!rates) return "";
  if (rates->contraction < rounding) return ", after which all members have the mean";
  return ", which multiply the distance to the mean by at most " + human_number(rates->contraction);
}

void describe_period(page& page, const rules::mixing_schedule& schedule) {
  page.more("the mixing matrix W changes; it repeats after " + std::to_string(schedule.period().size()) + " exchanges" +
            period_text(schedule));
}

void describe_mixing(page& page, const planned_exchange& exchange) {
  const auto* schedule = exchange.mixing();
  if (!schedule) return;
  const auto* mixing = schedule->constant();
  if (!mixing) return describe_period(page, *schedule);
  if (const auto rates = rules::rates_of(*mixing))
    page.more(rates_text(*rates));
  else if (const auto columns = rules::columns_of_symmetry(*mixing))
    page.more(rates_text(rules::rates_by_symmetry(*mixing, *columns)));
  if (mixing->rows.size() > matrix_printed_max) return;
  std::string label = "W = ";
  for (const auto& row : dense(*mixing)) {
    std::string line;
    for (const auto weight : row) {
      const auto text = short_number(weight);
      line += text + std::string(8 - text.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    page.more(std::exchange(label, "    ") + line);
  }
}

}  // namespace

void describe_exchange(page& page, const plan& plan, const planned_exchange& exchange) {
  std::vector<std::string> words{
      exchange.kind->name,
      exchange.of_norms
          ? "sends the batch statistics of " + counted(exchange.buckets.size() / 2, "layer") + " and their gradients"
      : !exchange.nature.in_loop
          ? std::string("holds the parameters of its workers, which read and write them concurrently")
          : "sends the " + name_of(exchange.carries.sends)};
  if (!exchange.of_norms && exchange.buckets.size() > 1)
    words.back() += " in " + std::to_string(exchange.buckets.size()) + " buckets";
  if (exchange.carries.answers != exchange.carries.sends)
    words.push_back("answers with the " + name_of(exchange.carries.answers));
  if (const auto when = when_of(exchange); !when.empty()) words.push_back(when);
  if (exchange.codec.how != encoding::float32) words.push_back(encoding_of(exchange.codec));
  for (const auto& [name, value] : exchange.settings) words.push_back(name + " = " + text_of(value));
  page.line(exchange.name, text::joined(words, ", "));
  describe_choices(page, plan.traffic_of(exchange));
  describe_members(page, plan, exchange);
  describe_servers(page, plan, exchange);
  describe_mixing(page, exchange);
  if (!exchange.nature.in_loop) return;
  const auto& edges = plan.traffic_of(exchange).edges;
  const auto [messages, bytes] = messages_and_bytes(edges);
  page.more(mean_count(messages, "message") + " and " + human_bytes(bytes) + " of tensors " +
            (exchange.due.every > 1 ? "per exchange" : "per step") + ", over " + counted(edges.size(), "edge"));
  if (edges.size() > edges_listed_max) {
    const auto by_bytes = [](const planned_edge& a, const planned_edge& b) { return a.bytes < b.bytes; };
    const auto [least, most] = std::minmax_element(edges.begin(), edges.end(), by_bytes);
    const auto low = human_bytes(least->bytes), high = human_bytes(most->bytes);
    page.more((low == high ? low : low + " to " + high) + " per edge");
    return;
  }
  for (const auto& edge : edges)
    page.more(name_of_id(plan, exchange, edge.from) + " → " + name_of_id(plan, exchange, edge.to) + "   " +
              counted(edge.messages, "message") + ", " + human_bytes(edge.bytes) + used_text(edge) +
              (plan.crosses(edge) ? ", from " + plan.nodes[plan.node_of(edge.from)].name + " to " +
                                        plan.nodes[plan.node_of(edge.to)].name
                                  : ""));
}

std::vector<std::vector<double>> dense(const rules::mixing_matrix& mixing) {
  std::vector<std::vector<double>> rows(mixing.rows.size(), std::vector<double>(mixing.rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const auto& [index, weight] : mixing.rows[i]) rows[i][index] = weight;
  return rows;
}

}  // namespace troupe

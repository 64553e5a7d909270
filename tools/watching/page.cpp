#include "troupe/tools/watching/page.hpp"

#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/pages/figure.hpp"
#include "troupe/tools/pages/html.hpp"
#include "troupe/tools/pages/sources.hpp"
#include "troupe/tools/watching/figures.hpp"
#include "troupe/tools/watching/page_sources.hpp"
#include "troupe/tools/watching/summary.hpp"
#include "troupe/tools/watching/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::watching {

namespace {

using json = files::json;
using pages::escaped;

json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::string state_html(const run_facts& facts, const history_state& state) {
  const auto status = state.status();
  const auto steps = std::to_string(std::min(state.steps, facts.steps)), total = std::to_string(facts.steps);
  return "<div class=\"state\"><span class=\"badge " + escaped(status) + "\">" + escaped(status_text(status)) +
         "</span><progress max=\"" + total + "\" value=\"" + steps + "\">" + steps + " of " + total +
         " steps</progress></div>\n";
}

std::string tiles_html(const run_facts& facts, const history_state& state) {
  std::string text = "<dl class=\"tiles\">";
  for (const auto& [label, value] : tiles_of(facts, state))
    text += "<div><dt>" + label + "</dt><dd>" + escaped(value) + "</dd></div>";
  return text + "</dl>\n";
}

std::string figures_html(const run_facts& facts, const history_state& state) {
  const auto figures = figures_of(facts, state);
  std::string text = "<div class=\"grid\">\n";
  for (const auto& figure : figures) text += pages::card_of(figure.name, pages::draw(figure));
  text += "</div>\n";
  const auto has = [&](const char* name) {
    return std::any_of(figures.begin(), figures.end(),
                       [&](const pages::figure& figure) { return figure.name == name; });
  };
  std::vector<std::string> missing;
  for (const auto* name : {"loss", "accuracy"})
    if (!has(name)) missing.emplace_back(name);
  if (!missing.empty())
    text += "<p class=\"note\">There is no figure of the " + text::listed(missing, "or") + ": the run has reported " +
            (state.has_ended() ? "none" : "none yet") + ".</p>\n";
  return text;
}

/// Returns the head of a table, in a box that scrolls.
std::string table_html(const std::vector<std::string>& columns) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const auto& column : columns) text += "<th>" + column + "</th>";
  return text + "</tr></thead>\n<tbody>\n";
}

std::string row_html(const std::string& name, const std::vector<std::string>& cells) {
  auto text = "<tr><th scope=\"row\">" + escaped(name) + "</th>";
  for (const auto& cell : cells) text += "<td>" + escaped(cell) + "</td>";
  return text + "</tr>\n";
}

std::string shares_html(const time_shares& of) {
  std::string text = "<div class=\"shares\">";
  for (const auto& [name, share] :
       {std::pair{"compute", of.compute}, std::pair{"data", of.data}, std::pair{"exchange", of.exchange}})
    text += "<i class=\"" + std::string(name) + "\" style=\"width:" + human_number(100 * share, 4) + "%\"></i>";
  return text + "</div>";
}

std::string workers_html(const history_state& state) {
  const auto workers = std::max(state.workers.size(), state.steps_by_worker.size());
  if (workers == 0) return "";
  const auto shares = shares_of(state);
  std::string text = "<section><h2>Workers</h2>\n";
  if (const auto waiting = waiting_text(state)) text += "<p class=\"note\">" + escaped(*waiting) + "</p>\n";
  text +=
      "<p class=\"note legend\"><i class=\"compute\"></i>computing<i class=\"data\"></i>waiting for samples"
      "<i class=\"exchange\"></i>waiting for exchanges</p>\n" +
      table_html({"worker", "steps", "samples", "sent", "computing", "samples awaited", "exchanges awaited",
                  "share of the time"});
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const auto known = rank < state.workers.size() ? state.workers[rank] : worker_total{};
    const auto spent = rank < shares.size() ? shares[rank] : time_shares{};
    text += "<tr><th scope=\"row\">" + std::to_string(rank) + "</th>";
    for (const auto& cell : {grouped(steps_of(state, rank)), grouped(static_cast<std::uint64_t>(known.samples)),
                             human_bytes(known.bytes_sent), percent_text(spent.compute), percent_text(spent.data),
                             percent_text(spent.exchange)})
      text += "<td>" + cell + "</td>";
    text += "<td class=\"left\">" + shares_html(spent) + "</td></tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

/// Returns the steps of every worker per second at the current speed.
double steps_per_second(const run_facts& facts, const history_state& state) {
  const auto samples = samples_per_second(facts, state);
  return samples && facts.samples_per_step > 0 ? *samples / static_cast<double>(facts.samples_per_step) : 0;
}

/// Returns a table of the traffic of each exchange: its planned bytes, and their rate at the measured speed.
std::string exchanges_html(const run_facts& facts, const history_state& state) {
  if (facts.exchanges.empty()) return "";
  const auto steps = steps_per_second(facts, state);
  auto text = "<section><h2>Exchanges</h2>\n<p class=\"note\">Bytes as planned; rates at the current speed.</p>\n" +
              table_html({"exchange", "kind", "every", "edges", "bytes per exchange", "rate", "rate of an edge"});
  for (const auto& exchange : facts.exchanges) {
    const auto rate = steps * exchange.bytes / static_cast<double>(std::max<std::uint64_t>(exchange.every, 1));
    const auto edges = static_cast<double>(std::max<std::uint64_t>(exchange.edges, 1));
    text += row_html(exchange.name,
                     {exchange.kind, exchange.every == 1 ? "step" : grouped(exchange.every) + " steps",
                      grouped(exchange.edges), bytes_text(exchange.bytes), rate_text(rate), rate_text(rate / edges)});
  }
  return text + "</tbody></table></div></section>\n";
}

/// Returns a table of what the emulated links carry.
std::string links_html(const run_facts& facts, const history_state& state) {
  const auto links = links_of(state);
  if (links.empty()) return "";
  const bool whole = facts.simulated || state.has_ended();
  auto text =
      "<section><h2>Links</h2>\n<p class=\"note\">What emulated links carry and how long messages wait for them, " +
      std::string(whole ? "over the whole run" : "in the last few seconds") + ".</p>\n" +
      table_html(
          {"link", "sent in total", "rate", "occupied", "messages that wait", "mean wait", "longest wait of the run"});
  for (const auto& link : links)
    text +=
        row_html(link.name, {bytes_text(static_cast<double>(link.bytes)), rate_text(link.rate), percent_text(link.busy),
                             human_number(link.queue, 3), wait_text(link.wait_mean), wait_text(link.wait_max)});
  return text + "</tbody></table></div></section>\n";
}

/// Returns the lines of text next to an edge of the drawing.
json short_text(const edge_traffic& edge) {
  auto lines = json::array({rate_text(edge.rate)});
  std::string more;
  if (edge.wait_mean) more = "wait " + wait_text(*edge.wait_mean);
  if (edge.staleness) more += (more.empty() ? "stale " : ", stale ") + grouped(*edge.staleness);
  if (!more.empty()) lines.push_back(more);
  return lines;
}

std::string long_text(const edge_traffic& edge) {
  const auto planned = bytes_text(edge.planned) + " per step as planned";
  if (!edge.measured) return rate_text(edge.rate) + " at the current speed; " + planned;
  auto text = rate_text(edge.rate) + "; " + bytes_text(static_cast<double>(edge.bytes)) + " in " +
              grouped(edge.messages) + (edge.messages == 1 ? " message; " : " messages; ") + planned;
  if (edge.queue)
    text += "; " + human_number(*edge.queue, 3) + " messages wait to be sent, " + wait_text(*edge.wait_mean) +
            " on average";
  if (edge.staleness) text += "; staleness of the last: " + grouped(*edge.staleness);
  return text;
}

/// Returns what the drawing of the wiring shows for each worker and each edge.
std::string drawn_html(const run_facts& facts, const history_state& state) {
  const auto shares = shares_of(state);
  const auto awaited = awaited_worker(state);
  json workers = json::object(), edges = json::object();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto& spent = shares[rank];
    const auto name = "w" + std::to_string(rank);
    workers[name] = {
        {"shares", {{"compute", spent.compute}, {"data", spent.data}, {"exchange", spent.exchange}}},
        {"awaited", awaited == rank},
        {"text", name + ": " + grouped(steps_of(state, rank)) + " steps; computing " + percent_text(spent.compute) +
                     ", waiting for samples " + percent_text(spent.data) + ", for exchanges " +
                     percent_text(spent.exchange) + (awaited == rank ? "; the others wait for it" : "")}};
  }
  for (const auto& edge : edges_of(facts, state))
    edges[edge.name] = {{"short", short_text(edge)}, {"text", long_text(edge)}};
  return "<script type=\"application/json\" id=\"drawn\">" +
         pages::script_json(files::json_text({{"workers", workers}, {"edges", edges}})) + "</script>\n";
}

// The parts of the page that change while the run trains. The elements between them, which a reader operates, stay.

std::string part_html(const std::string& name, const std::string& content) {
  return "<div data-part=\"" + name + "\">\n" + content + "</div>\n";
}

std::string state_part(const run_facts& facts, const history_state& state) {
  return part_html("state", state_html(facts, state) + tiles_html(facts, state));
}

std::string figures_part(const run_facts& facts, const history_state& state) {
  return part_html("figures", figures_html(facts, state));
}

std::string tables_part(const run_facts& facts, const history_state& state) {
  return part_html("tables", workers_html(state) + exchanges_html(facts, state) + links_html(facts, state) +
                                 drawn_html(facts, state));
}

std::string warnings_html(const run_facts& facts) {
  if (facts.warnings.empty()) return "";
  std::string text = "<ul class=\"warnings\">";
  for (const auto& warning : facts.warnings) text += "<li>" + escaped(warning) + "</li>";
  return text + "</ul>\n";
}

std::string policy(bool live) {
  std::string scripts =
      pages::policy_source(pages::sources::figure_js) + " " + pages::policy_source(page_sources::wiring_js);
  if (live) scripts += " " + pages::policy_source(page_sources::live_js);
  return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " + scripts +
         (live ? "; connect-src 'self'" : "") + "; base-uri 'none'; form-action 'none'";
}

std::string page_of(const run_facts& facts, const history_state& state, const std::string& wiring, bool live) {
  const auto image =
      wiring.empty() ? std::string() : "<img alt=\"The wiring\" src=\"" + pages::url_of_svg(wiring) + "\">";
  return pages::filled(page_sources::watch_html,
                       {{"policy", policy(live)},
                        {"title", escaped(facts.title)},
                        {"subtitle", escaped(facts.subtitle)},
                        {"page_css", std::string(pages::sources::page_css)},
                        {"watch_css", std::string(page_sources::watch_css)},
                        {"figure_css", pages::figure_style()},
                        {"figure_js", std::string(pages::sources::figure_js)},
                        {"wiring_js", std::string(page_sources::wiring_js)},
                        {"live_script", live ? "<script>" + std::string(page_sources::live_js) + "</script>\n" : ""},
                        {"origin", escaped(facts.origin.text())},
                        {"state", state_part(facts, state)},
                        {"figures", figures_part(facts, state)},
                        {"tables", tables_part(facts, state)},
                        {"wiring_hidden", wiring.empty() ? " hidden" : ""},
                        {"wiring", image},
                        {"warnings", warnings_html(facts)},
                        {"topology", escaped(facts.topology)},
                        {"csv", live ? ""
                                     : "<script type=\"application/json\" id=\"csv\">" +
                                           pages::script_json(csv_of_figures(facts, state)) + "</script>\n"},
                        {"data", pages::script_json(json_of(facts, state))}});
}

}  // namespace

std::string drawing_in(const std::filesystem::path& folder) try {
  return read_text(folder / "graph.svg");
} catch (const std::exception&) {
  return {};
}

std::string report_of(const run_facts& facts, const history_state& state, const std::string& wiring) {
  return page_of(facts, state, wiring, false);
}

std::string live_page_of(const run_facts& facts, const history_state& state) {
  return page_of(facts, state, "", true);
}

std::string live_policy() {
  return policy(true) + "; frame-ancestors 'none'";
}

std::string update_of(const run_facts& facts, const history_state& state, bool has_wiring) {
  const auto done = facts.steps > 0 ? 100 * std::min(state.steps, facts.steps) / facts.steps : 0;
  return files::json_text(
      {{"title", std::to_string(done) + " % " + facts.title},
       {"ended", state.has_ended()},
       {"wiring", has_wiring},
       {"html", state_part(facts, state) + figures_part(facts, state) + tables_part(facts, state)}});
}

std::string json_of(const run_facts& facts, const history_state& state) {
  json workers = json::array(), links = json::array(), edges = json::array();
  const auto shares = shares_of(state);
  const auto count = std::max(state.workers.size(), state.steps_by_worker.size());
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto known = rank < state.workers.size() ? state.workers[rank] : worker_total{};
    workers.push_back({{"rank", rank},
                       {"steps", steps_of(state, rank)},
                       {"samples", known.samples},
                       {"bytes_sent", known.bytes_sent},
                       {"busy_seconds", known.busy},
                       {"data_wait_seconds", known.data_wait},
                       {"exchange_wait_seconds", known.exchange_wait}});
    if (rank < shares.size())
      workers.back().update({{"compute_share", shares[rank].compute},
                             {"data_share", shares[rank].data},
                             {"exchange_share", shares[rank].exchange}});
  }
  for (const auto& link : links_of(state))
    links.push_back({{"link", link.name},
                     {"messages", link.messages},
                     {"bytes", link.bytes},
                     {"bytes_per_second", link.rate},
                     {"busy_share", link.busy},
                     {"queue", link.queue},
                     {"wait_mean_seconds", link.wait_mean},
                     {"wait_max_seconds", link.wait_max}});
  for (const auto& edge : edges_of(facts, state))
    edges.push_back({{"edge", edge.name},
                     {"planned_bytes_per_step", edge.planned},
                     {"messages", edge.measured ? json(edge.messages) : json(nullptr)},
                     {"bytes", edge.measured ? json(edge.bytes) : json(nullptr)},
                     {"bytes_per_second", edge.rate},
                     {"queue", number(edge.queue)},
                     {"wait_mean_seconds", number(edge.wait_mean)},
                     {"staleness", edge.staleness ? json(*edge.staleness) : json(nullptr)}});
  const auto& latest = state.latest;
  return files::json_text({{"title", facts.title},
                           {"origin", files::parse_json(telemetry::json_of(facts.origin))},
                           {"model", facts.model},
                           {"data", facts.data},
                           {"simulated", facts.simulated},
                           {"status", state.status()},
                           {"steps", facts.steps},
                           {"step", state.steps},
                           {"epoch", latest ? latest->epoch : 0},
                           {"updates", latest ? latest->updates : 0},
                           {"seconds", latest ? number(latest->seconds) : json(nullptr)},
                           {"seconds_left", number(seconds_left(facts, state))},
                           {"samples_per_second", number(samples_per_second(facts, state))},
                           {"train_loss", number(state.last(&record::train_loss))},
                           {"train_accuracy", number(state.last(&record::train_accuracy))},
                           {"val_loss", number(state.last(&record::val_loss))},
                           {"val_accuracy", number(state.last(&record::val_accuracy))},
                           {"lr", number(state.last(&record::lr))},
                           {"consensus_distance", number(state.last(&record::consensus_distance))},
                           {"staleness_mean", number(state.last(&record::staleness_mean))},
                           {"bytes_sent", latest ? latest->bytes_sent : 0},
                           {"waiting", waiting_text(state).value_or("")},
                           {"workers", workers},
                           {"links", links},
                           {"edges", edges}});
}

std::string csv_of_figures(const run_facts& facts, const history_state& state) {
  json csv = json::object();
  for (const auto& figure : figures_of(facts, state)) csv[figure.name] = pages::csv_of(figure);
  csv["wiring"] = csv_of(edges_of(facts, state));
  return files::json_text(csv);
}

}  // namespace troupe::watching

#include "troupe/runtime/watching/page.hpp"

#include "troupe/runtime/pages/figure.hpp"
#include "troupe/runtime/pages/html.hpp"
#include "troupe/runtime/pages/sources.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/watching/figures.hpp"
#include "troupe/runtime/watching/page_sources.hpp"
#include "troupe/runtime/watching/summary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::watching {

namespace {

using json = nlohmann::ordered_json;
using pages::escaped;

/// Returns JSON on one line; bytes that are not UTF-8 are replaced.
std::string dumped(const json& value) {
  constexpr int on_one_line = -1;
  return value.dump(on_one_line, ' ', false, json::error_handler_t::replace);
}

json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::string state_html(const run_facts& facts, const run_state& state) {
  const auto status = state.status();
  const std::map<std::string, std::string> words{
      {"waiting", "not started yet"}, {"stopped_early", "stopped early"}, {"max_seconds", "time limit reached"}};
  const auto word = words.find(status);
  const auto shown = word != words.end() ? word->second : status;
  const auto steps = std::to_string(std::min(state.steps, facts.steps)), all = std::to_string(facts.steps);
  return "<div class=\"state\"><span class=\"badge " + escaped(status) + "\">" + escaped(shown) +
         "</span><progress max=\"" + all + "\" value=\"" + steps + "\">" + steps + " of " + all +
         " steps</progress></div>\n";
}

std::string tiles_html(const run_facts& facts, const run_state& state) {
  std::string text = "<dl class=\"tiles\">";
  for (const auto& [label, value] : tiles_of(facts, state))
    text += "<div><dt>" + label + "</dt><dd>" + escaped(value) + "</dd></div>";
  return text + "</dl>\n";
}

std::string figures_html(const run_facts& facts, const run_state& state) {
  std::string text = "<section><h2>Curves</h2>\n<div class=\"grid\">\n";
  for (const auto& each : figures_of(facts, state))
    text += "<figure class=\"card\" data-figure=\"" + each.name + "\">" + pages::draw(each) +
            "<figcaption><button type=\"button\" data-save=\"svg\">SVG</button></figcaption></figure>\n";
  return text + "</div></section>\n";
}

std::string shares_html(const time_shares& of) {
  std::string text = "<div class=\"shares\">";
  for (const auto& [name, share] :
       {std::pair{"compute", of.compute}, std::pair{"data", of.data}, std::pair{"exchange", of.exchange}})
    text += "<i class=\"" + std::string(name) + "\" style=\"width:" + human_number(100 * share, 4) + "%\"></i>";
  return text + "</div>";
}

/// The steps of a worker, as fresh as known.
std::uint64_t steps_of(const run_state& state, std::size_t rank) {
  const auto totals = rank < state.workers.size() ? state.workers[rank].steps : 0;
  return std::max(totals, rank < state.steps_by_worker.size() ? state.steps_by_worker[rank] : 0);
}

std::string workers_html(const run_state& state) {
  const auto workers = std::max(state.workers.size(), state.steps_by_worker.size());
  if (workers == 0) return "";
  const auto shares = shares_of(state);
  std::string text = "<section><h2>Workers</h2>\n";
  if (const auto waiting = waiting_text(state)) text += "<p class=\"note\">" + escaped(*waiting) + "</p>\n";
  text +=
      "<p class=\"note legend\"><i class=\"compute\"></i>computing<i class=\"data\"></i>waiting for samples"
      "<i class=\"exchange\"></i>waiting for exchanges</p>\n"
      "<div class=\"scroll\"><table><thead><tr><th>worker</th><th>steps</th><th>samples</th><th>sent</th>"
      "<th>computing</th><th>samples awaited</th><th>exchanges awaited</th><th>share of the time</th></tr></thead>\n"
      "<tbody>\n";
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const auto known = rank < state.workers.size() ? state.workers[rank] : worker_total{};
    const auto of = rank < shares.size() ? shares[rank] : time_shares{};
    text += "<tr><th scope=\"row\">" + std::to_string(rank) + "</th>";
    for (const auto& cell :
         {grouped(steps_of(state, rank)), grouped(static_cast<std::uint64_t>(known.samples)),
          human_bytes(known.bytes_sent), percent_text(of.compute), percent_text(of.data), percent_text(of.exchange)})
      text += "<td>" + cell + "</td>";
    text += "<td class=\"left\">" + shares_html(of) + "</td></tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

std::string rate_text(double bytes_per_second) {
  return human_bytes(static_cast<std::uint64_t>(std::llround(bytes_per_second))) + "/s";
}

/// Steps of every worker per second, at the current speed.
double steps_per_second(const run_facts& facts, const run_state& state) {
  const auto samples = samples_per_second(facts, state);
  return samples && facts.samples_per_step > 0 ? *samples / static_cast<double>(facts.samples_per_step) : 0;
}

/// The traffic of each exchange: planned bytes, and how many of them per second the measured speed makes.
std::string exchanges_html(const run_facts& facts, const run_state& state) {
  if (facts.exchanges.empty()) return "";
  const auto steps = steps_per_second(facts, state);
  std::string text =
      "<section><h2>Exchanges</h2>\n<p class=\"note\">Bytes as planned; rates at the current speed.</p>\n"
      "<div class=\"scroll\"><table><thead><tr><th>exchange</th><th>kind</th><th>every</th><th>edges</th>"
      "<th>bytes per exchange</th><th>rate</th><th>rate of an edge</th></tr></thead>\n<tbody>\n";
  for (const auto& one : facts.exchanges) {
    const auto rate = steps * one.bytes / static_cast<double>(std::max<std::uint64_t>(one.every, 1));
    const auto edges = static_cast<double>(std::max<std::uint64_t>(one.edges, 1));
    text += "<tr><th scope=\"row\">" + escaped(one.name) + "</th>";
    for (const auto& cell :
         {escaped(one.kind), one.every == 1 ? "step" : grouped(one.every) + " steps", grouped(one.edges),
          human_bytes(static_cast<std::uint64_t>(std::llround(one.bytes))), rate_text(rate), rate_text(rate / edges)})
      text += "<td>" + cell + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody></table></div></section>\n";
}

/// What the drawing of the wiring shows of each worker and each edge.
std::string drawn_html(const run_facts& facts, const run_state& state) {
  const auto shares = shares_of(state);
  json workers = json::object(), edges = json::object();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto& of = shares[rank];
    const auto name = "w" + std::to_string(rank);
    workers[name] = {{"shares", {{"compute", of.compute}, {"data", of.data}, {"exchange", of.exchange}}},
                     {"text", name + ": " + grouped(steps_of(state, rank)) + " steps; computing " +
                                  percent_text(of.compute) + ", waiting for samples " + percent_text(of.data) +
                                  ", for exchanges " + percent_text(of.exchange)}};
  }
  const auto steps = steps_per_second(facts, state);
  for (const auto& each : facts.edges)
    edges[each.name] = {{"rate", rate_text(steps * each.bytes)},
                        {"text", human_bytes(static_cast<std::uint64_t>(std::llround(each.bytes))) + " per step, " +
                                     rate_text(steps * each.bytes)}};
  return "<script type=\"application/json\" id=\"drawn\">" +
         pages::script_json(dumped({{"workers", workers}, {"edges", edges}})) + "</script>\n";
}

/// The part of the page that changes while the run trains.
std::string live_html(const run_facts& facts, const run_state& state) {
  return state_html(facts, state) + tiles_html(facts, state) + figures_html(facts, state) + workers_html(state) +
         exchanges_html(facts, state) + drawn_html(facts, state);
}

std::string warnings_html(const run_facts& facts) {
  if (facts.warnings.empty()) return "";
  std::string text = "<ul class=\"warnings\">";
  for (const auto& each : facts.warnings) text += "<li>" + escaped(each) + "</li>";
  return text + "</ul>\n";
}

std::string policy(bool live) {
  std::string scripts =
      pages::policy_source(pages::sources::figure_js) + " " + pages::policy_source(page_sources::wiring_js);
  if (live) scripts += " " + pages::policy_source(page_sources::live_js);
  return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " + scripts +
         (live ? "; connect-src 'self'" : "") + "; base-uri 'none'; form-action 'none'";
}

std::string page_of(const run_facts& facts, const run_state& state, const std::string& wiring, bool live) {
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
                        {"live", live_html(facts, state)},
                        {"wiring_hidden", wiring.empty() ? " hidden" : ""},
                        {"wiring", image},
                        {"warnings", warnings_html(facts)},
                        {"topology", escaped(facts.topology)},
                        {"data", pages::script_json(json_of(facts, state))}});
}

}  // namespace

std::string drawing_in(const std::filesystem::path& folder) try {
  return read_text(folder / "graph.svg");
} catch (const std::exception&) {
  return {};
}

std::string report_of(const run_facts& facts, const run_state& state, const std::string& wiring) {
  return page_of(facts, state, wiring, false);
}

std::string live_page_of(const run_facts& facts, const run_state& state) {
  return page_of(facts, state, "", true);
}

std::string live_policy() {
  return policy(true) + "; frame-ancestors 'none'";
}

std::string update_of(const run_facts& facts, const run_state& state, bool has_wiring) {
  const auto done = facts.steps > 0 ? 100 * std::min(state.steps, facts.steps) / facts.steps : 0;
  return dumped({{"title", std::to_string(done) + " % " + facts.title},
                 {"ended", state.has_ended()},
                 {"wiring", has_wiring},
                 {"html", live_html(facts, state)}});
}

std::string json_of(const run_facts& facts, const run_state& state) {
  json workers = json::array();
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
  }
  const auto& latest = state.latest;
  return dumped({{"title", facts.title},
                 {"model", facts.model},
                 {"data", facts.data},
                 {"simulated", facts.simulated},
                 {"status", state.status()},
                 {"steps", facts.steps},
                 {"step", state.steps},
                 {"epoch", latest ? latest->epoch : 0},
                 {"updates", latest ? latest->updates : 0},
                 {"seconds", latest ? number(latest->seconds) : json(nullptr)},
                 {"samples_per_second", number(samples_per_second(facts, state))},
                 {"train_loss", number(state.last(&record::train_loss))},
                 {"train_accuracy", number(state.last(&record::train_accuracy))},
                 {"val_loss", number(state.last(&record::val_loss))},
                 {"val_accuracy", number(state.last(&record::val_accuracy))},
                 {"lr", number(state.last(&record::lr))},
                 {"consensus_distance", number(state.last(&record::consensus_distance))},
                 {"staleness_mean", number(state.last(&record::staleness_mean))},
                 {"bytes_sent", latest ? latest->bytes_sent : 0},
                 {"workers", workers}});
}

}  // namespace troupe::watching

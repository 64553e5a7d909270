#include "troupe/tools/watching/site.hpp"

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/tools/watching/exposition.hpp"
#include "troupe/tools/watching/page.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <exception>
#include <system_error>

namespace troupe::watching {

namespace {

constexpr std::chrono::milliseconds between_texts{500};
constexpr int share_of_time = 100;  ///< Making a text takes at most 1 / `share_of_time` of the time.

http_answer refusal(unsigned status, const std::string& text) {
  return {.status = status, .body = text + "\n"};
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  // The port is optional and not part of the name.
  const auto bracket = host.rfind(']');
  const auto has_port = host.find(':', bracket == std::string_view::npos ? 0 : bracket) != std::string_view::npos;
  const auto where = parse_endpoint(has_port ? std::string(host) : std::string(host) + ":80");
  return where && is_loopback(*where);
}

std::string parameter_of(std::string_view target, std::string_view name) {
  const auto question = target.find('?');
  if (question == std::string_view::npos) return {};
  auto query = target.substr(question + 1);
  while (!query.empty()) {
    const auto parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), parameter.size() + 1));
    const auto equals = parameter.find('=');
    if (equals != std::string_view::npos && parameter.substr(0, equals) == name)
      return std::string(parameter.substr(equals + 1));
  }
  return {};
}

site::site(site_options options, clock now) : options_(std::move(options)), now_(std::move(now)) {}

http_answer site::answer(const http_request& request) {
  if (request.has_body) return refusal(413, "A request must not have a body.");
  if (request.method != "GET" && request.method != "HEAD") {
    auto refused = refusal(405, "Only GET and HEAD are answered.");
    refused.fields.emplace_back("Allow", "GET, HEAD");
    return refused;
  }
  if (options_.token.empty() && !is_loopback_host(request.host))
    return refusal(421, "This page is served to this host only: open it as http://127.0.0.1 or http://localhost.");
  const std::string path(path_of(request.target));
  if (path == "/healthz") return {.body = "ok\n"};
  constexpr std::string_view bearer = "Bearer ";
  auto token = parameter_of(request.target, "token");
  if (token.empty() && request.authorization.starts_with(bearer)) token = request.authorization.substr(bearer.size());
  if (!options_.token.empty() && !equal_in_constant_time(token, options_.token)) {
    auto refused = refusal(401, "The token is missing or wrong: open the URL that the run has printed.");
    refused.fields.emplace_back("WWW-Authenticate", "Bearer");
    return refused;
  }
  return route(path);
}

http_answer site::route(const std::string& path) {
  const auto& facts = options_.facts;
  const auto state = [&] { return options_.run->state(); };
  if (path == "/")
    return {.type = "text/html; charset=utf-8",
            .body = fresh(page_, [&] { return live_page_of(facts, state()); }),
            .fields = {{"Content-Security-Policy", live_policy()}}};
  constexpr auto* events = "text/event-stream";
  if (path == "/events") return {.type = events, .body = update(feed::page), .follows = feed::page};
  if (path == "/events.json") return {.type = events, .body = update(feed::data), .follows = feed::data};
  if (path == "/metrics")
    return {.type = exposition_type, .body = fresh(metrics_, [&] { return exposition_of(facts, state()); })};
  if (path == "/data.json")
    return {.type = "application/json", .body = fresh(json_, [&] { return json_of(facts, state()) + "\n"; })};
  if (path == "/figures.json")
    return {.type = "application/json", .body = fresh(csv_, [&] { return csv_of_figures(facts, state()) + "\n"; })};
  if (path == "/wiring.svg" && has_wiring()) {
    if (wiring_.empty()) wiring_ = drawing_in(facts.folder);
    return {.type = "image/svg+xml",
            .body = wiring_,
            .fields = {{"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"}}};
  }
  return refusal(404, "There is nothing at this address.");
}

bool site::has_wiring() const {
  std::error_code failed;
  return options_.run->version() > 0 && std::filesystem::is_regular_file(options_.facts.folder / "graph.svg", failed);
}

const std::string& site::update(feed of, bool now) {
  const auto& facts = options_.facts;
  const auto event = [](const std::string& text) { return "data: " + text + "\n\n"; };
  if (of == feed::data)
    return fresh(
        data_update_, [&] { return event(json_of(facts, options_.run->state())); }, now);
  return fresh(
      update_, [&] { return event(update_of(facts, options_.run->state(), has_wiring())); }, now);
}

const std::string& site::fresh(kept& one, const std::function<std::string()>& make, bool now) {
  const auto begin = now_();
  const auto version = options_.run->version();
  if (one.is_made && (version == one.version || (begin < one.next && !now))) return one.text;
  try {
    one.text = make();
  } catch (const std::exception&) {  // an error of the page must not end the run; the page keeps its last text
  }
  one.version = version;
  one.is_made = true;
  const auto end = now_();
  one.next = end + std::max<std::chrono::steady_clock::duration>(between_texts, share_of_time * (end - begin));
  return one.text;
}

}  // namespace troupe::watching

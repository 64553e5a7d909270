#include "troupe/tools/tuning/candidates.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/comparing/variants.hpp"

#include <sstream>

namespace troupe::tuning {

namespace {

constexpr auto* gradients_then_apply = R"(loop = ["gradient", "exchange", "apply"])";
constexpr auto* apply_then_parameters = R"(loop = ["gradient", "apply", "exchange"])";
constexpr auto* servers_apply = R"(loop = ["gradient", "exchange"])";

/// A wiring with one exchange.
struct wiring {
  std::string label{}, family{};
  std::uint32_t coarseness{0};
  std::string loop{};                   ///< As TOML, as are the settings.
  std::vector<std::string> settings{};  ///< Settings of the exchange.
};

/// Returns the settings without the exchanges and the loop.
std::string without_wiring(const topology::topology& base) {
  std::istringstream lines(topology::print(base));
  std::string kept;
  bool is_exchange = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) is_exchange = line == "[exchange]" || line == "[[exchange]]";
    if (!is_exchange && !line.starts_with("loop ")) kept += line + "\n";
  }
  return kept;
}

std::vector<wiring> usual_wirings(std::size_t workers) {
  const std::string reduce = "kind = \"all_reduce\"", serve = "kind = \"parameter_server\"";
  std::vector<wiring> result;
  const auto of_gradients = [&](const std::string& label, const std::string& family, std::uint32_t coarseness,
                                const std::vector<std::string>& settings) {
    result.push_back({label, family, coarseness, gradients_then_apply, {reduce}});
    result.back().settings.insert(result.back().settings.end(), settings.begin(), settings.end());
  };
  of_gradients("all_reduce", exact_family, 0, {});
  of_gradients("all_reduce in buckets", exact_family, 0, {"send = \"bucket\""});
  of_gradients("all_reduce on a ring", exact_family, 0, {"route = \"ring\""});
  result.push_back({"parameter server", exact_family, 0, servers_apply, {serve}});
  of_gradients("all_reduce, bf16", "encoded", 0, {"encoding = \"bf16\""});
  of_gradients("all_reduce, int8", "encoded", 1, {"encoding = \"int8\""});
  of_gradients("all_reduce, int4", "encoded", 2, {"encoding = \"int4\""});
  of_gradients("PowerSGD, rank 4", "powersgd", 0, {"encoding = \"powersgd\"", "rank = 4"});
  of_gradients("top 1 %", "top_k", 0, {"encoding = \"top_k\"", "ratio = 0.01"});
  result.push_back({"asynchronous server", "asynchronous", 0, servers_apply, {serve, "apply = \"each\""}});
  if (workers > 2)
    result.push_back(
        {"gossip on a ring", "gossip", 0, gradients_then_apply, {"kind = \"gossip\"", "graph = \"ring\""}});
  std::uint32_t coarseness = 0;
  for (const auto* every : {"4", "16", "64", "256"}) {
    const auto of_parameters = [&](const std::string& label, const std::string& family,
                                   const std::vector<std::string>& settings) {
      wiring made{label, family, coarseness, apply_then_parameters, {reduce, "sends = \"parameters\""}};
      made.settings.push_back(std::string("every = ") + every);
      made.settings.insert(made.settings.end(), settings.begin(), settings.end());
      result.push_back(std::move(made));
    };
    const std::string h = std::string(", H = ") + every, outer = "outer = \"nesterov\"";
    of_parameters("local SGD" + h, "averages", {});
    if (coarseness > 0) {
      of_parameters("DiLoCo" + h, "outer", {outer});
      of_parameters("DiLoCo" + h + ", int4", "outer, encoded", {outer, "encoding = \"int4\""});
      of_parameters("streaming DiLoCo" + h, "streaming", {outer, "fragments = 4"});
    }
    ++coarseness;
  }
  return result;
}

/// Returns a setting of a section as --set takes it.
std::string as_override(const std::string& section, const std::string& setting) {
  const auto equals = setting.find(" = ");
  return section + "." + setting.substr(0, equals) + "=" + setting.substr(equals + 3);
}

}  // namespace

candidates usual_candidates(const topology::topology& base) {
  candidates result;
  result.all.push_back({.label = base.file.stem().string() + " as it is", .file = base});
  if (base.workers.count < 2) return result;
  const auto shared = without_wiring(base);
  for (const auto& way : usual_wirings(static_cast<std::size_t>(base.workers.count))) {
    const auto loop = as_override("workers", way.loop);
    candidate made{.label = way.label, .settings = {loop}, .family = way.family, .coarseness = way.coarseness};
    for (const auto& setting : way.settings) made.settings.push_back(as_override("exchange", setting));
    try {
      made.file = topology::parse(shared + "[exchange]\n" + text::joined(way.settings, "\n") + "\n", base.file, {loop});
      auto& given = result.all.front();
      if (made.file == given.file) {  // it is one of the usual ones
        given.family = made.family;
        given.coarseness = made.coarseness;
      } else {
        result.all.push_back(std::move(made));
      }
    } catch (const input_error& reason) {
      result.refused.emplace_back(way.label, reason.what());
    }
  }
  return result;
}

candidates varied_candidates(const topology::topology& base, const std::vector<comparing::varied_key>& varied) {
  candidates result;
  comparing::check_count(1, varied);
  const auto text = topology::print(base);
  for (const auto& point : comparing::grid(varied)) {
    candidate made;
    std::vector<std::string> names;
    for (const auto& [key, value] : point) {
      names.push_back(key.substr(key.rfind('.') + 1) + "=" + value);
      made.settings.push_back(key + "=" + value);
    }
    made.label = text::joined(names, ", ");
    try {
      made.file = topology::parse(text, base.file, made.settings);
    } catch (const input_error& reason) {
      throw input_error(comparing::with_vary(reason.what(), 0, point));
    }
    result.all.push_back(std::move(made));
  }
  return result;
}

}  // namespace troupe::tuning

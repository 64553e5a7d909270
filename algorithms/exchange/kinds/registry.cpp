#include "troupe/algorithms/exchange/registry.hpp"

#include "troupe/algorithms/exchange/all_reduce/all_reduce.hpp"
#include "troupe/algorithms/exchange/all_reduce/star.hpp"
#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/gossip/gossip.hpp"
#include "troupe/algorithms/exchange/remote/remote.hpp"
#include "troupe/algorithms/exchange/servers/elastic.hpp"
#include "troupe/algorithms/exchange/servers/parameter_server.hpp"
#include "troupe/algorithms/exchange/shared/shared.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

std::deque<exchange_kind>& shelf() {
  static std::deque<exchange_kind> kinds{star_kind(),    all_reduce_kind(), gossip_kind(), parameter_server_kind(),
                                         elastic_kind(), shared_kind(),     remote_kind()};
  return kinds;
}

}  // namespace

exchange_nature nature_of(const exchange_kind& kind, const setting_values& settings) {
  return kind.nature ? kind.nature(settings) : exchange_nature{};
}

setting_values settled(const exchange_kind& kind, slot what, std::uint32_t members, const setting_values& settings) {
  auto values = kind.derive ? kind.derive(members, settings) : settings;
  if (what != slot::parameters && !mixes_buffers(values)) values.erase("buffers");
  return without_idle_send_settings(std::move(values));
}

setting buffers_setting() {
  return {
      .name = "buffers",
      .type = setting_type::choice,
      .default_text = "\"local\"",
      .explanation =
          "How the running statistics of batch norm are treated: \"local\" leaves each worker its own; \"mix\" mixes "
          "them like the parameters, which is an approximation for variances. \"mix\" requires sends = \"parameters\".",
      .choices = {"local", "mix"}};
}

bool mixes_buffers(const setting_values& settings) {
  const auto found = settings.find("buffers");
  return found != settings.end() && std::get<std::string>(found->second) == "mix";
}

const std::deque<exchange_kind>& exchange_kinds() {
  return shelf();
}

void register_exchange(exchange_kind kind) {
  auto& kinds = shelf();
  const auto existing =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.name == kind.name; });
  if (existing == kinds.end())
    kinds.push_back(std::move(kind));
  else
    *existing = std::move(kind);
}

void renew_exchange_kinds() {
  auto& kinds = shelf();
  auto renewed = gossip_kind();
  const auto gossip = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
    return kind.name == renewed.name && kind.explanation == renewed.explanation;  // not one that has replaced it
  });
  if (gossip != kinds.end()) gossip->settings = std::move(renewed.settings);
}

const exchange_kind* find_exchange(const std::string& name) {
  const auto& kinds = exchange_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string name_of(slot what) {
  switch (what) {
    case slot::parameters:
      return "parameters";
    case slot::gradient:
      return "gradient";
    case slot::change:
      return "change";
  }
  return {};
}

}  // namespace troupe

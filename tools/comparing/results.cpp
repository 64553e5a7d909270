// The results of a comparison as one JSON object.
#include "troupe/files/json.hpp"
#include "troupe/tools/comparing/report.hpp"

#include <cmath>

namespace troupe::comparing {

namespace {

using json = files::json;

template <class Value>
json json_of_value(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

json finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json json_of_spread(const spread& of) {
  return {{"median", finite(of.median)}, {"lowest", finite(of.low)}, {"highest", finite(of.high)}};
}

json json_of_spread(const std::optional<spread>& of) {
  return of ? json_of_spread(*of) : json(nullptr);
}

json json_of_target(const std::optional<to_target>& of) {
  if (!of) return nullptr;
  auto object = json_of_spread(of->taken);
  object["reached"] = of->reached;
  return object;
}

json json_of_variant(const variant& what, const summary& of) {
  return {{"label", what.label},
          {"file", what.file},
          {"varied", json::object_t(what.varied.begin(), what.varied.end())},
          {"finished", of.finished},
          {"seconds", json_of_spread(of.seconds)},
          {"samples", json_of_spread(of.samples)},
          {"updates", json_of_spread(of.updates)},
          {"bytes_sent", json_of_spread(of.bytes)},
          {"final_accuracy", json_of_spread(of.final_accuracy)},
          {"best_accuracy", json_of_spread(of.best_accuracy)},
          {"seconds_to_target", json_of_target(of.seconds_to_target)},
          {"bytes_to_target", json_of_target(of.bytes_to_target)},
          {"staleness_mean", json_of_spread(of.staleness)},
          {"idle_share", json_of_spread(of.idle_share)}};
}

json json_of_run(const variant& what, const made_run& of) {
  const auto& [run, result] = of;
  return {{"label", what.label},
          {"file", what.file_column()},
          {"repeat", run.repeat},
          {"seed", run.seed},
          {"status", result.status},
          {"seconds", json_of_value(result.seconds)},
          {"samples", json_of_value(result.samples)},
          {"updates", json_of_value(result.updates)},
          {"bytes_sent", json_of_value(result.bytes_sent)},
          {"final_accuracy", json_of_value(result.final_accuracy)},
          {"best_accuracy", json_of_value(result.best_accuracy)},
          {"seconds_to_target", json_of_value(result.seconds_to_target)},
          {"bytes_to_target", json_of_value(result.bytes_to_target)},
          {"samples_to_target", json_of_value(result.samples_to_target)},
          {"staleness_mean", json_of_value(result.staleness_mean)},
          {"idle_share", json_of_value(result.idle_share)}};
}

}  // namespace

std::string json_of(const report& of) {
  const auto& what = of.what;
  json variants = json::array(), runs = json::array(), settings = json::object();
  for (std::size_t i = 0; i < what.variants.size(); ++i)
    variants.push_back(json_of_variant(what.variants[i], of.summaries[i]));
  for (const auto& run : of.runs) runs.push_back(json_of_run(what.variants.at(run.run.variant), run));
  for (const auto& [key, values, shown] : differing_settings(what)) {
    auto& row = settings[key] = json::array();
    for (const auto& value : values) row.push_back(value.empty() ? json(nullptr) : json(value));
  }
  const auto as_it_is = [](const std::string& heading) { return heading; };
  const json object{{"started", what.started},
                    {"simulated", what.simulated},
                    {"first_seed", what.first_seed},
                    {"repeats", what.repeats},
                    {"target", json_of_value(what.target)},
                    {"conclusion", of.found.paragraph(as_it_is)},
                    {"variants", variants},
                    {"runs", runs},
                    {"settings_that_differ", settings},
                    {"machines", what.machines}};
  return files::json_text(object);
}

}  // namespace troupe::comparing

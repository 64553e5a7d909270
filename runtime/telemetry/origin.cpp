#include "troupe/runtime/telemetry/origin.hpp"

#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <ctime>

namespace troupe::telemetry {

namespace {

std::string utc(std::chrono::system_clock::time_point when) {
  const auto seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

/// Returns a time in readable form, such as "2025-11-24 09:30 UTC".
std::string readable(std::string time) {
  constexpr std::size_t minutes = std::string_view("2025-11-24T09:30").size();
  time = time.substr(0, minutes);
  std::replace(time.begin(), time.end(), 'T', ' ');
  return time + " UTC";
}

}  // namespace

std::string origin::text() const {
  std::string line;
  const auto add = [&](const std::string& fact, const char* between = "; ") {
    if (!fact.empty()) line += (line.empty() ? "" : between) + fact;
  };
  if (!begun.empty()) add("begun " + readable(begun));
  if (!continued.empty()) add("continued " + readable(continued), ", ");
  add("seed " + std::to_string(seed));
  if (!troupe.empty()) add("Troupe " + troupe);
  if (!libtorch.empty()) add("LibTorch " + libtorch, ", ");
  add(cpu);
  add(cpu_capability, ", ");
  return line;
}

origin origin_of(const plan& plan, std::optional<std::chrono::system_clock::time_point> now) {
  const auto machine = names_of_machine();
  return {.begun = now ? utc(*now) : "",
          .seed = static_cast<std::uint64_t>(plan.file.run.seed),
          .troupe = version(),
          .libtorch = machine.at("LibTorch"),
          .cpu = data::printable_utf8(machine.at("CPU")),
          .cpu_capability = machine.at("CPU capability"),
          .control = now ? plan.control_carrier() : ""};
}

std::string json_of(const origin& what) {
  using json = files::json;
  const auto text = [](const std::string& value) { return value.empty() ? json(nullptr) : json(value); };
  json object{{"begun", text(what.begun)},   {"seed", what.seed},
              {"troupe", text(what.troupe)}, {"libtorch", text(what.libtorch)},
              {"cpu", text(what.cpu)},       {"cpu_capability", text(what.cpu_capability)}};
  if (!what.control.empty()) object["control"] = what.control;
  if (!what.continued.empty()) object["continued"] = what.continued;
  return files::json_text(object);
}

std::string begun_in(std::string_view json_line) {
  const auto line = files::parse_json(json_line);
  if (!line.is_object() || line.value("event", files::json()) != "start") return {};
  const auto about = line.value("origin", files::json());
  const auto begun = about.is_object() ? about.value("begun", files::json()) : files::json();
  return begun.is_string() ? data::clipped(data::printable_utf8(begun.get<std::string>()), 40) : std::string();
}

}  // namespace troupe::telemetry

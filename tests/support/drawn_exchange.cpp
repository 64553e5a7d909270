#include "tests/support/drawn_exchange.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace troupe::tests {

namespace {

using data::random_stream;

/// Returns the values of which a combination chooses one, or none if the setting is a number or a compound value.
std::vector<setting_value> choices_of(const setting& row) {
  std::vector<setting_value> all;
  if (row.type == setting_type::boolean) all = {false, true};
  for (const auto& word : row.choices) all.emplace_back(word);
  return all;
}

/// Returns a small number in the range of the setting, or nothing if the setting is not a number.
std::optional<setting_value> drawn_number(const setting& row, std::uint32_t members, random_stream& random) {
  const auto least = row.minimum.value_or(0), most = row.maximum.value_or(1e9);
  if (row.type == setting_type::integer) {
    const auto first = static_cast<std::int64_t>(std::ceil(least));
    const auto last = std::max(first, std::min(static_cast<std::int64_t>(most), static_cast<std::int64_t>(members)));
    return first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last - first + 1)));
  }
  if (row.type == setting_type::real)
    return least + (std::min(most, least + 1) - least) * std::pow(0.5, 1 + static_cast<double>(random.below(6)));
  return std::nullopt;
}

std::uint32_t groups_of(const drawn_exchange& of) {
  return of.workers < 6 ? 2 : 3;
}

std::vector<std::string> members_of(const drawn_exchange& of) {
  std::vector<std::string> names;
  const auto n = of.in_groups ? groups_of(of) : of.workers;
  for (std::uint32_t i = 0; i < n; ++i) names.push_back((of.in_groups ? "g" : "w") + std::to_string(i));
  return names;
}

/// Returns the settings of a kind for a file that sets none of them.
const setting_values& defaults_of(const exchange_kind& kind) {
  static std::map<std::string, setting_values> known;
  const auto found = known.find(kind.name);
  if (found != known.end()) return found->second;
  const auto file = topology::parse(
      "[model]\nname = \"mlp\"\n[data]\nname = \"digits\"\n[workers]\ncount = 2\n"
      "[exchange]\nkind = \"" +
          kind.name + "\"\n",
      "drawn.toml");
  return known.emplace(kind.name, file.exchanges.front().options).first->second;
}

/// Returns every combination of choices and booleans of a kind's settings.
std::vector<setting_values> combinations_of(const exchange_kind& kind) {
  std::vector<setting_values> all{{}};
  for (const auto& row : kind.settings) {
    std::vector<setting_values> longer;
    for (const auto& choice : choices_of(row)) {
      for (auto each : all) {
        each.insert_or_assign(row.name, choice);
        longer.push_back(std::move(each));
      }
    }
    if (!longer.empty()) all = std::move(longer);
  }
  return all;
}

/// Returns one of these combinations.
setting_values drawn_combination(const exchange_kind& kind, random_stream& random) {
  setting_values made;
  for (const auto& row : kind.settings)
    if (const auto choices = choices_of(row); !choices.empty())
      made.insert_or_assign(row.name, choices[random.below(choices.size())]);
  return made;
}

/// Adds numbers to `of.settings`, drawn from their ranges, and draws again those that exchange_kind::check refuses.
void draw_numbers(drawn_exchange& of, random_stream& random) {
  const auto names = members_of(of);
  const auto members = static_cast<std::uint32_t>(names.size());
  const auto is_of_fragments = [](const auto& row) {
    return row.name == "fragments" || row.name == "delay" || row.name == "mix";
  };
  for (const auto& row : of.kind->settings)
    if (const auto number = drawn_number(row, members, random); number && !is_of_fragments(row) && random.below(2) == 0)
      of.settings.insert_or_assign(row.name, *number);
  if (!of.kind->check) return;
  for (int attempt = 0; attempt < 200; ++attempt) {
    auto all = defaults_of(*of.kind);
    for (const auto& [key, value] : of.settings) all.insert_or_assign(key, value);
    const auto found = of.kind->check(names, all);
    if (!found) return;
    const auto row = std::find_if(of.kind->settings.begin(), of.kind->settings.end(),
                                  [&](const auto& each) { return each.name == found->key; });
    if (row == of.kind->settings.end()) return;
    const auto number = drawn_number(*row, members, random);
    if (!number) return;                         // the setting is a choice
    for (const auto& other : of.kind->settings)  // another setting may be the reason
      if (of.settings.contains(other.name) && random.below(4) == 0)
        if (const auto another = drawn_number(other, members, random)) of.settings[other.name] = *another;
    if (of.settings.contains(row->name) && random.below(2) == 0)
      of.settings.erase(row->name);
    else
      of.settings.insert_or_assign(row->name, *number);
  }
}

/// Draws everything that is neither a choice nor given by the caller.
void draw_rest(drawn_exchange& of, random_stream& random) {
  const auto first = 1 + static_cast<std::uint32_t>(random.below(of.workers - 1));
  of.nodes = {first, of.workers - first};
  if (of.workers <= 5 && random.below(4) == 0) of.nodes.assign(of.workers, 1);
  of.every = of.sends == slot::parameters && random.below(2) == 0 ? 2 : 1;
  if (of.sends == slot::parameters && random.below(3) > 0) of.before_apply = random.below(2) == 0;
  of.every_of_groups = 1 + random.below(2);
  const auto codec = codec_of(encoding_named(of.encoding)).nature();
  if (codec.takes_rank) of.rank = 1 + static_cast<std::int64_t>(random.below(2));
  if (codec.takes_ratio) of.ratio = std::array{0.01, 0.25, 1.0}[random.below(3)];
  if (of.encoding != encoding_names().front() && !codec.requires_feedback && random.below(2) == 0)
    of.feedback = random.below(2) == 0;
  draw_numbers(of, random);
  if (of.sends == slot::parameters && of.kind->name == "all_reduce" && random.below(3) == 0) {  // streaming DiLoCo
    of.every = 2;
    of.before_apply = false;
    of.settings["fragments"] = static_cast<std::int64_t>(1 + random.below(2));
    of.settings["delay"] = static_cast<std::int64_t>(random.below(2));
    of.settings["mix"] = std::array{0.0, 0.25}[random.below(2)];
    of.settings.erase("buffers");
  }
}

}  // namespace

std::vector<drawn_kind> draw_exchanges(std::uint64_t count) {
  constexpr std::uint32_t most_workers = 17;
  std::vector<drawn_kind> all;
  for (const auto& kind : exchange_kinds()) {
    if (kind.name == "remote") continue;  // its rule is in another program: see tests/processes/remote.py
    for (const auto& carried : kind.carries) {
      for (const auto& encoding : encoding_names()) {
        const auto enough = encoding == "float32" || encoding == "bf16" ? count : (count + 7) / 8;
        random_stream random{data::keyed(5, data::purpose::digits, all.size())};
        auto& drawn = all.emplace_back(drawn_kind{.kind = &kind, .sends = carried.sends, .encoding = encoding});
        const auto draw = [&](const setting_values& choices, std::uint32_t workers, bool in_groups, bool of_many) {
          drawn_exchange one{.kind = &kind,
                             .sends = carried.sends,
                             .encoding = encoding,
                             .settings = choices,
                             .workers = workers,
                             .in_groups = in_groups,
                             .of_many = of_many};
          draw_rest(one, random);
          if (plan_of(one, false))
            drawn.accepted.push_back(std::move(one));
          else
            drawn.refused += 1;
        };
        while (drawn.accepted.size() < enough && drawn.refused < 24 * count) {
          const auto choices = drawn_combination(kind, random);
          const auto workers = 2 + static_cast<std::uint32_t>(random.below(most_workers - 1));
          const auto in_groups = random.below(4) == 0, of_many = random.below(4) == 0;
          draw(choices, workers, in_groups, of_many);
        }
        if (count > 0) continue;
        for (const auto& choices : combinations_of(kind))
          for (std::uint32_t workers = 2; workers <= most_workers; ++workers)
            for (const auto in_groups : {false, true})
              for (const auto of_many : {false, true}) draw(choices, workers, in_groups, of_many);
      }
    }
  }
  return all;
}

namespace {

/// Returns the keys of a drawn encoding.
std::string encoding_of(const drawn_exchange& of) {
  auto text = "encoding = " + topology::to_toml(of.encoding) + "\n";
  if (of.rank) text += "rank = " + std::to_string(*of.rank) + "\n";
  if (of.ratio) text += "ratio = " + topology::to_toml(setting_value{*of.ratio}) + "\n";
  if (of.feedback) text += "feedback = " + topology::to_toml(setting_value{*of.feedback}) + "\n";
  return text;
}

}  // namespace

std::string file_of(const drawn_exchange& of, bool on_nodes) {
  const auto gradient = of.sends == slot::gradient;
  std::string text = "[run]\nseed = 1\nsteps = 4\nverify_every = 1\n[model]\nname = \"mlp\"\nlayers = 1\nwidth = " +
                     std::string(of.of_many ? "24" : "4") +
                     "\n[data]\nname = \"digits\"\nbatch_size = 2\n[optimizer]\nlr = 0.05\nmomentum = 0.5\n[workers]\n";
  if (!on_nodes) text += "count = " + std::to_string(of.workers) + "\n";
  const auto groups = of.in_groups ? members_of(of) : std::vector<std::string>{};
  if (of.before_apply) {
    text += "loop = [\"gradient\", ";
    for (const auto& group : groups) text += "\"" + group + "\", ";
    text += *of.before_apply ? "\"exchange\", \"apply\"]\n" : "\"apply\", \"exchange\"]\n";
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += "[[exchange]]\nname = \"" + groups[i] + "\"\nkind = \"all_reduce\"\nmembers = [";
    for (auto rank = i * of.workers / groups.size(); rank < (i + 1) * of.workers / groups.size(); ++rank)
      text += "\"w" + std::to_string(rank) + "\", ";
    text += "]\n";
    if (of.every_of_groups > 1) text += "every = " + std::to_string(of.every_of_groups) + "\n";
    if (gradient) text += encoding_of(of);
  }
  text += "[[exchange]]\nname = \"exchange\"\nkind = \"" + of.kind->name + "\"\nsends = \"" + name_of(of.sends) +
          "\"\n" + encoding_of(of);
  if (of.every > 1) text += "every = " + std::to_string(of.every) + "\n";
  if (of.in_groups) text += "members = " + topology::to_toml(groups) + "\n";
  for (const auto& [key, value] : of.settings) text += key + " = " + topology::to_toml(value) + "\n";
  for (std::size_t i = 0; on_nodes && i < of.nodes.size(); ++i)
    text += "[[node]]\nname = \"n" + std::to_string(i) + "\"\nworkers = " + std::to_string(of.nodes[i]) + "\n";
  return text;
}

std::optional<plan> plan_of(const drawn_exchange& of, bool on_nodes, std::int64_t samples) {
  try {
    return make_plan(topology::parse(file_of(of, on_nodes), "drawn.toml"), samples);
  } catch (const input_error&) {
    return std::nullopt;
  }
}

std::string name_of(const drawn_exchange& of) {
  std::string text = of.kind->name + " of " + name_of(of.sends) + ", " + of.encoding +
                     (of.rank ? " of rank " + std::to_string(*of.rank) : "") +
                     (of.ratio ? " of " + topology::to_toml(setting_value{*of.ratio}) : "") +
                     (of.feedback ? *of.feedback ? " with feedback" : " without feedback" : "") + ", " +
                     std::to_string(of.workers) + " workers" +
                     (of.in_groups ? " in groups, which agree every " + std::to_string(of.every_of_groups) : "") +
                     (of.of_many ? ", many parameters" : "") + ", every " + std::to_string(of.every) +
                     (of.before_apply ? *of.before_apply ? ", before apply" : ", after apply" : "");
  for (const auto& [key, value] : of.settings) text += ", " + key + " = " + topology::to_toml(value);
  text += "; nodes of";
  for (const auto workers : of.nodes) text += " " + std::to_string(workers);
  return text;
}

}  // namespace troupe::tests

// troupe eval WEIGHTS: loss and accuracy of saved weights.
#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/plugin_option.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/constants.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/read_weights.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/activity.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

constexpr std::int64_t batch_size = 1000;

struct eval_options {
  std::filesystem::path weights;
  std::string model, data, split;
  std::filesystem::path dir;
  std::vector<std::string> overrides;
  bool json{false}, per_class{false};
  std::optional<std::int64_t> top_k;
};

/// Returns the kind named on the command line, or else the one recorded with the weights.
template <class Kind>
const Kind& kind_of(const eval_options& given, const std::string& flag, const std::string& asked,
                    const std::string& written, const Kind* (*find)(const std::string&),
                    const std::deque<Kind>& kinds) {
  const auto& name = asked.empty() ? written : asked;
  if (name.empty())
    throw input_error(given.weights.string() + ": the file does not record its " + flag + "; give it with --" + flag);
  if (const auto* kind = find(name)) return *kind;
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.push_back(kind.name);
  throw input_error((asked.empty() ? given.weights.string() + ": unknown " : "unknown --") + flag + " \"" + name +
                    "\"; expected " + text::listed(names) + topology::did_you_mean(name, names) +
                    "; if a plug-in registers it, add --plugin FILE");
}

/// Throws input_error if the weights were trained with a loss that this program does not have.
void require_loss(const eval_options& given, const std::string& name) {
  if (name.empty() || models::find_loss(name) != nullptr) return;
  throw input_error(given.weights.string() + ": the weights were trained with the loss \"" + name +
                    "\", which this program does not have; give the plug-in that registers it with --plugin FILE");
}

/// Makes the model with the shape that it was trained with. For weights of other programs, uses the shape of the data.
std::unique_ptr<models::network> make(const models::network_kind& model, const data::dataset_kind& data,
                                      const checkpoint::model_card& card, const topology::model_settings& settings,
                                      const data_facts& here) try {
  const auto& input = !data.sample_shape.empty() ? data.sample_shape : card.shape;
  const auto classes = data.classes > 0 ? data.classes : static_cast<std::int64_t>(card.class_names.size());
  const auto shape =
      input.empty() ? shape_of(settings, here.sample_shape, here.classes()) : shape_of(settings, input, classes);
  return models::make_network(model, shape, 0);
} catch (const models::file_error& reason) {
  throw input_error(reason.what());
} catch (const models::setting_error& reason) {
  throw input_error(reason.what());
} catch (const std::invalid_argument& reason) {
  throw input_error("--model " + model.name + " does not fit --data " + data.name + ": " + reason.what() +
                    "; use a data set like that of the run");
}

/// Throws input_error if samples whose shape depends on their file differ in shape from those that the weights were
/// trained on. Rows may have fewer columns; users and items may not be fewer.
void require_shape(const eval_options& given, const std::vector<std::int64_t>& here,
                   const std::vector<std::int64_t>& there) {
  const auto fits = here.size() == there.size() && (here.size() == 1 ? here <= there : here == there);
  if (here.empty() || fits) return;
  const auto text = [](const std::vector<std::int64_t>& sizes) {
    std::string list;
    for (const auto size : sizes) list += (list.empty() ? "" : " x ") + std::to_string(size);
    return list;
  };
  throw input_error(given.weights.string() + ": the weights were trained on samples of size " + text(there) +
                    ", but these samples have size " + text(here) +
                    "; expected the data of the run, given with --set data.file=… or --set data.columns=…");
}

/// Throws input_error unless the classes, or the characters of a text, are those that the weights were trained on, in
/// the same order.
void require_classes(const eval_options& given, const std::vector<std::string>& here,
                     const std::vector<std::string>& there) {
  if (there.empty() || here == there) return;
  const auto differ = std::mismatch(here.begin(), here.end(), there.begin(), there.end());
  const auto name = [](const auto& at, const auto& classes) {
    return at == classes.end() ? "missing" : "\"" + *at + "\"";
  };
  throw input_error(given.weights.string() + ": the weights were trained on other classes: class " +
                    std::to_string(differ.first - here.begin()) + " is " + name(differ.first, here) +
                    " in this data and " + name(differ.second, there) +
                    " in the weights; expected the data of the run, given with --set data.file=…");
}

/// Returns the settings of the model and of generated data that are recorded with the weights; others are ignored. Each
/// must be a single line, so that it sets only the key that it begins with.
std::vector<std::string> made_by(const eval_options& given, const checkpoint::model_card& card,
                                 const models::network_kind& model, const data::dataset_kind& data) {
  std::vector<std::string> settings;
  for (const auto& setting : card.made_by) {
    if (setting.find_first_of("\r\n") != std::string::npos)
      throw input_error(given.weights.string() +
                        ": a setting in the metadata made_by spans several lines; save the weights "
                        "again");
    const auto sets = [&](const std::string& key) { return setting.starts_with(key + "="); };
    const auto of_data = std::any_of(data.reads.begin(), data.reads.end(), [&](const auto& key) {
      return key != "file" && key != "test_file" && sets("data." + key);
    });
    const auto of_model = std::any_of(model.reads.begin(), model.reads.end(), [&](const auto& key) {
      return key != "script" && key != "exported" && sets("model." + key);
    });
    const auto of_kind = [&](const char* section, const std::vector<troupe::setting>& rows) {
      return std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
        return !is_path(row.type) && sets(std::string(section) + "." + row.name);
      });
    };
    const auto* loss = models::find_loss(card.loss);
    const auto of_any = of_kind("model", model.settings) || of_kind("data", data.settings) ||
                        (loss != nullptr && of_kind("model", loss->settings));
    if (of_any || of_data || of_model || sets("run.seed") || sets("data.validation")) settings.push_back(setting);
  }
  return settings;
}

/// Returns the counts with the names of their classes, or with numbers if the data set does not name all classes.
std::vector<telemetry::named_counts> named(const std::vector<rules::class_counts>& counts, const data::dataset& set) {
  std::vector<telemetry::named_counts> result;
  for (const auto& count : counts)
    result.emplace_back(
        set.classes.size() == counts.size() ? set.classes[result.size()] : std::to_string(result.size()), count);
  return result;
}

/// Returns the samples to evaluate: those named on the command line, or else those that the run evaluated.
std::string split_of(const eval_options& given, const topology::topology& file) {
  const auto held_out = file.data.validation.has_value();
  if (given.split.empty()) return held_out ? "validation" : "test";
  if (given.split == "validation" && !held_out)
    throw input_error(
        given.weights.string() +
        ": the run held out no samples, as far as this file records; use --split test or --split train, or give the "
        "share that the run held out with --set data.validation=SHARE");
  return given.split;
}

/// Throws input_error if the weights belong to a module of the user's that is not given: they do not contain the
/// module.
void require_module(const eval_options& given, const models::network_kind& model, const std::string& card) {
  if (model.name != "script" && model.name != "exported") return;
  if (!card.empty() && card != model.name)
    throw input_error(given.weights.string() + ": holds the weights of " + card + "; remove --model " + model.name);
  const auto is_module = [&](const std::string& text) { return text.starts_with("model." + model.name + "="); };
  if (std::any_of(given.overrides.begin(), given.overrides.end(), is_module)) return;
  const auto is_script = model.name == "script";
  throw input_error(given.weights.string() + ": holds the weights of " +
                    (is_script ? "a TorchScript module" : "an exported program") +
                    ", but not the module; give the one that the run used with --set model." + model.name + "=FILE" +
                    (is_script ? ".pt" : ".pt2"));
}

/// Refuses keys that evaluation does not read.
void require_settings_that_count(const eval_options& given) {
  for (const auto& setting : given.overrides) {
    const auto key = setting.substr(0, setting.find('='));
    const auto section = key.substr(0, key.find('.'));
    if (key == "model.loss")
      throw input_error(
          "--set model.loss is not used by eval, which computes the loss that the weights were trained with");
    if (key == "model.name" || key == "data.name")
      throw input_error("--set " + key + " is not used by eval; use --" + section + " instead");
    if (section != "model" && section != "data" && key != "run.seed" && setting.find('=') != std::string::npos)
      throw input_error("--set " + key + " has no effect on an evaluation; expected keys of [model] or [data]");
  }
}

void eval(const eval_options& given) {
  require_settings_that_count(given);
  const auto content = checkpoint::read_weights(given.weights);
  const auto card = checkpoint::card_of(given.weights, content);
  const auto& model = kind_of(given, "model", given.model, card.model, models::find_network, models::network_kinds());
  require_module(given, model, card.model);
  require_loss(given, card.loss);
  const auto& data = kind_of(given, "data", given.data, card.data, data::find_dataset, data::dataset_kinds());

  std::string file = "data.name = \"" + data.name + "\"\nmodel.name = \"" + model.name + "\"\n";
  if (!card.loss.empty()) file += "model.loss = \"" + card.loss + "\"\n";
  for (const auto& setting : made_by(given, card, model, data)) file += setting + "\n";
  auto topology = topology::parse(file, given.weights, given.overrides);
  if (!given.dir.empty()) topology.data.dir = given.dir;
  const auto split = split_of(given, topology);
  if (split == "test") topology.data.validation.reset();
  const auto sets = load_data(topology);
  if (data.sample_shape.empty() && !card.shape.empty()) require_shape(given, sets.sample_shape, card.shape);
  if (data.classes == 0) require_classes(given, sets.train->classes, card.class_names);
  const auto net = make(model, data, card, topology.model, data_facts{sets, topology});
  const auto layout = models::layout_of(*net);
  models::buffer_pool pool;
  const auto flat = checkpoint::load_into(given.weights, content, model.name, layout, pool, models::tied_names_of(*net),
                                          models::constants_of(*net));
  models::bind_weights(*net, layout, flat);
  const auto& set = split == "train" ? *sets.train : *sets.test;
  // Weights of other programs do not record how their inputs were scaled; then the published scale is used.
  auto scale = content.metadata.contains("mean") ? card.scale : data.published;
  if (!topology.data.mean.empty() || !topology.data.std.empty()) scale = {topology.data.mean, topology.data.std};
  const auto& input = data.sample_shape.empty() ? sets.sample_shape : data.sample_shape;
  if (!scale.mean.empty() && (input.empty() || static_cast<std::int64_t>(scale.mean.size()) != input.front()))
    throw input_error(given.weights.string() + ": the weights were trained on inputs with " +
                      std::to_string(scale.mean.size()) + " channels, which the samples of " + data.name +
                      " do not have; choose another data set with --data");
  const auto classes_of_set = static_cast<std::int64_t>(set.classes.size());
  if (given.top_k && classes_of_set > 0 && *given.top_k >= classes_of_set)
    throw input_error("--top-k " + std::to_string(*given.top_k) +
                      " counts every sample as correct, because there are only " + std::to_string(classes_of_set) +
                      " classes; use a smaller value");
  std::vector<rules::class_counts> counts;
  const activity evaluating{"the evaluation", topology.run.timeout, "run.timeout"};
  const rules::evaluation_options how{.batch_size = batch_size, .top_k = given.top_k};
  const auto loss = card.loss.empty() ? net->loss() : models::loss_function{card.loss, topology.model.options};
  const auto measured = *rules::evaluate(*net, set, scale, loss, how, nullptr,
                                         given.per_class ? &counts : nullptr);  // never cancelled
  if (!std::isfinite(measured.loss))
    throw input_error(given.weights.string() +
                      ": the loss of these weights is not finite; the file is damaged, or training diverged");

  if (!measured.accuracy && (given.per_class || given.top_k))
    throw input_error(given.weights.string() + ": " + data.name +
                      (loss.takes(models::loss_input::number) ? " is a regression data set and has no classes"
                                                              : " has no accuracy with the loss " + loss.name()) +
                      "; remove " + (given.per_class ? "--per-class" : "--top-k"));

  const auto classes = named(counts, set);
  if (given.json) {
    std::printf("%s\n", telemetry::json_line(measured, classes).c_str());
    return;
  }
  const auto* name = split == "validation" ? "held-out" : sets.train == sets.test ? "training" : split.c_str();
  std::printf("%s on the %s set of %s (%s samples): loss %.4f", model.name.c_str(), name, data.name.c_str(),
              grouped(static_cast<std::uint64_t>(measured.sample_count)).c_str(), measured.loss);
  if (measured.accuracy) std::printf(", accuracy %.2f %%", 100 * *measured.accuracy);
  if (measured.top_k_accuracy)
    std::printf(", top-%lld accuracy %.2f %%", static_cast<long long>(*given.top_k), 100 * *measured.top_k_accuracy);
  std::printf("\n");
  if (given.per_class) std::printf("\n%s", telemetry::table_of(classes).c_str());
}

}  // namespace

void add_eval(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("eval", "Print the loss and accuracy of saved weights");
  auto given = std::make_shared<eval_options>();
  command
      ->add_option("WEIGHTS", given->weights,
                   "Weights to evaluate: the model.safetensors of a run, or any file that model.init accepts")
      ->required();
  command->add_option("--model", given->model, "Model (default: the one recorded in the weights)");
  command->add_option("--data", given->data, "Data set (default: the one the weights were trained on)");
  command->add_option("--dir", given->dir, "Data folder (default: $TROUPE_DATA, or data-cache if that is not set)");
  command
      ->add_option("--set", given->overrides,
                   "Setting of the data or the model, as in the topology file of the run, given as section.key=value "
                   "(data.file, model.exported …); repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--split", given->split,
                   "Samples to evaluate: test, train or validation (default: those evaluated during training)")
      ->check(CLI::IsMember({"test", "train", "validation"}));
  command->add_flag("--per-class", given->per_class, "Also print precision, recall and F1 of each class");
  command->add_option("--top-k", given->top_k, "Also print how often the true class is among the K highest scores")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command->add_flag("--json", given->json, "Print one JSON object");
  add_plugin_option(*command);
  command->callback([given, &status] {
    eval(*given);
    status = 0;
  });
}

}  // namespace troupe::apps

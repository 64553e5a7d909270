#include "troupe/data/sampling/shards.hpp"
#include "troupe/data/sets/hold_out.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/out_of_memory.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/support/activity.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Returns the files and settings from which a data set is loaded.
data::data_source source_of(const topology::topology& file, const std::filesystem::path& folder) {
  data::data_source from{folder};
  const auto& given = file.data;
  from.file = given.file;
  from.test_file = given.test_file;
  from.mapped = given.mapped.value_or(from.mapped);
  from.rows = given.rows.value_or(from.rows);
  from.columns = given.columns.value_or(from.columns);
  from.nonzeros = given.nonzeros.value_or(from.nonzeros);
  from.skew = given.skew.value_or(from.skew);
  from.sequence_length = given.sequence_length.value_or(from.sequence_length);
  from.random_windows = given.random_windows.value_or(from.random_windows);
  from.image_size = given.image_size;
  from.inputs = given.inputs;
  from.label = given.label;
  from.target = given.target;
  from.header = given.header;
  from.seed = file.run.seed;
  from.settings = given.options;
  return from;
}

models::sample_kind kind_of(const data::dataset& set) {
  using models::sample_kind;
  if (set.rows) return sample_kind::sparse;
  if (set.files || set.inputs.scalar_type() == at::kByte) return sample_kind::images;
  return set.inputs.scalar_type() == at::kLong ? sample_kind::characters : sample_kind::numbers;
}

/// Returns the samples of each worker for a split by class; null for other splits.
std::shared_ptr<const data::sample_shards> shards_of(const data::dataset& set, const topology::topology& file) {
  const auto& split = file.data.split;
  const auto workers = file.workers.count;
  if (workers < 1 || split_named(file) != data::split::given) return nullptr;
  if (set.targets.scalar_type() != at::kLong || set.targets.dim() != 1)
    refuse(file, "data.split",
           "data.split = \"" + split + "\" distributes samples by class, but those of " + file.data.name +
               (set.targets.dim() > 1 ? " have a target for each position" : " have numeric targets") +
               "; use \"strided\" or \"contiguous\"");
  return std::make_shared<data::sample_shards>(
      split == "dirichlet"
          ? data::dirichlet_shards(set.targets, workers, file.data.alpha.value_or(data::usual_alpha), file.run.seed)
          : data::shards_by_label(set.targets, workers));
}

/// Counts the samples of each class that each worker has.
std::vector<std::vector<std::int64_t>> count_classes(const data::sample_shards& shards, const at::Tensor& targets) {
  const auto* target = targets.const_data_ptr<std::int64_t>();
  const auto classes = targets.numel() > 0 ? targets.max().item<std::int64_t>() + 1 : 0;
  std::vector<std::vector<std::int64_t>> counts;
  for (const auto& share : shards) {
    counts.emplace_back(static_cast<std::size_t>(classes));
    for (const auto sample : share) ++counts.back()[static_cast<std::size_t>(target[sample])];
  }
  return counts;
}

}  // namespace

data::dataset_pair load_data(const topology::topology& file) try {
  const activity reading{"reading the data set " + file.data.name, file.run.timeout, "run.timeout"};
  topology::check_values(file, refusal_in(file));
  const auto& kind = *data::find_dataset(file.data.name);
  const auto folder = kind.folder.empty() ? std::filesystem::path{} : data::data_folder(file.data.dir) / kind.folder;
  auto sets = kind.load(source_of(file, folder));
  for (const auto& set : {sets.train, sets.test}) {
    if (kind.sample_shape.empty()) continue;
    const auto shape = set->inputs.sizes().slice(1);
    if (shape.equals(kind.sample_shape)) continue;
    if (folder.empty())
      refuse(file, "data.name",
             "the samples of " + kind.name + " are " + sizes_text(shape) + ", but it declares " +
                 sizes_text(kind.sample_shape) + " as their shape");
    throw input_error(folder.string() + ": its samples are " + sizes_text(shape) + ", but those of " + kind.name +
                      " are " + sizes_text(kind.sample_shape) + "; the folder holds another data set");
  }
  if (file.data.validation) data::hold_out(sets, *file.data.validation, file.run.seed);
  return sets;
} catch (const data::data_error& reason) {
  throw input_error(reason.what());
} catch (const std::exception& reason) {
  if (const auto detail = models::out_of_memory(reason))
    refuse(file, "data.name",
           "data.name = \"" + file.data.name + "\" does not fit into the memory of this machine (" + *detail +
               "); use a smaller data set, or close other programs");
  refuse(file, "data.name", "the data set " + file.data.name + " cannot be loaded: " + models::reason_of(reason));
}

data_facts::data_facts(const data::dataset_pair& sets, const topology::topology& file)
    : samples(sets.train->size()),
      kind(kind_of(*sets.train)),
      sequences(sets.train->targets.dim() > 1),
      sample_shape(sets.sample_shape),
      shards(shards_of(*sets.train, file)),
      evaluated(sets.test->size()),
      evaluates_training(sets.train == sets.test),
      evaluates_held_out(file.data.validation.has_value()) {
  const auto* of_set = data::find_dataset(file.data.name);
  if (of_set != nullptr && of_set->classes == 0) class_names = sets.train->classes;
  if (shards) class_counts = count_classes(*shards, sets.train->targets);
}

data_facts::data_facts(const data::dataset_kind& of_set, const topology::topology& file)
    : samples(of_set.training_samples),
      evaluated(of_set.test_samples),
      evaluates_held_out(file.data.validation.has_value()) {
  if (samples == 0)
    refuse(file, "data.name", "the size of data.name = \"" + of_set.name + "\" depends on its files; remove --no-data");
  if (!file.data.validation) return;
  try {
    evaluated = data::held_out_of(samples, *file.data.validation);
  } catch (const data::data_error& reason) {
    refuse(file, "data.validation", reason.what());
  }
  samples -= evaluated;
}

}  // namespace troupe

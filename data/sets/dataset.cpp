#include "troupe/data/sets/dataset.hpp"

#include "troupe/files/kind_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace troupe::data {

// Each is defined in the file of its data set.
dataset_kind cifar10();
dataset_kind csv();
dataset_kind digits();
dataset_kind mnist();
dataset_kind fashion_mnist();
dataset_kind libsvm();
dataset_kind sparse();
dataset_kind triplets();
dataset_kind image_folder();
dataset_kind tensors();
dataset_kind text();

namespace {

kind_list<dataset_kind>& sets() {
  static kind_list<dataset_kind> all{"a data set",
                                     {digits(), mnist(), fashion_mnist(), cifar10(), image_folder(), tensors(), csv(),
                                      text(), libsvm(), triplets(), sparse()}};
  return all;
}

constexpr std::int64_t most_classes = std::int64_t{1} << 20;

/// Checks a set that a program or plug-in has loaded. Throws data_error.
void check(const std::string& about, const dataset& set) {
  const auto require = [&](bool is_true, const std::string& text) {
    if (!is_true) throw data_error(about + text);
  };
  require(set.targets.defined() && set.targets.dim() > 0 && set.size() > 0, "it has no targets; expected [N]");
  const auto type = set.targets.scalar_type();
  require(type == at::kLong || type == at::kFloat,
          std::string("its targets are ") + at::toString(type) + "; expected int64 classes or float32 numbers");
  if (!set.rows && !set.files) {
    require(set.inputs.defined() && set.inputs.dim() > 1, "it has no inputs; expected [N, …]");
    const auto inputs = set.inputs.scalar_type();
    require(inputs == at::kByte || inputs == at::kFloat || inputs == at::kLong,
            std::string("its inputs are ") + at::toString(inputs) + "; expected uint8, float32 or int64");
    require(inputs != at::kByte || set.inputs.dim() == 4, "its inputs are uint8, but not images [N, C, H, W]");
    require(set.inputs.size(0) == set.size(), "it has " + std::to_string(set.inputs.size(0)) + " inputs and " +
                                                  std::to_string(set.size()) + " targets; expected as many");
    require(set.inputs.is_contiguous() && set.targets.is_contiguous(),
            "its inputs or targets are not contiguous; expected tensor.contiguous()");
  }
  if (type != at::kLong) return;
  const auto least = set.targets.min().item<std::int64_t>(), most = set.targets.max().item<std::int64_t>();
  const auto classes = set.classes.empty() ? most_classes : static_cast<std::int64_t>(set.classes.size());
  require(least >= 0 && most < classes, "its targets are from " + std::to_string(least) + " to " +
                                            std::to_string(most) + "; expected classes from 0 to " +
                                            std::to_string(classes - 1));
}

/// Returns the set with the numbers 0, 1, … as names of its classes, which are those of both sets.
std::shared_ptr<const dataset> numbered(const dataset& set, const dataset& other) {
  std::int64_t most = 0;
  for (const auto* each : {&set, &other}) {
    most = std::max(most, each->targets.max().item<std::int64_t>());
    if (each->targets.dim() > 1) most = std::max(most, each->inputs.max().item<std::int64_t>());
  }
  auto named = set;
  for (std::int64_t i = 0; i <= std::min(most, most_classes); ++i) named.classes.push_back(std::to_string(i));
  return std::make_shared<dataset>(std::move(named));
}

/// Loads a data set of a program or plug-in, and completes it.
dataset_pair load_checked(const dataset_kind& kind, const data_source& from) {
  auto sets = kind.load(from);
  const auto about = "the data set \"" + kind.name + "\": ";
  if (!sets.train) throw data_error(about + "it has no training set");
  check(about + "training set: ", *sets.train);
  if (!sets.test) sets.test = sets.train;
  check(about + "test set: ", *sets.test);
  if (kind.classes == 0 && sets.train->classes.empty() && sets.train->targets.scalar_type() == at::kLong) {
    const auto is_same = sets.test == sets.train;
    const auto train = sets.train;
    sets.train = numbered(*train, *sets.test);
    sets.test = is_same ? sets.train : numbered(*sets.test, *train);
  }
  if (sets.sample_shape.empty() && sets.train->inputs.defined())
    sets.sample_shape = sets.train->inputs.sizes().slice(1).vec();
  return sets;
}

}  // namespace

const std::deque<dataset_kind>& dataset_kinds() {
  return sets().all();
}

const dataset_kind* find_dataset(const std::string& name) {
  return sets().find(name);
}

void register_dataset(dataset_kind kind) {
  auto checked_kind = kind;
  checked_kind.load = [given = std::move(kind)](const data_source& from) { return load_checked(given, from); };
  sets().add(std::move(checked_kind));
}

std::filesystem::path data_folder(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("TROUPE_DATA");
  return named != nullptr && *named != '\0' ? named : "data-cache";
}

}  // namespace troupe::data

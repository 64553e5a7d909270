#include "troupe/data/sets/dataset.hpp"

#include "troupe/files/kind_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
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

/// Checks the sets that a program or plug-in has loaded, and completes them.
class completion {
 public:
  completion(const dataset_kind& kind, dataset_pair sets) : kind_{kind}, sets_{std::move(sets)} {}

  /// Throws data_error.
  dataset_pair run() {
    require(sets_.train != nullptr, "it has no training set");
    check("training set", *sets_.train);
    if (!sets_.test) sets_.test = sets_.train;
    check("test set", *sets_.test);
    const auto &train = *sets_.train, &test = *sets_.test;
    require(train.targets.scalar_type() == test.targets.scalar_type() && train.targets.dim() == test.targets.dim(),
            "the targets of its training and its test set have different types or shapes");
    require(train.classes == test.classes, "its training and its test set name different classes");
    require(train.classes.empty() || train.targets.scalar_type() == at::kLong,
            "it names classes, but its targets are numbers; expected int64 targets");
    require(sets_.scale.mean.empty() && sets_.scale.std.empty(),
            "it has a scale, which is not read; state it as dataset_kind::published");
    if (is_dense(train)) {
      require(is_dense(test) && train.inputs.scalar_type() == test.inputs.scalar_type() &&
                  train.inputs.sizes().slice(1) == test.inputs.sizes().slice(1),
              "the inputs of its training and its test set have different types or shapes");
      const auto shape = train.inputs.sizes().slice(1).vec();
      require(sets_.sample_shape.empty() || sets_.sample_shape == shape,
              "its sample_shape is not the shape of its inputs; leave it out");
      sets_.sample_shape = shape;
    }
    if (kind_.classes == 0 && train.classes.empty() && train.targets.scalar_type() == at::kLong) number_classes();
    return std::move(sets_);
  }

 private:
  static bool is_dense(const dataset& set) { return !set.rows && !set.files; }

  void require(bool is_true, const std::string& text) const {
    if (!is_true) throw data_error("the data set \"" + kind_.name + "\": " + text);
  }

  void check(const std::string& which, const dataset& set) const {
    const auto demand = [&](bool is_true, const std::string& text) { require(is_true, which + ": " + text); };
    demand(set.targets.defined() && set.targets.dim() > 0 && set.size() > 0, "it has no targets; expected [N]");
    const auto type = set.targets.scalar_type();
    demand(type == at::kLong || type == at::kFloat,
           std::string("its targets are ") + at::toString(type) + "; expected int64 classes or float32 numbers");
    demand(set.targets.is_contiguous() && set.targets.is_cpu(),
           "its targets are not contiguous, or not on the CPU; expected targets.contiguous().cpu()");
    if (is_dense(set)) {
      demand(set.inputs.defined() && set.inputs.dim() > 1 && set.inputs.numel() > 0,
             "it has no inputs; expected [N, …]");
      const auto inputs = set.inputs.scalar_type();
      demand(inputs == at::kByte || inputs == at::kFloat || inputs == at::kLong,
             std::string("its inputs are ") + at::toString(inputs) + "; expected uint8, float32 or int64");
      demand(inputs != at::kByte || set.inputs.dim() == 4, "its inputs are uint8, but not images [N, C, H, W]");
      demand(inputs != at::kLong || set.inputs.dim() == 2, "its inputs are int64, but not texts [N, T]");
      demand(set.inputs.size(0) == set.size(), "it has " + std::to_string(set.inputs.size(0)) + " inputs and " +
                                                   std::to_string(set.size()) + " targets; expected as many");
      demand(set.inputs.is_contiguous() && set.inputs.is_cpu(),
             "its inputs are not contiguous, or not on the CPU; expected inputs.contiguous().cpu()");
      if (inputs == at::kLong) check_classes(which + ": its inputs", set, set.inputs);
    }
    const auto is_text = is_dense(set) && set.inputs.scalar_type() == at::kLong && type == at::kLong;
    demand(set.targets.dim() == 1 || (is_text && set.targets.sizes() == set.inputs.sizes()),
           "its targets have " + std::to_string(set.targets.dim()) + " dimensions; expected [N], or [N, T] for texts");
    if (type == at::kLong) check_classes(which + ": its targets", set, set.targets);
  }

  void check_classes(const std::string& about, const dataset& set, const at::Tensor& values) const {
    const auto least = values.min().item<std::int64_t>(), most = values.max().item<std::int64_t>();
    const auto named = static_cast<std::int64_t>(set.classes.size());
    const auto classes = kind_.classes > 0 ? kind_.classes : named > 0 ? named : most_classes;
    require(least >= 0 && most < classes, about + " are from " + std::to_string(least) + " to " + std::to_string(most) +
                                              "; expected classes from 0 to " + std::to_string(classes - 1));
  }

  /// Names the classes of both sets by their numbers.
  void number_classes() {
    std::int64_t most = 0;
    for (const auto& set : {sets_.train, sets_.test}) {
      most = std::max(most, set->targets.max().item<std::int64_t>());
      if (is_dense(*set) && set->inputs.scalar_type() == at::kLong)
        most = std::max(most, set->inputs.max().item<std::int64_t>());
    }
    std::vector<std::string> names;
    for (std::int64_t i = 0; i <= most; ++i) names.push_back(std::to_string(i));
    const auto is_same = sets_.train == sets_.test;
    for (auto* set : {&sets_.train, &sets_.test}) {
      auto named = **set;
      named.classes = names;
      *set = std::make_shared<dataset>(std::move(named));
    }
    if (is_same) sets_.test = sets_.train;
  }

  const dataset_kind& kind_;
  dataset_pair sets_;
};

}  // namespace

const std::deque<dataset_kind>& dataset_kinds() {
  return sets().all();
}

const dataset_kind* find_dataset(const std::string& name) {
  return sets().find(name);
}

void register_dataset(dataset_kind kind) {
  if (!kind.load) throw std::invalid_argument("the data set \"" + kind.name + "\" has no function `load`");
  auto checked_kind = kind;
  checked_kind.draws = true;
  checked_kind.load = [given = std::move(kind)](const data_source& from) {
    return completion{given, given.load(from)}.run();
  };
  sets().add(std::move(checked_kind));
}

std::filesystem::path data_folder(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("TROUPE_DATA");
  return named != nullptr && *named != '\0' ? named : "data-cache";
}

}  // namespace troupe::data

#include "troupe/data/sets/dataset.hpp"

#include <cstdlib>

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

const std::vector<dataset_kind>& dataset_kinds() {
  static const std::vector<dataset_kind> kinds{digits(),       mnist(),    fashion_mnist(), cifar10(),
                                               image_folder(), tensors(),  csv(),           text(),
                                               libsvm(),       triplets(), sparse()};
  return kinds;
}

const dataset_kind* find_dataset(const std::string& name) {
  for (const auto& kind : dataset_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::filesystem::path data_folder(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("TROUPE_DATA");
  return named != nullptr && *named != '\0' ? named : "data-cache";
}

}  // namespace troupe::data

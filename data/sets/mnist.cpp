// MNIST and Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), which has MNIST's format on purpose.
#include "troupe/data/sets/idx.hpp"

namespace troupe::data {

dataset_kind mnist() {
  return {
      .name = "mnist",
      .explanation = "60,000 training and 10,000 test images of handwritten digits, 28 x 28 (LeCun, Cortes, Burges)",
      .folder = "mnist",
      .sample_shape = {1, 28, 28},
      .classes = 10,
      .published = {{0.1307}, {0.3081}},
      .load =
          [](const data_source& from) {
            dataset_pair pair =
                read_mnist_family(from.folder, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, "mnist");
            pair.scale = mnist().published;
            return pair;
          },
      .training_samples = 60'000,
      .test_samples = 10'000};
}

dataset_kind fashion_mnist() {
  return {.name = "fashion_mnist",
          .explanation = "60,000 training and 10,000 test images of clothing, 28 x 28 (Xiao, Rasul, Vollgraf 2017)",
          .folder = "fashion-mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .published = {{0.2860}, {0.3530}},
          .load =
              [](const data_source& from) {
                dataset_pair pair = read_mnist_family(from.folder,
                                                      {"t-shirt or top", "trouser", "pullover", "dress", "coat",
                                                       "sandal", "shirt", "sneaker", "bag", "ankle boot"},
                                                      "fashion_mnist");
                pair.scale = fashion_mnist().published;
                return pair;
              },
          .training_samples = 60'000,
          .test_samples = 10'000};
}

}  // namespace troupe::data

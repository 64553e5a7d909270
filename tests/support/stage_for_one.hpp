// One replica on the built-in digits, without actors.
#pragma once

#include "tests/support/digits_replica.hpp"

#include "troupe/algorithms/training/replica.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

struct setting_of_one {
  std::string model{"lenet"};
  std::int64_t micro_batches{1};
  optimizer_options optimizer{.lr = 0.1};
};

/// A replica on the built-in digits with batch 8, and its initial weights.
struct stage_for_one {
  replica_options options;
  at::Tensor initial;
  std::atomic<bool> cancelled{false};

  explicit stage_for_one(const setting_of_one& given = {}) {
    auto made = make_digits_replica(given.model, given.optimizer);
    options = std::move(made.options);
    options.sampling.shuffle = false;
    options.micro_batches = given.micro_batches;
    initial = std::move(made.initial);
  }

  advance request(std::vector<verb> verbs) const { return {.verbs = std::move(verbs), .from = {{}, initial}}; }

  advanced run(
      const advance& asked, const replica::bucket_sink& leave = [](part, double) {}) {
    return replica{options}.run(asked, cancelled, leave);
  }

  /// Returns all parameters but the last, in two buckets from the back: the last layer's, and those before it.
  bucket_destination in_two_buckets(std::size_t last_layer) const {
    const auto first = options.layout.parameters[last_layer].first;
    return {.place = 3,
            .buckets = std::make_shared<const std::vector<range>>(
                std::vector<range>{{first, options.layout.parameter_end - first}, {0, first}})};
  }
};

}  // namespace troupe::testing

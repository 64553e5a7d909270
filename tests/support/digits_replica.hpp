// What a replica on the built-in digits is made of.
#pragma once

#include "troupe/algorithms/training/replica_options.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <string>

namespace troupe::testing {

struct digits_replica {
  replica_options options;
  at::Tensor initial;  ///< Initial weights, flat.
};

/// Returns options for a single worker with batches of 8 samples, and initial weights under seed 1.
inline digits_replica make_digits_replica(const std::string& model, const optimizer_options& optimizer) {
  digits_replica made;
  auto& options = made.options;
  const auto& kind = *models::find_network(model);
  const auto& digits = *data::find_dataset("digits");
  options.model = &kind;
  options.shape = {.input = digits.sample_shape, .classes = digits.classes};
  const auto network = models::make_network(kind, options.shape, 1);
  options.loss = network->loss();
  options.layout = models::layout_of(*network);
  const auto sets = digits.load({});
  options.samples = sets.train;
  options.scale = digits.published;
  options.sampling = {.samples = sets.train->size(), .batch_size = 8, .workers = 1, .seed = 1};
  options.optimizer = optimizer;
  made.initial = models::flatten(*network, options.layout, options.pool);
  return made;
}

}  // namespace troupe::testing

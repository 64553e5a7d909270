// What the replicas and the evaluator need in order to make the network that a run trains.
#pragma once

#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>

namespace troupe {

struct trained_network {
  const models::network_kind* model{nullptr};
  models::network_shape shape{};
  models::loss_function loss{};
  models::flat_layout layout{};
  data::normalisation scale{};  ///< Normalisation of its inputs.
  std::uint64_t seed{0};        ///< run.seed.
  std::int64_t threads{1};      ///< Intra-op threads of a lane that runs it.
};

}  // namespace troupe

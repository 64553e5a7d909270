// The evaluator measures loss and accuracy of a snapshot on the validation set, on a lane of its own, so that training
// continues meanwhile.
#pragma once

#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>

namespace troupe {

/// evaluate: evaluates the validation set; answers errc::failed with LibTorch's text if LibTorch throws.
/// cancel:   aborts the evaluation under way, which is then answered with an error.
using evaluator_actor = caf::typed_actor<caf::replies_to<evaluate_atom, snapshot>::with<evaluation>,
                                         caf::reacts_to<cancel_atom>, caf::reacts_to<done_atom, completion>>;

struct evaluator_options {
  const models::network_kind* model{nullptr};
  models::network_shape shape;
  models::loss_kind loss{};
  models::flat_layout layout;
  std::shared_ptr<const data::dataset> samples;
  data::normalisation scale;
  rules::evaluation_options how{};
  std::uint64_t seed{0};
  std::int64_t threads{1};
  bool computes{true};  ///< Whether anything is evaluated; otherwise losses are nan.
};

evaluator_actor spawn_evaluator(caf::actor_system& system, evaluator_options options, std::unique_ptr<lane> where);

}  // namespace troupe

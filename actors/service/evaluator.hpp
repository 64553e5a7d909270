// The evaluator measures loss and accuracy of a snapshot on the validation set, on a lane of its own, so that training
// continues meanwhile.
#pragma once

#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/algorithms/training/trained_network.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>

namespace troupe {

/// evaluate: evaluates the validation set; answers errc::failed with LibTorch's text if LibTorch throws.
/// cancel:   aborts the evaluation under way, which is then answered with an error.
using evaluator_actor = caf::typed_actor<caf::replies_to<evaluate_atom, snapshot>::with<evaluation>,
                                         caf::reacts_to<cancel_atom>, caf::reacts_to<done_atom, completion>>;

struct evaluator_options : trained_network {
  std::shared_ptr<const data::dataset> samples{};
  rules::evaluation_options how{};
  bool computes{true};  ///< Whether anything is evaluated; otherwise losses are nan.
};

evaluator_actor spawn_evaluator(caf::actor_system& system, evaluator_options options, std::unique_ptr<lane> where);

}  // namespace troupe

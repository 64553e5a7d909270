// Elastic averaging SGD: a server holds a centre, and workers and centre move towards each other.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

/// Returns the kind.
/// `apply = "all"`: rounds of all workers, computed from the values before the move: xⁱ ← xⁱ − α(xⁱ − x̃) and x̃ ← x̃ +
/// α Σ(xⁱ − x̃). The result does not depend on the order of arrival; a worker waits only for the round before its own.
/// `apply = "each"`: one worker after the other as they arrive (Algorithm 1): d = α(xⁱ − x̃), xⁱ ← xⁱ − d, x̃ ← x̃ + d.
/// The answer is the change −d.
/// Source: Zhang, Choromanska, LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015, equations 2 and 3 and
/// Algorithm 1.
exchange_kind elastic_kind();

}  // namespace troupe

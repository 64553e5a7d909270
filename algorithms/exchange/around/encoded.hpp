// A member whose parts travel encoded.
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <memory>
#include <string>

namespace troupe {

/// How a member's parts travel encoded.
struct encoding_options {
  encoding how{encoding::float32};
  /// Whether all members get the same answer. Then a member also rounds its own contribution, as the others receive it,
  /// and an answer that it computes itself, as if it had received it. The answers are then the same, and do not depend
  /// on which member computes them.
  bool same_for_all{true};
  std::string state_name{"codec"};  ///< Name of the wrapper's state, unique among the wrappers of the exchange.
};

/// Makes a member that encodes what the inner member sends and decodes what it receives.
///
/// The codec's memory is kept for each piece and is part of the state. It exists for contributions and, in the member
/// that computes them, for results.
std::unique_ptr<member> make_encoded_member(const member_options& own, const encoding_options& options,
                                            const member_maker& make_inner);

}  // namespace troupe

// A member whose parts travel encoded.
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"

#include <functional>
#include <memory>

namespace troupe {

/// Makes a member that encodes what the inner member sends and decodes what it receives. If `same_for_all`, all members
/// get the same answer. Then a member also rounds its own contribution, as the others receive it, and an answer that it
/// computes itself, as if it had received it. The answers are then the same, and do not depend on which member computes
/// them.
///
/// The memory of the codec is kept by piece, and is part of the state: for contributions, and for results, of which the
/// member that computes one has the memory.
std::unique_ptr<member> make_encoded_member(
    const member_options& own, encoding how, bool same_for_all,
    const std::function<std::unique_ptr<member>(const member_options&)>& make_inner);

}  // namespace troupe

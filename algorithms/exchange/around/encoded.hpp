// Exchanges whose parts travel encoded: rounded to bfloat16, they have half the size.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/messages/messages.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Returns the names of all encodings in topology files, the default first: "float32", "bf16".
std::vector<std::string> encoding_names();

/// Returns the encoding with this name. Throws std::invalid_argument.
encoding encoding_named(const std::string& name);

/// Returns that name, and the type of the values on their way.
std::string name_of(encoding how);
at::ScalarType type_of(encoding how);

/// Returns the bytes of `elements` encoded values.
std::int64_t encoded_bytes(encoding how, std::int64_t elements);

/// Returns `piece` with its values encoded. bfloat16 rounds to the nearest value, ties to even; NaN stays NaN.
part encoded(const part& piece, encoding how);

/// Returns `piece` with its values as float32, from `pool`.
part decoded(const part& piece, models::buffer_pool& pool);

/// Makes a member that encodes what the inner member sends and decodes what it receives. If `same_for_all`, all members
/// get the same answer. Then a member also rounds its own contribution, as the others receive it, and an answer that it
/// computes itself, as if it had received it. The answers are then the same, and do not depend on which member computes
/// them.
std::unique_ptr<member> make_encoded_member(
    const member_options& own, encoding how, bool same_for_all,
    const std::function<std::unique_ptr<member>(const member_options&)>& make_inner);

}  // namespace troupe

// A member whose parts travel encoded.
#pragma once

#include "troupe/algorithms/exchange/around/encoder.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <memory>

namespace troupe {

/// Makes a member that encodes what the inner member sends and decodes what it receives. Its state contains what
/// encoding has lost, if `options.feedback` is set.
std::unique_ptr<member> make_encoded_member(const member_options& own, const encoding_options& options,
                                            const member_maker& make_inner);

/// Returns the options of an inner member, which cuts no piece that its encoding cannot cut.
member_options with_cuts_of(const member_options& own, encoding how);

}  // namespace troupe

// A member that sends low-rank approximations of gradients, whose sums are as small as themselves: PowerSGD.
#pragma once

#include "troupe/algorithms/exchange/around/encoder.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <memory>

namespace troupe {

/// Makes a member around one that averages tensors. An exchange has two rounds. For each matrix M, which is the
/// gradient plus the error E of earlier exchanges, the members average M·Q, of which all make the same orthonormal P,
/// and then Mᵀ·P, which is the next Q. The answer is P·Qᵀ with the mean of Q, and E becomes M − P·Qᵀ with the member's
/// own Q: the mean would leave the deviations of the members from each other in E, where they grow. Other parameters
/// are averaged as they are in the first round. Q is at first uniform in (−1, 1) and the same for all.
///
/// Its state contains Q and, if `options.feedback` is set, E. If the mean of Q is not finite, both begin anew.
///
/// Source: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
/// Optimization", NeurIPS 2019, Algorithms 1 and 2; the own Q in E is that of its authors' later library.
std::unique_ptr<member> make_power_sgd_member(const member_options& own, const encoding_options& options,
                                              const member_maker& make_inner);

}  // namespace troupe

// Gossip with encoded parameters: members send what has changed of what the others know of them. Source: Koloskova,
// Stich and Jaggi, "Decentralized Stochastic Optimization and Gossip Algorithms with Compressed Communication", ICML
// 2019, Algorithm 2 (CHOCO-SGD).
#pragma once

#include "troupe/algorithms/exchange/around/encoder.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <memory>

namespace troupe {

/// Makes a member around one of gossip, whose answer to qᵢ is Σⱼ Wᵢⱼ qⱼ. What all know of member i is x̂ᵢ, at first the
/// initial parameters. The member sends C(xᵢ − x̂ᵢ), adds what is decoded of it to x̂ᵢ, and the answer of the inner
/// member to sᵢ = Σⱼ Wᵢⱼ x̂ⱼ; it answers xᵢ + rate · (sᵢ − x̂ᵢ). `options.feedback` must not be set: x̂ is the memory. The
/// mean over all members is kept, up to rounding. State: x̂ᵢ and sᵢ.
std::unique_ptr<member> make_choco_member(const member_options& own, const encoding_options& options, double rate,
                                          const member_maker& make_inner);

}  // namespace troupe

#include "troupe/algorithms/rules/agreement.hpp"

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/files/crc32c.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>

namespace troupe::rules {

namespace {

using digests_by_rank = std::map<rank_id, std::vector<std::uint32_t>>;

/// Returns the digests that most workers have; if several are equally frequent, those of the lowest rank.
const std::vector<std::uint32_t>& most_frequent(const digests_by_rank& all) {
  const std::vector<std::uint32_t>* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const auto& [rank, digests] : all) {
    const auto same = std::count_if(all.begin(), all.end(),
                                    [&digests = digests](const auto& other) { return other.second == digests; });
    if (same <= most) continue;
    best = &digests;
    most = same;
  }
  return *best;
}

std::string list_of(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t most = 8;
  std::string text = ranks.size() == 1 ? "worker " : "workers ";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

}  // namespace

std::vector<std::uint32_t> digests_of(const at::Tensor& values, const models::flat_layout& layout) {
  TROUPE_ASSERT(values.is_cpu() && values.is_contiguous() && values.scalar_type() == at::kFloat,
                "digests are those of float32 in host memory");
  const std::span elements{values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())};
  std::vector<std::uint32_t> digests;
  digests.reserve(layout.parameters.size());
  for (const auto& tensor : layout.parameters)
    digests.push_back(crc32c(std::as_bytes(
        elements.subspan(static_cast<std::size_t>(tensor.first), static_cast<std::size_t>(tensor.count)))));
  return digests;
}

std::optional<std::string> agreement::take(rank_id worker, std::uint64_t step, std::vector<std::uint32_t> digests) {
  if (digests.size() != names_.size())
    throw std::logic_error("received the digests of " + std::to_string(digests.size()) + " tensors instead of " +
                           std::to_string(names_.size()));
  auto& received = incomplete_[step];
  if (!received.emplace(worker, std::move(digests)).second)
    throw std::logic_error("worker " + std::to_string(static_cast<std::uint32_t>(worker)) +
                           " sent its digests of step " + std::to_string(step) + " twice");
  if (received.size() < workers_) return std::nullopt;
  const auto complete = std::move(incomplete_.extract(step).mapped());
  const auto& first_digests = complete.begin()->second;
  if (std::all_of(complete.begin(), complete.end(), [&](const auto& other) { return other.second == first_digests; }))
    return std::nullopt;
  const auto& reference = most_frequent(complete);
  std::vector<std::uint32_t> equal, different;
  auto first = names_.size();
  for (const auto& [rank, own] : complete) {
    (own == reference ? equal : different).push_back(static_cast<std::uint32_t>(rank));
    const auto at = std::mismatch(own.begin(), own.end(), reference.begin()).first - own.begin();
    first = std::min(first, static_cast<std::size_t>(at));
  }
  return "the parameters of " + list_of(different) + " differ from those of " + list_of(equal) + " after step " +
         std::to_string(step) + ", first in " + names_[first] +
         ", although this wiring keeps all workers equal; check that their machines have the same CPU, the "
         "same software and intact memory, or set run.verify_every = 0 to continue regardless";
}

}  // namespace troupe::rules

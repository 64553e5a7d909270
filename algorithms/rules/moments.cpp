#include "troupe/algorithms/rules/moments.hpp"

#include "troupe/algorithms/support/assert.hpp"

namespace troupe::rules {

at::Tensor moments_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool) {
  TROUPE_ASSERT(!summands.empty(), "a merge requires at least one summand");
  if (summands.size() == 1) return summands.front().values;
  const auto channels = summands.front().values.numel() / 2;
  double samples = 0;
  std::vector<const float*> parts;
  for (const auto& summand : summands) {
    TROUPE_ASSERT(summand.values.numel() == 2 * channels, "summands must have a mean and a variance per channel");
    samples += summand.weight;
    parts.push_back(summand.values.const_data_ptr<float>());
  }
  auto result = pool.take(2 * channels);
  auto* merged = result.data_ptr<float>();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) mean += summands[i].weight * static_cast<double>(parts[i][channel]);
    mean /= samples;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto apart = static_cast<double>(parts[i][channel]) - mean;
      squares += summands[i].weight * (static_cast<double>(parts[i][channels + channel]) + apart * apart);
    }
    merged[channel] = static_cast<float>(mean);
    merged[channels + channel] = static_cast<float>(squares / samples);
  }
  return result;
}

}  // namespace troupe::rules

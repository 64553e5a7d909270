#include "troupe/algorithms/rules/elastic.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::rules {

namespace {

constexpr std::int64_t block = 2048;  ///< Elements of a fold that stay in the first-level cache.

void pull(float* __restrict result, const float* __restrict position, const float* __restrict centre, float alpha,
          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = position[i] - alpha * (position[i] - centre[i]);
}

void differ(float* __restrict sum, const float* __restrict position, const float* __restrict centre,
            std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = position[i] - centre[i];
}

void add_difference(float* __restrict sum, const float* __restrict position, const float* __restrict centre,
                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] + (position[i] - centre[i]);
}

void move(float* __restrict sum, const float* __restrict centre, float alpha, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = centre[i] + alpha * sum[i];
}

void visit(float* __restrict moved, float* __restrict change, const float* __restrict centre,
           const float* __restrict position, float alpha, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto force = alpha * (position[i] - centre[i]);
    moved[i] = centre[i] + force;
    change[i] = -force;
  }
}

}  // namespace

at::Tensor pulled_to_centre(const at::Tensor& position, const at::Tensor& centre, double alpha,
                            models::buffer_pool& pool) {
  const auto count = centre.numel();
  TROUPE_ASSERT(position.numel() == count, "worker and centre must have the same size");
  auto result = pool.take(count);
  pull(result.data_ptr<float>(), position.const_data_ptr<float>(), centre.const_data_ptr<float>(),
       static_cast<float>(alpha), count);
  return result;
}

at::Tensor moved_centre(const at::Tensor& centre, const std::vector<at::Tensor>& positions, double alpha,
                        models::buffer_pool& pool) {
  TROUPE_ASSERT(!positions.empty(), "at least one worker must move the centre");
  const auto count = centre.numel();
  auto result = pool.take(count);
  auto* sum = result.data_ptr<float>();
  const auto* from = centre.const_data_ptr<float>();
  std::vector<const float*> values;
  for (const auto& position : positions) {
    TROUPE_ASSERT(position.numel() == count, "workers and centre must have the same size");
    values.push_back(position.const_data_ptr<float>());
  }
  for (std::int64_t first = 0; first < count; first += block) {
    const auto length = std::min(block, count - first);
    differ(sum + first, values[0] + first, from + first, length);
    for (std::size_t i = 1; i < values.size(); ++i)
      add_difference(sum + first, values[i] + first, from + first, length);
    move(sum + first, from + first, static_cast<float>(alpha), length);
  }
  return result;
}

elastic_visit visited_centre(const at::Tensor& centre, const at::Tensor& position, double alpha,
                             models::buffer_pool& pool) {
  const auto count = centre.numel();
  TROUPE_ASSERT(position.numel() == count, "worker and centre must have the same size");
  elastic_visit result{pool.take(count), pool.take(count)};
  visit(result.centre.data_ptr<float>(), result.change.data_ptr<float>(), centre.const_data_ptr<float>(),
        position.const_data_ptr<float>(), static_cast<float>(alpha), count);
  return result;
}

}  // namespace troupe::rules

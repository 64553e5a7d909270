#include "troupe/models/storage/sparse_sgd.hpp"

#include "troupe/models/storage/held_lock.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace troupe::models {

namespace {

float load(const float* at) {
  return std::atomic_ref<float>{const_cast<float&>(*at)}.load(std::memory_order_relaxed);
}

// Ways to add to a coordinate. `plain` takes two operations: what another thread writes between them is lost.
struct plain {
  static void add(float* at, float change) {
    std::atomic_ref<float>{*at}.store(load(at) + change, std::memory_order_relaxed);
  }
};
struct indivisible {
  static void add(float* at, float change) { std::atomic_ref<float>{*at}.fetch_add(change, std::memory_order_relaxed); }
};

constexpr std::uintptr_t line_bytes = 64;

// Rows are visited in random order, in memory that fits no cache: unless they are prefetched, the time of a step is
// that of its cache misses.
constexpr std::size_t rows_ahead = 12;

// Prefetches every cache line of a range: each line left out is a miss that nothing hides. Always inline: GCC treats a
// function that only prefetches as one without effects and drops the calls.
[[gnu::always_inline]] inline void prefetch(const void* first, std::ptrdiff_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(first), end = begin + static_cast<std::uintptr_t>(bytes);
  for (auto at = begin - begin % line_bytes; at < end; at += line_bytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(at));
  }
}

[[gnu::always_inline]] inline void prefetch(const sparse_sample& sample) {
  prefetch(sample.columns, 4 * sample.count);
  prefetch(sample.values, 4 * sample.count);
}

// Returns log(1 + e) for 0 <= e <= 1 with a relative error below 2e-9, less than that of e, in a third of the time of
// std::log1p: 2 artanh(z) as a power series, z = e / (2 + e) <= 1/3.
[[gnu::always_inline]] inline double log_1_plus(double e) {
  const double z = e / (2 + e), w = z * z;
  const double low = 1 + w * (1.0 / 3), middle = 1.0 / 5 + w * (1.0 / 7), high = 1.0 / 9 + w * (1.0 / 11),
               highest = 1.0 / 13 + w * (1.0 / 15);
  const double w2 = w * w;
  return 2 * z * ((low + w2 * middle) + w2 * w2 * (high + w2 * highest));
}

// Losses of a score: derivative() returns the derivative and adds the loss to the sum. y = ±1.
class logistic_loss {
 public:
  explicit logistic_loss(double sum) : sum_(sum) {}

  float derivative(float score, float target) {
    const float y = 2 * target - 1, margin = y * score;
    const float e = std::exp(-std::abs(margin));
    sum_ += static_cast<double>(std::max(-margin, 0.0f)) + log_1_plus(e);
    return -y * (margin > 0 ? e : 1.0f) / (1 + e);
  }
  double sum() const { return sum_; }

 private:
  double sum_;
};

class hinge_loss {
 public:
  explicit hinge_loss(double sum) : sum_(sum) {}

  float derivative(float score, float target) {
    const float y = 2 * target - 1, short_of = 1 - y * score;
    if (!(short_of <= 0)) sum_ += short_of;  // NaN counts
    return short_of > 0 ? -y : 0.0f;
  }
  double sum() const { return sum_; }

 private:
  double sum_;
};

// The functions below take samples by value: compilers read through a pointer again after each atomic operation, which
// makes these loops take 50% longer. They are unrolled fourfold for the same reason; AVX2 gathers were slower.
float dot(const float* x, sparse_sample sample) {
  const auto [columns, values, count, target] = sample;
  float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  std::int32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sum0 += load(x + columns[i]) * values[i];
    sum1 += load(x + columns[i + 1]) * values[i + 1];
    sum2 += load(x + columns[i + 2]) * values[i + 2];
    sum3 += load(x + columns[i + 3]) * values[i + 3];
  }
  for (; i < count; ++i) sum0 += load(x + columns[i]) * values[i];
  return (sum0 + sum1) + (sum2 + sum3);
}

template <class Access>
void add_row(float* x, sparse_sample sample, float factor) {
  const auto [columns, values, count, target] = sample;
  std::int32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Access::add(x + columns[i], factor * values[i]);
    Access::add(x + columns[i + 1], factor * values[i + 1]);
    Access::add(x + columns[i + 2], factor * values[i + 2]);
    Access::add(x + columns[i + 3], factor * values[i + 3]);
  }
  for (; i < count; ++i) Access::add(x + columns[i], factor * values[i]);
}

// Appends the share of a row in the gradient of λ/2 ‖x‖², at its columns.
void append_pulls(const float* x, sparse_sample sample, float decay, const float* share, std::vector<float>& pulls) {
  for (std::int32_t i = 0; i < sample.count; ++i) {
    const auto column = sample.columns[i];
    pulls.push_back(decay * share[column] * load(x + column));
  }
}

template <class Access>
void add_row(float* x, sparse_sample sample, float derivative, const float* pulls, float rate) {
  for (std::int32_t i = 0; i < sample.count; ++i) {
    Access::add(x + sample.columns[i], rate * (derivative * sample.values[i] + pulls[i]));
  }
}

template <class Access, class Loss>
double linear_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options, float* x) {
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(options.batch_size, 1));
  const bool decays = options.weight_decay != 0;
  const auto decay = static_cast<float>(options.weight_decay);
  Loss loss{options.loss_sum};
  std::vector<float> derivatives(std::min(batch, samples.size())), pulls;
  for (std::size_t i = 0; i < std::min(rows_ahead, samples.size()); ++i) prefetch(samples[i]);
  for (std::size_t first = 0; first < samples.size(); first += batch) {
    const auto step = samples.subspan(first, std::min(batch, samples.size() - first));
    const float rate = -static_cast<float>(options.lr / static_cast<double>(step.size()));
    const held_lock mine{options.lock};
    pulls.clear();
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (first + i + rows_ahead < samples.size()) prefetch(samples[first + i + rows_ahead]);
      derivatives[i] = loss.derivative(dot(x, step[i]), step[i].target);
      if (decays) append_pulls(x, step[i], decay, options.share, pulls);
    }
    const float* pull = pulls.data();
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (decays) {
        add_row<Access>(x, step[i], derivatives[i], pull, rate);
        pull += step[i].count;
      } else if (derivatives[i] != 0) {
        add_row<Access>(x, step[i], rate * derivatives[i]);
      }
    }
  }
  return loss.sum();
}

template <class Loss>
double linear_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options, const flat_layout& layout,
                  float* x) {
  float* weight = x + layout.parameters.at(0).first;
  return options.atomic ? linear_sgd<indivisible, Loss>(samples, options, weight)
                        : linear_sgd<plain, Loss>(samples, options, weight);
}

// The factors of all users and of all items, in x.
struct factors {
  float *users{nullptr}, *items{nullptr};
  std::int64_t user_count{0}, rank{0};

  float* user_of(const sparse_sample& sample) const { return users + sample.columns[0] * rank; }
  float* item_of(const sparse_sample& sample) const { return items + (sample.columns[1] - user_count) * rank; }
};

template <class Access>
double matrix_completion_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                             const factors& x) {
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(options.batch_size, 1));
  const auto rank = static_cast<std::size_t>(x.rank);
  const auto bytes = static_cast<std::ptrdiff_t>(4 * rank);
  const auto decay = static_cast<float>(options.weight_decay);
  double loss = options.loss_sum;
  std::vector<float> seen(2 * rank * std::min(batch, samples.size()));  // factors of each sample's user and item
  std::vector<float> derivatives(std::min(batch, samples.size()));
  for (std::size_t first = 0; first < samples.size(); first += batch) {
    const auto step = samples.subspan(first, std::min(batch, samples.size() - first));
    const float rate = -static_cast<float>(options.lr / static_cast<double>(step.size()));
    const held_lock mine{options.lock};
    for (std::size_t i = 0; i < step.size(); ++i) {
      // Prefetches a rating early and, once it is in the cache, the factors it needs.
      if (first + i + 2 * rows_ahead < samples.size()) prefetch(samples[first + i + 2 * rows_ahead]);
      if (first + i + rows_ahead < samples.size()) {
        prefetch(x.user_of(samples[first + i + rows_ahead]), bytes);
        prefetch(x.item_of(samples[first + i + rows_ahead]), bytes);
      }
      float *user = seen.data() + 2 * rank * i, *item = user + rank;
      const float *live_user = x.user_of(step[i]), *live_item = x.item_of(step[i]);
      float score = 0;
      for (std::size_t k = 0; k < rank; ++k) {
        user[k] = load(live_user + k);
        item[k] = load(live_item + k);
        score += user[k] * item[k];
      }
      const float error = score - step[i].target;
      loss += static_cast<double>(error) * error;
      derivatives[i] = 2 * error;
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
      const float *user = seen.data() + 2 * rank * i, *item = user + rank;
      const float user_decay = decay == 0 ? 0 : decay * options.share[step[i].columns[0]];
      const float item_decay = decay == 0 ? 0 : decay * options.share[step[i].columns[1]];
      float *live_user = x.user_of(step[i]), *live_item = x.item_of(step[i]);
      const float derivative = derivatives[i];
      for (std::size_t k = 0; k < rank; ++k) {
        Access::add(live_user + k, rate * (derivative * item[k] + user_decay * user[k]));
        Access::add(live_item + k, rate * (derivative * user[k] + item_decay * item[k]));
      }
    }
  }
  return loss;
}

}  // namespace

double logistic_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                    const flat_layout& layout, float* x) {
  return linear_sgd<logistic_loss>(samples, options, layout, x);
}

double svm_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options, const flat_layout& layout,
               float* x) {
  return linear_sgd<hinge_loss>(samples, options, layout, x);
}

double matrix_completion_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                             const flat_layout& layout, float* x) {
  const flat_entry &users = layout.parameters.at(0), &items = layout.parameters.at(1);
  const factors both{
      .users = x + users.first, .items = x + items.first, .user_count = users.shape.at(0), .rank = users.shape.at(1)};
  return options.atomic ? matrix_completion_sgd<indivisible>(samples, options, both)
                        : matrix_completion_sgd<plain>(samples, options, both);
}

}  // namespace troupe::models

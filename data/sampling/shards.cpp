#include "troupe/data/sampling/shards.hpp"

#include "troupe/data/random/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

namespace troupe::data {

namespace {

// Returns the samples of each class, in ascending order.
std::vector<std::vector<std::int64_t>> samples_by_class(const at::Tensor& targets) {
  const std::span classes{targets.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(targets.numel())};
  std::vector<std::vector<std::int64_t>> samples;
  for (std::size_t index = 0; index < classes.size(); ++index) {
    const auto which = static_cast<std::size_t>(classes[index]);
    if (which >= samples.size()) samples.resize(which + 1);
    samples[which].push_back(static_cast<std::int64_t>(index));
  }
  return samples;
}

// Returns the natural logarithm of x > 0, by ln m = 2 artanh((m - 1) / (m + 1)) of the mantissa m in [√½, √2).
double logarithm(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
  double sum = 0;
  for (int power = 25; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

// Returns e to the power of x <= 0: a power of two, times the series of the remainder.
double exponential(double x) {
  constexpr double ln2 = 0.69314718055994531;
  if (x < -745) return 0;
  const double whole = std::floor(x / ln2 + 0.5), rest = x - whole * ln2;
  double sum = 1;
  for (int factor = 18; factor >= 1; --factor) sum = 1 + sum * rest / factor;
  return std::ldexp(sum, static_cast<int>(whole));
}

double open_unit(random_stream& stream) {
  return (static_cast<double>(stream.next() >> 11) + 0.5) * 0x1.0p-53;
}

// Draws from the normal distribution with Marsaglia's polar method.
double normal(random_stream& stream) {
  for (;;) {
    const double x = stream.between(-1, 1), y = stream.between(-1, 1), square = x * x + y * y;
    if (square > 0 && square < 1) return x * std::sqrt(-2 * logarithm(square) / square);
  }
}

// Returns the logarithm of a draw from the gamma distribution of this shape and scale 1 (Marsaglia, Tsang 2000, "A
// simple method for generating gamma variables"; section 6 for shapes below 1). With small shapes, the draws themselves
// are too small for a double.
double log_gamma_draw(double shape, random_stream& stream) {
  if (shape < 1) {
    const double above = log_gamma_draw(shape + 1, stream);
    return above + logarithm(open_unit(stream)) / shape;
  }
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(stream), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root, log_v = logarithm(v);
    if (logarithm(open_unit(stream)) < 0.5 * x * x + d - d * v + d * log_v) return logarithm(d) + log_v;
  }
}

// Draws q ~ Dir(shapes), up to a common factor.
std::vector<double> dirichlet_draw(const std::vector<double>& shapes, random_stream& stream) {
  std::vector<double> q;
  for (const double shape : shapes) {
    q.push_back(shape > 0 ? log_gamma_draw(shape, stream) : -std::numeric_limits<double>::infinity());
  }
  const double largest = *std::max_element(q.begin(), q.end());
  for (double& value : q) value = exponential(value - largest);
  return q;
}

// Draws the classes of the samples of a worker, among the classes that have samples left.
class choice {
 public:
  choice(std::vector<double> weights, const std::vector<std::vector<std::int64_t>>& left)
      : weights_{std::move(weights)}, left_{left} {
    settle();
  }

  std::size_t draw(random_stream& stream) {
    const double at = stream.between(0, sums_.back());
    const auto index = std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
    return std::min(static_cast<std::size_t>(index), last_);
  }

  // Sums up the weights of the classes that have samples left. If all these weights are 0, the samples left are drawn
  // uniformly.
  void settle() {
    const auto sum_up = [&](auto weight) {
      double sum = 0;
      sums_.clear();
      for (std::size_t index = 0; index < left_.size(); ++index) {
        const double own = left_[index].empty() ? 0.0 : weight(index);
        if (own > 0) last_ = index;
        sums_.push_back(sum += own);
      }
      return sum > 0;
    };
    if (!sum_up([&](std::size_t index) { return weights_[index]; }))
      sum_up([&](std::size_t index) { return static_cast<double>(left_[index].size()); });
  }

 private:
  std::vector<double> weights_, sums_;
  const std::vector<std::vector<std::int64_t>>& left_;
  std::size_t last_{0};  // last class with a positive weight
};

}  // namespace

sample_shards dirichlet_shards(const at::Tensor& targets, std::int64_t workers, double alpha, std::uint64_t seed) {
  auto left = samples_by_class(targets);
  std::vector<double> shapes;
  for (const auto& samples : left)
    shapes.push_back(alpha * static_cast<double>(samples.size()) / static_cast<double>(targets.numel()));
  const auto share = static_cast<std::size_t>(targets.numel() / workers);
  sample_shards shards(static_cast<std::size_t>(workers));
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    random_stream stream{keyed(seed, purpose::split, rank)};
    choice classes{dirichlet_draw(shapes, stream), left};
    for (std::size_t drawn = 0; drawn < share; ++drawn) {
      auto& samples = left[classes.draw(stream)];
      std::swap(samples[stream.below(samples.size())], samples.back());
      shards[rank].push_back(samples.back());
      samples.pop_back();
      if (samples.empty()) classes.settle();
    }
  }
  return shards;
}

sample_shards shards_by_label(const at::Tensor& targets, std::int64_t workers) {
  const std::span classes{targets.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(targets.numel())};
  std::vector<std::int64_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return classes[static_cast<std::size_t>(a)] < classes[static_cast<std::size_t>(b)];
  });
  const auto share = static_cast<std::ptrdiff_t>(targets.numel() / workers);
  sample_shards shards;
  for (std::int64_t rank = 0; rank < workers; ++rank) {
    const auto begin = order.begin() + rank * share;
    shards.emplace_back(begin, begin + share);
  }
  return shards;
}

}  // namespace troupe::data

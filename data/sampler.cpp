#include "troupe/data/sampler.hpp"

#include "troupe/data/random.hpp"
#include "troupe/data/shuffle.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace troupe::data {

std::int64_t steps_per_epoch(const sampling& options) {
  const std::int64_t share = options.how == split::all ? options.samples : options.samples / options.workers;
  return share / options.batch_size;
}

sampler::sampler(const sampling& options) : options_{options} {
  if (options.batch_size < 1 || options.workers < 1 || options.rank < 0 || options.rank >= options.workers) {
    throw std::invalid_argument("a batch needs at least one sample, and a rank must be below the number of workers");
  }
  steps_per_epoch_ = data::steps_per_epoch(options);
  if (steps_per_epoch_ < 1) {
    throw std::invalid_argument("an epoch has no step: " + std::to_string(options.samples) + " samples, shared by " +
                                std::to_string(options.how == split::all ? 1 : options.workers) +
                                ", do not fill a batch of " + std::to_string(options.batch_size));
  }
}

std::vector<std::int64_t> sampler::batch_at(std::uint64_t step) {
  const auto indices = batches_at(step, 1);
  return {indices.begin(), indices.end()};
}

std::span<const std::int64_t> sampler::batches_at(std::uint64_t step, std::uint64_t most) {
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch_),
             batch = static_cast<std::uint64_t>(options_.batch_size);
  enter(step / steps);
  const std::uint64_t first = step % steps;
  return std::span<const std::int64_t>{order_}.subspan(first * batch, std::min(most, steps - first) * batch);
}

void sampler::enter(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  [[maybe_unused]] const auto& [samples, batch_size, rank, workers, how, shuffled, seed, drop_last, pad, shards] =
      options_;
  // The whole set, or for contiguous shards this worker's block of it; blocks differ by one sample at most.
  const std::int64_t begin = how == split::contiguous ? samples * rank / workers : 0;
  const std::int64_t end = how == split::contiguous ? samples * (rank + 1) / workers : samples;
  if (how == split::given) {
    order_ = shards->at(static_cast<std::size_t>(rank));
  } else {
    order_.resize(static_cast<std::size_t>(end - begin));
    std::iota(order_.begin(), order_.end(), begin);
  }
  // One permutation for all workers of a strided epoch; otherwise each rank has its own. With one worker all agree.
  if (shuffled) {
    shuffle(order_,
            keyed(seed, purpose::permutation, epoch, how == split::strided ? 0 : static_cast<std::uint64_t>(rank)));
  }
  if (how == split::strided) {
    std::size_t kept = 0;
    for (auto at = static_cast<std::size_t>(rank); at < order_.size(); at += static_cast<std::size_t>(workers)) {
      order_[kept++] = order_[at];
    }
    order_.resize(kept);
  }
  epoch_ = epoch;
}

}  // namespace troupe::data

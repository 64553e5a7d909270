#include "troupe/data/sampling/sampler.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/data/random/shuffle.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::data {

namespace {

using sample_order = std::shared_ptr<const std::vector<std::int64_t>>;

/// What the order of a strided epoch depends on.
struct strided_epoch {
  std::int64_t samples{0};
  bool shuffle{true};
  std::uint64_t seed{0}, epoch{0};
  bool operator==(const strided_epoch&) const = default;
};

/// Returns the order of the whole set in an epoch. All workers of a process, of which there may be thousands, share it:
/// the last two orders are kept. Any thread.
sample_order order_of(const strided_epoch& which) {
  static std::mutex mutex;
  static std::deque<std::pair<strided_epoch, sample_order>> known;
  const std::lock_guard lock{mutex};
  for (const auto& [epoch, order] : known)
    if (epoch == which) return order;
  auto order = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(which.samples));
  std::iota(order->begin(), order->end(), std::int64_t{0});
  if (which.shuffle) shuffle(*order, keyed(which.seed, purpose::permutation, which.epoch, 0));
  known.emplace_back(which, order);
  if (known.size() > 2) known.pop_front();
  return order;
}

}  // namespace

sampling of_worker(sampling options, std::int64_t rank) {
  options.rank = rank;
  if (!options.sizes.empty()) options.batch_size = options.sizes.at(static_cast<std::size_t>(rank));
  return options;
}

std::int64_t samples_per_step(const sampling& options) {
  if (options.sizes.empty()) return options.workers * options.batch_size;
  return std::accumulate(options.sizes.begin(), options.sizes.end(), std::int64_t{0});
}

std::int64_t share_of(const sampling& options) {
  if (!options.sizes.empty()) return options.samples / samples_per_step(options) * options.batch_size;
  if (options.how == split::all) return options.samples;
  return (options.samples + (options.pad ? options.workers - 1 : 0)) / options.workers;
}

std::int64_t steps_per_epoch(const sampling& options) {
  if (!options.sizes.empty()) return options.samples / samples_per_step(options);
  return (share_of(options) + (options.drop_last ? 0 : options.batch_size - 1)) / options.batch_size;
}

std::int64_t last_batch_size(const sampling& options) {
  const auto before = (steps_per_epoch(options) - 1) * options.batch_size;
  return std::min(options.batch_size, share_of(options) - before);
}

batch_owner owner_of(const sampling& options, std::uint64_t number) {
  if (!options.queue) return {options.rank, number};
  const auto workers = static_cast<std::uint64_t>(options.workers);
  if (options.how != split::all) return {static_cast<std::int64_t>(number % workers), number / workers};
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch(options));
  const auto epoch = number / (steps * workers), in_epoch = number % (steps * workers);
  return {static_cast<std::int64_t>(in_epoch / steps), epoch * steps + in_epoch % steps};
}

std::uint64_t step_of(const sampling& options, std::uint64_t number) {
  return options.queue ? number / static_cast<std::uint64_t>(options.workers) : number;
}

std::int64_t batch_size_at(const sampling& options, std::uint64_t number) {
  if (options.drop_last) return options.batch_size;
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch(options));
  return (owner_of(options, number).step + 1) % steps == 0 ? last_batch_size(options) : options.batch_size;
}

std::uint64_t epoch_of(const sampling& options, std::uint64_t number) {
  return owner_of(options, number).step / static_cast<std::uint64_t>(steps_per_epoch(options));
}

sampler::sampler(const sampling& options) : options_{options} {
  if (options.batch_size < 1 || options.workers < 1 || options.rank < 0 || options.rank >= options.workers) {
    throw std::invalid_argument(
        "a batch must have at least one sample, and a rank must be less than the number of workers");
  }
  if (options.pad && options.how != split::strided)
    throw std::invalid_argument("only an epoch with strided sampling can be padded");
  if (!options.sizes.empty() && (options.how != split::strided || !options.drop_last || options.pad || options.queue))
    throw std::invalid_argument("only strided epochs of full batches can have batches of different sizes");
  share_ = share_of(options);
  if (options.how == split::given &&
      static_cast<std::int64_t>(options.shards->at(static_cast<std::size_t>(options.rank)).size()) < share_)
    throw std::invalid_argument("the shard of rank " + std::to_string(options.rank) + " has fewer than " +
                                std::to_string(share_) + " samples");
  steps_per_epoch_ = data::steps_per_epoch(options);
  if (steps_per_epoch_ < 1) {
    throw std::invalid_argument("an epoch has no steps: " + std::to_string(options.samples) +
                                " samples divided among " +
                                std::to_string(options.how == split::all ? 1 : options.workers) +
                                " do not fill a batch of " + std::to_string(options.batch_size));
  }
  if (!options.queue) return;
  auto source = options;
  source.queue = false;
  if (options.how == split::strided) {
    source.workers = 1;
    source.rank = 0;
    source.pad = false;
    sources_.emplace_back(source);
  } else if (options.how == split::all) {
    source.rank = 0;
    sources_.emplace_back(source);
  } else {
    for (source.rank = 0; source.rank < options.workers; ++source.rank) sources_.emplace_back(source);
  }
}

std::vector<std::int64_t> sampler::batch_at(std::uint64_t number) {
  const auto indices = batches_at(number, 1);
  return {indices.begin(), indices.end()};
}

std::span<const std::int64_t> sampler::batches_at(std::uint64_t number, std::uint64_t most) {
  if (options_.queue) return from_queue(number, most);
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch_),
             batch = static_cast<std::uint64_t>(options_.batch_size);
  enter(number / steps);
  const std::uint64_t first = number % steps;
  const std::span<const std::int64_t> from = std::span<const std::int64_t>{order_}.subspan(first * batch);
  return from.first(std::min(std::min(most, steps - first) * batch, from.size()));
}

std::span<const std::int64_t> sampler::from_queue(std::uint64_t number, std::uint64_t most) {
  drawn_.clear();
  const auto per_epoch = static_cast<std::uint64_t>(steps_per_epoch_ * options_.workers);
  const auto end = std::min(number + most, (number / per_epoch + 1) * per_epoch);
  for (; number < end; ++number) {
    append(owner_of(options_, number));
    if (batch_size_at(options_, number) < options_.batch_size) break;
  }
  return drawn_;
}

/// Takes this worker's samples of each step from the order of the whole set.
void sampler::deal(const std::vector<std::int64_t>& whole) {
  const auto all = samples_per_step(options_);
  std::vector<std::int64_t> places;  // in a step
  for (std::int64_t turn = 0, place = 0; place < all; ++turn)
    for (std::int64_t rank = 0; rank < options_.workers; ++rank) {
      if (turn >= options_.sizes[static_cast<std::size_t>(rank)]) continue;
      if (rank == options_.rank) places.push_back(place);
      ++place;
    }
  order_.clear();
  for (std::int64_t step = 0; step < steps_per_epoch_; ++step)
    for (const auto place : places) order_.push_back(whole[static_cast<std::size_t>(step * all + place)]);
}

/// Appends the batch of `owner` to drawn_.
void sampler::append(batch_owner owner) {
  if (options_.how != split::strided) {
    auto& source = sources_[options_.how == split::all ? 0 : static_cast<std::size_t>(owner.rank)];
    if (std::exchange(source.options_.rank, owner.rank) != owner.rank) source.epoch_ = no_epoch;
    const auto batch = source.batches_at(owner.step, 1);
    drawn_.insert(drawn_.end(), batch.begin(), batch.end());
    return;
  }
  auto& whole = sources_.front();
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch_);
  whole.enter(owner.step / steps);
  const auto first = static_cast<std::int64_t>(owner.step % steps) * options_.batch_size;
  const auto end = std::min(first + options_.batch_size, share_);
  for (auto i = first; i < end; ++i)  // beyond the end of a padded epoch, its first samples follow
    drawn_.push_back(whole.order_[static_cast<std::size_t>((owner.rank + i * options_.workers) % options_.samples)]);
}

void sampler::enter(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  const auto& [samples, batch_size, rank, workers, how, shuffled, seed, drop_last, pad, shards, sizes, queue] =
      options_;
  epoch_ = epoch;
  if (how == split::strided) {  // one permutation for all workers; a padded epoch restarts at its end
    const auto whole = order_of({samples, shuffled, seed, epoch});
    if (!sizes.empty()) return deal(*whole);
    order_.clear();
    for (std::int64_t i = 0; i < share_; ++i)
      order_.push_back((*whole)[static_cast<std::size_t>((rank + i * workers) % samples)]);
    return;
  }
  // The whole set, or for contiguous shards this worker's block of it; blocks differ by one sample at most.
  const std::int64_t begin = how == split::contiguous ? samples * rank / workers : 0;
  const std::int64_t end = how == split::contiguous ? samples * (rank + 1) / workers : samples;
  if (how == split::given) {
    order_ = shards->at(static_cast<std::size_t>(rank));
  } else {
    order_.resize(static_cast<std::size_t>(end - begin));
    std::iota(order_.begin(), order_.end(), begin);
  }
  if (shuffled) shuffle(order_, keyed(seed, purpose::permutation, epoch, static_cast<std::uint64_t>(rank)));
  order_.resize(static_cast<std::size_t>(share_));  // a block may have one sample more than the others
}

}  // namespace troupe::data

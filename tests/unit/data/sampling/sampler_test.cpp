#include "troupe/data/sampling/sampler.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/data/random/random.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace sampler_test {

using namespace troupe::data;

namespace {

using indices = std::vector<std::int64_t>;

// All batches of one epoch, one after the other.
indices samples_of_epoch(const sampling& options, std::uint64_t epoch = 0) {
  sampler walk{options};
  indices all;
  const auto steps = static_cast<std::uint64_t>(walk.steps_per_epoch());
  for (std::uint64_t step = 0; step < steps; ++step) {
    const indices batch = walk.batch_at(epoch * steps + step);
    CHECK(batch.size() == static_cast<std::size_t>(options.batch_size));
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

bool distinct_below(const indices& list, std::int64_t bound) {
  const std::set<std::int64_t> seen(list.begin(), list.end());
  return seen.size() == list.size() && *seen.begin() >= 0 && *seen.rbegin() < bound;
}

}  // namespace

TEST_CASE("an epoch has floor(floor(N / n) / batch) steps for every worker") {
  CHECK(steps_per_epoch({.samples = 100, .batch_size = 8, .workers = 3}) == 4);
  CHECK(steps_per_epoch({.samples = 100, .batch_size = 8, .workers = 3, .how = split::contiguous}) == 4);
  CHECK(steps_per_epoch({.samples = 100, .batch_size = 8, .workers = 3, .how = split::all}) == 12);
  CHECK(steps_per_epoch({.samples = 60000, .batch_size = 16, .workers = 4}) == 937);
}

TEST_CASE("an epoch without a step is refused, and so are workers that do not exist") {
  CHECK_THROWS_WITH_AS((sampler{{.samples = 31, .batch_size = 8, .workers = 4}}),
                       "an epoch has no steps: 31 samples divided among 4 do not fill a batch of 8",
                       std::invalid_argument);
  CHECK_NOTHROW(sampler{{.samples = 32, .batch_size = 8, .workers = 4}});
  CHECK_THROWS_AS((sampler{{.samples = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((sampler{{.samples = 9, .batch_size = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((sampler{{.samples = 9, .workers = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((sampler{{.samples = 9, .rank = 2, .workers = 2}}), std::invalid_argument);
}

TEST_CASE("without shuffling, samples come in the set's order") {
  CHECK(samples_of_epoch({.samples = 7, .batch_size = 2, .shuffle = false}) == indices{0, 1, 2, 3, 4, 5});
  CHECK(samples_of_epoch({.samples = 8, .batch_size = 2, .rank = 1, .workers = 2, .shuffle = false}) ==
        indices{1, 3, 5, 7});
  CHECK(samples_of_epoch(
            {.samples = 8, .batch_size = 2, .rank = 1, .workers = 2, .how = split::contiguous, .shuffle = false}) ==
        indices{4, 5, 6, 7});
  CHECK(
      samples_of_epoch({.samples = 4, .batch_size = 2, .rank = 1, .workers = 2, .how = split::all, .shuffle = false}) ==
      indices{0, 1, 2, 3});
}

TEST_CASE("batches of different sizes share the samples of a step in turn") {
  const sampling all{.samples = 20, .batch_size = 3, .workers = 3, .shuffle = false, .sizes = {3, 1, 2}};
  CHECK(samples_per_step(all) == 6);
  CHECK(steps_per_epoch(all) == 3);
  CHECK(samples_of_epoch(of_worker(all, 0)) == indices{0, 3, 5, 6, 9, 11, 12, 15, 17});
  CHECK(samples_of_epoch(of_worker(all, 1)) == indices{1, 7, 13});
  CHECK(samples_of_epoch(of_worker(all, 2)) == indices{2, 4, 8, 10, 14, 16});
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    sampling equal{.samples = 101, .batch_size = 4, .rank = rank, .workers = 3, .seed = 5};
    auto listed = equal;
    listed.sizes = {4, 4, 4};
    CHECK(samples_of_epoch(listed, 1) == samples_of_epoch(equal, 1));
  }
  auto other = all;
  other.how = split::contiguous;
  CHECK_THROWS_AS(sampler{other}, std::invalid_argument);
}

TEST_CASE("n strided batches of b are the batch of n·b of one worker") {
  for (const std::int64_t workers : {1, 2, 3, 7}) {
    for (const std::int64_t samples : {64, 100, 101}) {
      const sampling one{.samples = samples, .batch_size = 4 * workers, .seed = 9};
      sampler whole{one};
      std::vector<sampler> parts;
      for (std::int64_t rank = 0; rank < workers; ++rank) {
        parts.emplace_back(sampling{.samples = samples, .batch_size = 4, .rank = rank, .workers = workers, .seed = 9});
        CHECK(parts.back().steps_per_epoch() == whole.steps_per_epoch());
      }
      for (std::uint64_t step = 0; step < 3 * static_cast<std::uint64_t>(whole.steps_per_epoch()); ++step) {
        // Sample j of worker w is sample j·n + w of the whole batch.
        indices together(static_cast<std::size_t>(4 * workers));
        for (std::size_t rank = 0; rank < parts.size(); ++rank) {
          const indices part = parts[rank].batch_at(step);
          for (std::size_t index = 0; index < 4; ++index) together[index * parts.size() + rank] = part[index];
        }
        CHECK(together == whole.batch_at(step));
      }
    }
  }
}

TEST_CASE("a queue of batches of the whole set goes through the workers' orders one after the other") {
  sampling one{.samples = 23, .batch_size = 3, .workers = 3, .how = split::all, .seed = 5};
  std::vector<sampler> workers;
  for (one.rank = 0; one.rank < 3; ++one.rank) workers.emplace_back(one);
  one.rank = 0;
  one.queue = true;
  sampler queue{one};
  const auto steps = static_cast<std::uint64_t>(queue.steps_per_epoch());
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    for (std::uint64_t rank = 0; rank < 3; ++rank)
      for (std::uint64_t step = 0; step < steps; ++step) {
        const auto number = (3 * epoch + rank) * steps + step;
        CHECK(queue.batch_at(number) == workers[rank].batch_at(epoch * steps + step));
        CHECK(troupe::data::epoch_of(one, number) == epoch);
        CHECK(step_of(one, number) == number / 3);
      }
  CHECK(queue.batch_at(0) == workers[0].batch_at(0));  // batches may be asked for again
}

TEST_CASE("batch i of a queue is that of worker i mod n at step i / n") {
  const auto shards = std::make_shared<const sample_shards>(
      sample_shards{{8, 1, 30, 4, 11, 6, 20}, {0, 2, 22, 3, 5, 7, 9}, {10, 13, 12, 21, 15, 17, 14}});
  for (const split how : {split::strided, split::contiguous, split::given})
    for (const bool drop_last : {true, false})
      for (const bool pad : {false, how == split::strided}) {
        sampling one{.samples = 23,
                     .batch_size = 3,
                     .workers = 3,
                     .how = how,
                     .seed = 5,
                     .drop_last = drop_last,
                     .pad = pad,
                     .shards = how == split::given ? shards : nullptr};
        std::vector<sampler> workers;
        for (one.rank = 0; one.rank < 3; ++one.rank) workers.emplace_back(one);
        one.rank = 0;
        one.queue = true;
        sampler queue{one};
        const auto all = static_cast<std::uint64_t>(3 * 3 * queue.steps_per_epoch());
        for (std::uint64_t i = 0; i < all; ++i) {
          const auto batch = workers[i % 3].batch_at(i / 3);
          CHECK(queue.batch_at(i) == batch);
          CHECK(batch_size_at(one, i) == static_cast<std::int64_t>(batch.size()));
          CHECK(troupe::data::epoch_of(one, i) == i / 3 / static_cast<std::uint64_t>(queue.steps_per_epoch()));
        }
      }
}

TEST_CASE("several batches of a queue are of one epoch, and all but the last are full") {
  sampler queue{{.samples = 23, .batch_size = 3, .workers = 3, .seed = 5, .drop_last = false, .queue = true}};
  REQUIRE(queue.steps_per_epoch() == 3);  // three batches, of sizes 3, 3 and 1
  CHECK(queue.batches_at(0, 6).size() == 18);
  CHECK(queue.batches_at(4, 10).size() == 7);  // batches 4, 5 and the short one of the first worker
  CHECK(queue.batches_at(7, 10).size() == 1);
}

TEST_CASE("shards are distinct and stay in the set, and all but a remainder is seen") {
  for (const split how : {split::strided, split::contiguous}) {
    for (const std::int64_t workers : {1, 3, 4}) {
      indices all;
      for (std::int64_t rank = 0; rank < workers; ++rank) {
        const indices mine = samples_of_epoch(
            {.samples = 103, .batch_size = 5, .rank = rank, .workers = workers, .how = how, .seed = 4}, 2);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      CHECK(distinct_below(all, 103));
      CHECK(static_cast<std::int64_t>(all.size()) == 103 / workers / 5 * 5 * workers);
    }
  }
}

TEST_CASE("a contiguous worker stays in its block, in an order of its own") {
  const sampling options{.samples = 40, .batch_size = 10, .rank = 2, .workers = 4, .how = split::contiguous, .seed = 1};
  indices mine = samples_of_epoch(options);
  CHECK_FALSE(std::is_sorted(mine.begin(), mine.end()));
  std::sort(mine.begin(), mine.end());
  indices block(10);
  std::iota(block.begin(), block.end(), 20);
  CHECK(mine == block);
}

TEST_CASE("split all gives every worker the whole set, each in its own order") {
  sampling options{.samples = 40, .batch_size = 10, .workers = 2, .how = split::all, .seed = 1};
  const indices first = samples_of_epoch(options);
  options.rank = 1;
  const indices second = samples_of_epoch(options);
  CHECK(first != second);
  CHECK(first.size() == 40);
  CHECK(distinct_below(first, 40));
  CHECK(distinct_below(second, 40));
}

TEST_CASE("with one worker all splits agree") {
  sampling options{.samples = 40, .batch_size = 10, .seed = 1};
  const indices strided = samples_of_epoch(options);
  for (const split how : {split::contiguous, split::all}) {
    options.how = how;
    CHECK(samples_of_epoch(options) == strided);
  }
}

TEST_CASE("the order is a function of seed and epoch, whatever was asked before") {
  const sampling options{.samples = 50, .batch_size = 5, .seed = 3};
  CHECK(samples_of_epoch(options, 0) != samples_of_epoch(options, 1));
  CHECK(samples_of_epoch(options, 1) == samples_of_epoch(options, 1));
  CHECK(samples_of_epoch(options, 0) != samples_of_epoch({.samples = 50, .batch_size = 5, .seed = 4}, 0));
  sampler forwards{options}, jumping{options};
  for (std::uint64_t step = 0; step < 25; ++step) forwards.batch_at(step);
  CHECK(jumping.batch_at(25) == forwards.batch_at(25));
  CHECK(jumping.batch_at(3) == sampler{options}.batch_at(3));
}

TEST_CASE("several batches at once are those that come one by one, and stop at the end of the epoch") {
  for (const split how : {split::strided, split::contiguous, split::all}) {
    const sampling options{.samples = 47, .batch_size = 3, .rank = 1, .workers = 2, .how = how, .seed = 6};
    sampler at_once{options}, one_by_one{options};
    const auto steps = static_cast<std::uint64_t>(at_once.steps_per_epoch());
    for (std::uint64_t step = 0; step < 3 * steps; ++step) {
      for (const std::uint64_t most : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4}, ~std::uint64_t{0}}) {
        const auto given = at_once.batches_at(step, most);
        indices wanted;
        for (std::uint64_t next = step; next < step + std::min(most, steps - step % steps); ++next) {
          const indices batch = one_by_one.batch_at(next);
          wanted.insert(wanted.end(), batch.begin(), batch.end());
        }
        CHECK(indices{given.begin(), given.end()} == wanted);
      }
    }
  }
}

namespace {

// The same as samples_of_epoch(), for any sizes of the batches.
std::vector<indices> batches_of(const sampling& options, std::uint64_t epoch = 0) {
  sampler walk{options};
  const auto steps = static_cast<std::uint64_t>(walk.steps_per_epoch());
  std::vector<indices> all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    all.push_back(walk.batch_at(epoch * steps + step));
    CHECK(static_cast<std::int64_t>(all.back().size()) == batch_size_at(options, epoch * steps + step));
  }
  return all;
}

indices joined(const std::vector<indices>& batches) {
  indices all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace

TEST_CASE("without drop_last an epoch keeps its last, smaller batch") {
  const sampling mnist{.samples = 60000, .batch_size = 64, .drop_last = false};
  CHECK(steps_per_epoch(mnist) == 938);
  CHECK(last_batch_size(mnist) == 32);
  CHECK(batch_size_at(mnist, 936) == 64);
  CHECK(batch_size_at(mnist, 937) == 32);
  CHECK(batch_size_at(mnist, 938) == 64);
  CHECK(batch_size_at(mnist, 2 * 938 - 1) == 32);
  CHECK(last_batch_size({.samples = 64, .batch_size = 16, .drop_last = false}) == 16);
  CHECK(last_batch_size({.samples = 70, .batch_size = 16}) == 16);
  CHECK(steps_per_epoch({.samples = 9, .batch_size = 16, .drop_last = false}) == 1);
  CHECK(batches_of({.samples = 5, .batch_size = 2, .shuffle = false, .drop_last = false}) ==
        std::vector<indices>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("every sample of a share is seen once an epoch, in every split, and shares are equal") {
  const auto given =
      std::make_shared<sample_shards>(sample_shards{{0, 3, 6, 9, 12}, {1, 4, 7, 10, 13}, {2, 5, 8, 11, 14}});
  for (const split how : {split::strided, split::contiguous, split::all, split::given}) {
    for (const std::int64_t samples : {15, 16, 17}) {
      indices together;
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        const sampling options{.samples = samples,
                               .batch_size = 4,
                               .rank = rank,
                               .workers = 3,
                               .how = how,
                               .seed = 2,
                               .drop_last = false,
                               .shards = how == split::given ? given : nullptr};
        const auto mine = joined(batches_of(options, 1));
        CHECK(distinct_below(mine, samples));
        CHECK(static_cast<std::int64_t>(mine.size()) == (how == split::all ? samples : 5));
        together.insert(together.end(), mine.begin(), mine.end());
      }
      if (how != split::all) CHECK(distinct_below(together, samples));
    }
  }
}

TEST_CASE("batches kept at the end of an epoch leave those before them as they were") {
  sampling options{.samples = 47, .batch_size = 6, .rank = 1, .workers = 2, .seed = 3};
  const auto dropped = batches_of(options, 2);
  options.drop_last = false;
  auto kept = batches_of(options, 2);
  REQUIRE(kept.size() == dropped.size() + 1);
  CHECK(kept.back().size() == 5);
  kept.pop_back();
  CHECK(kept == dropped);
}

TEST_CASE("n strided batches are that of one worker, the last of an epoch too, where n divides the samples") {
  sampler whole{{.samples = 60, .batch_size = 24, .seed = 9, .drop_last = false}};
  std::vector<sampler> parts;
  for (std::int64_t rank = 0; rank < 3; ++rank)
    parts.emplace_back(
        sampling{.samples = 60, .batch_size = 8, .rank = rank, .workers = 3, .seed = 9, .drop_last = false});
  for (std::uint64_t step = 0; step < 6; ++step) {
    indices together = whole.batch_at(step);
    CHECK(together.size() == (step % 3 == 2 ? 12 : 24));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto part = parts[rank].batch_at(step);
      for (std::size_t i = 0; i < part.size(); ++i) CHECK(part[i] == together.at(3 * i + rank));
    }
  }
}

TEST_CASE("several batches at once end with the smaller one of the epoch") {
  const sampling options{.samples = 47, .batch_size = 3, .rank = 1, .workers = 2, .seed = 6, .drop_last = false};
  sampler at_once{options}, one_by_one{options};
  CHECK(at_once.steps_per_epoch() == 8);  // 23 = 7 · 3 + 2
  for (std::uint64_t step = 0; step < 24; ++step) {
    for (const std::uint64_t most : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4}, ~std::uint64_t{0}}) {
      const auto given = at_once.batches_at(step, most);
      indices wanted;
      for (std::uint64_t next = step; next < step + std::min(most, 8 - step % 8); ++next) {
        const indices batch = one_by_one.batch_at(next);
        wanted.insert(wanted.end(), batch.begin(), batch.end());
      }
      CHECK(indices{given.begin(), given.end()} == wanted);
    }
  }
}

// The result of torch.utils.data.DistributedSampler(range(10), 4, rank, shuffle=False), and of range(2) for 5.
TEST_CASE("a padded epoch begins again at its front until all shares are equal") {
  const auto of = [](std::int64_t samples, std::int64_t workers, std::int64_t rank) {
    return joined(batches_of({.samples = samples,
                              .batch_size = 2,
                              .rank = rank,
                              .workers = workers,
                              .shuffle = false,
                              .drop_last = false,
                              .pad = true}));
  };
  CHECK(of(10, 4, 0) == indices{0, 4, 8});
  CHECK(of(10, 4, 1) == indices{1, 5, 9});
  CHECK(of(10, 4, 2) == indices{2, 6, 0});
  CHECK(of(10, 4, 3) == indices{3, 7, 1});
  for (std::int64_t rank = 0; rank < 5; ++rank) CHECK(of(2, 5, rank) == indices{rank % 2});
  CHECK(of(8, 4, 3) == indices{3, 7});
}

TEST_CASE("a padded epoch is its permutation over and over") {
  const sampling alone{.samples = 13, .batch_size = 13, .seed = 4};
  for (const std::int64_t workers : {2, 5, 20}) {
    for (const std::uint64_t epoch : {0, 3}) {
      const auto permutation = joined(batches_of(alone, epoch));
      for (std::int64_t rank = 0; rank < workers; ++rank) {
        const auto mine = joined(batches_of({.samples = 13,
                                             .batch_size = 2,
                                             .rank = rank,
                                             .workers = workers,
                                             .seed = 4,
                                             .drop_last = false,
                                             .pad = true},
                                            epoch));
        REQUIRE(static_cast<std::int64_t>(mine.size()) == (13 + workers - 1) / workers);
        for (std::size_t i = 0; i < mine.size(); ++i)
          CHECK(mine[i] == permutation[(static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(workers)) % 13]);
      }
    }
  }
  CHECK_THROWS_AS((sampler{{.samples = 9, .workers = 2, .how = split::contiguous, .pad = true}}),
                  std::invalid_argument);
}

// Fisher and Yates with draws by SplitMix64 and Lemire's rule, worked out by a separate program in another language.
TEST_CASE("a permutation is the same for ever") {
  CHECK(samples_of_epoch({.samples = 12, .batch_size = 12, .seed = 1}) ==
        indices{2, 7, 3, 8, 9, 10, 1, 5, 11, 4, 0, 6});
  CHECK(samples_of_epoch({.samples = 12, .batch_size = 12, .seed = 1}, 3) ==
        indices{5, 2, 0, 1, 10, 6, 7, 11, 3, 8, 9, 4});
}

TEST_CASE("a permutation is that of Fisher and Yates, one draw after the other") {
  for (const std::int64_t samples : {1, 2, 63, 64, 65, 66, 128, 129, 1000}) {
    indices wanted(static_cast<std::size_t>(samples));
    std::iota(wanted.begin(), wanted.end(), 0);
    random_stream stream{keyed(8, purpose::permutation, 2)};
    for (std::size_t last = wanted.size(); last > 1; --last) std::swap(wanted[last - 1], wanted[stream.below(last)]);
    CHECK(samples_of_epoch({.samples = samples, .seed = 8}, 2) == wanted);
  }
}

TEST_CASE("a bounded draw is uniform") {
  random_stream stream{keyed(7, purpose::permutation)};
  std::vector<int> counts(6);
  for (int draw = 0; draw < 60000; ++draw) ++counts[stream.below(6)];
  // The standard deviation of each count is sqrt(60000 · 1/6 · 5/6) = 91. The bound is five of them.
  for (const int count : counts) CHECK(std::abs(count - 10000) < 456);
}

}  // namespace sampler_test

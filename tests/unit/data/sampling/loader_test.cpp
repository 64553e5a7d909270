#include "troupe/data/sampling/loader.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace loader_test {

using namespace troupe::data;

namespace {

constexpr std::int64_t samples = 24, batch_size = 4;  // six steps an epoch
const augmentation crop_flip{.crop_padding = 2, .flip = 0.5};

/// Made-up files: all values of image i are i. They can be made to wait, and count the reads.
class made_up_files final : public image_files {
 public:
  std::vector<std::int64_t> shape() const override { return {3, 2, 2}; }

  void read(std::int64_t index, std::uint8_t* into) const override {
    {
      std::unique_lock lock{mutex_};
      ++reads_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
    }
    if (index == broken) throw data_error("folder/" + std::to_string(index) + ".png is no PNG");
    std::fill_n(into, 12, static_cast<std::uint8_t>(index));
  }

  std::string identity() const override { return "made up"; }
  std::shared_ptr<const image_files> chosen(const std::vector<std::int64_t>&) const override { return {}; }

  void hold(bool on) {
    const std::lock_guard lock{mutex_};
    held_ = on;
    changed_.notify_all();
  }

  /// Waits until so many reads have begun.
  void await(int reads) const {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return reads_ >= reads; });
  }

  int reads() const {
    const std::lock_guard lock{mutex_};
    return reads_;
  }

  std::int64_t broken{-1};

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int reads_{0};
  bool held_{false};
};

std::shared_ptr<const dataset> images() {
  return std::make_shared<dataset>(
      dataset{at::arange(samples * 3 * 8 * 8).remainder(253).to(at::kByte).reshape({samples, 3, 8, 8}),
              at::arange(samples),
              {}});
}

std::shared_ptr<const dataset> files_of(std::shared_ptr<const image_files> files) {
  dataset set{{}, at::arange(samples), {}};
  set.files = std::move(files);
  return std::make_shared<dataset>(std::move(set));
}

loader_options options_of(std::shared_ptr<const dataset> set, std::size_t threads) {
  return {.samples = std::move(set),
          .sampling = {.samples = samples, .batch_size = batch_size, .shuffle = true, .seed = 5},
          .seed = 5,
          .threads = std::make_shared<loader_threads>(threads)};
}

loader_options augmented(std::size_t threads) {
  auto made = options_of(images(), threads);
  made.augment = crop_flip;
  return made;
}

}  // namespace

TEST_CASE("batches are the same from any number of threads") {
  const auto set = images();
  sampler order{augmented(0).sampling};
  for (const std::size_t threads : {0, 1, 3}) {
    CAPTURE(threads);
    loader one{augmented(threads)};
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto made = one.take(step);
      const auto expected = make_batch(*set, {}, order.batch_at(step), {&crop_flip, 5, step / 6});
      CHECK(made.inputs.equal(expected.inputs));
      CHECK(made.targets.equal(expected.targets));
    }
  }
}

TEST_CASE("the last batch of an epoch may be smaller, with threads and without") {
  const auto set = images();
  auto options = augmented(0);
  options.sampling = {.samples = samples, .batch_size = 5, .shuffle = true, .seed = 5, .drop_last = false};
  sampler order{options.sampling};
  for (const std::size_t threads : {0, 2}) {
    options.threads = std::make_shared<loader_threads>(threads);
    loader one{options};
    for (std::uint64_t step = 0; step < 15; ++step) {
      const auto made = one.take(step);
      CHECK(made.targets.size(0) == (step % 5 == 4 ? 4 : 5));
      const auto expected = make_batch(*set, {}, order.batch_at(step), {&crop_flip, 5, step / 5});
      CHECK(made.inputs.equal(expected.inputs));
      CHECK(made.targets.equal(expected.targets));
    }
  }
}

TEST_CASE("each epoch changes images anew") {
  auto options = augmented(1);
  options.sampling.shuffle = false;
  loader one{options};
  const auto first = one.take(0), second = one.take(6);
  CHECK(first.targets.equal(second.targets));
  CHECK_FALSE(first.inputs.equal(second.inputs));
}

TEST_CASE("threads start with the first batch that is worth one") {
  auto options = options_of(images(), 2);
  loader plain{options};
  plain.take(0);
  CHECK(options.threads->started() == 0);  // the caller looks up a table by itself
  CHECK(plain.in_window() == 0);
  options.augment = crop_flip;
  loader changing{options};
  CHECK(options.threads->started() == 0);
  changing.take(0);
  CHECK(options.threads->started() == 2);
  auto for_device = options_of(images(), 1);
  std::atomic<int> asked{0};
  for_device.for_device = [&](at::IntArrayRef sizes, at::ScalarType type) {
    ++asked;
    return at::empty(sizes, at::dtype(type));
  };
  loader pinned{for_device};
  pinned.take(0);
  CHECK(for_device.threads->started() == 1);  // the device computes while they work
  CHECK(asked >= 2);
  CHECK(pinned.allocated() == 0);
}

TEST_CASE("the loader makes in advance the batches that it is told will follow") {
  const auto files = std::make_shared<made_up_files>();
  auto options = options_of(files_of(files), 1);
  options.ahead = 2;
  loader one{options}, plain{options};
  for (const auto& [number, next] : std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>{
           {2, {7}}, {7, {8, 3, 4}}, {8, {3}}, {3, {}}, {11, {}}})
    CHECK(one.take(number, next).targets.equal(plain.take(number, {}).targets));
  CHECK(one.in_window() == 0);
  CHECK(files->reads() == 2 * 5 * batch_size);
}

TEST_CASE("the window is bounded, and ends with the run") {
  const auto files = std::make_shared<made_up_files>();
  auto options = options_of(files_of(files), 1);
  options.ahead = 2;
  options.batches = 5;
  loader one{options};
  one.take(0);
  CHECK(one.in_window() == 2);
  files->await(3 * batch_size);
  one.take(1);
  one.take(2);
  CHECK(one.in_window() == 2);
  one.take(3);
  CHECK(one.in_window() == 1);
  one.take(4);
  CHECK(one.in_window() == 0);
  CHECK(files->reads() == 5 * batch_size);
  CHECK(one.take(5).targets.size(0) == batch_size);  // a caller that asks nevertheless gets it
}

TEST_CASE("a batch that no thread has begun is made by who takes it") {
  const auto files = std::make_shared<made_up_files>();
  const auto options = options_of(files_of(files), 1);
  loader busy{options}, other{options};
  // The only thread is blocked in the second batch of `busy`.
  busy.take(0);
  files->await(5 * batch_size);
  files->hold(true);
  std::thread let_go{[&] {
    files->await(5 * batch_size + 2);  // the thread, and the caller that takes from `other`
    files->hold(false);
  }};
  busy.take(1);
  other.take(0);
  let_go.join();
  CHECK(other.in_window() == 4);
}

TEST_CASE("the CPU time of threads is that of the batches they have made") {
  const auto files = std::make_shared<made_up_files>();
  const auto options = options_of(files_of(files), 1);
  loader threaded{options};
  threaded.take(0);  // made by the caller
  CHECK(threaded.cpu_seconds_of_threads() == 0);
  files->await(5 * batch_size);
  threaded.take(1);
  CHECK(threaded.cpu_seconds_of_threads() > 0);
  loader alone{options_of(files_of(files), 0)};
  alone.take(0);
  alone.take(1);
  CHECK(alone.cpu_seconds_of_threads() == 0);
}

TEST_CASE("what a file's reader throws comes out at the step of its sample") {
  for (const std::size_t threads : {0, 2}) {
    CAPTURE(threads);
    const auto files = std::make_shared<made_up_files>();
    auto options = options_of(files_of(files), threads);
    options.sampling.shuffle = false;
    files->broken = 9;  // of step 2
    loader one{options};
    CHECK(one.take(0).inputs.size(0) == batch_size);
    CHECK(one.take(1).inputs[0][0][0][0].item<float>() == 4 / 255.f);
    CHECK_THROWS_WITH_AS(one.take(2), "folder/9.png is no PNG", data_error);
    CHECK(one.take(3).targets[0].item<std::int64_t>() == 12);
    CHECK_THROWS_AS(one.take(2), data_error);
  }
}

TEST_CASE("a jump throws the window away") {
  loader jumping{augmented(2)}, steady{augmented(0)};
  std::vector<batch> expected;
  for (std::uint64_t step = 0; step < 30; ++step) expected.push_back(steady.take(step));
  for (const std::uint64_t step : {0, 1, 17, 18, 3, 3, 4, 29, 0}) {
    CAPTURE(step);
    const auto made = jumping.take(step);
    CHECK(made.inputs.equal(expected[step].inputs));
    CHECK(made.targets.equal(expected[step].targets));
  }
}

TEST_CASE("memory is used again once nobody holds the batch") {
  auto options = augmented(1);
  options.ahead = 2;
  loader one{options};
  const auto held = one.take(0);
  const auto copy = held.inputs.clone();
  const auto part = one.take(1).inputs.narrow(0, 1, 2);  // also holds its batch
  const auto copy_of_part = part.clone();
  for (std::uint64_t step = 2; step < 50; ++step) one.take(step);
  CHECK(held.inputs.equal(copy));
  CHECK(part.equal(copy_of_part));
  CHECK(one.allocated() <= 2 * 6);  // inputs and targets: two held, one at hand, two made ahead and one under way
}

TEST_CASE("a loader that ends leaves its jobs to nobody") {
  const auto files = std::make_shared<made_up_files>();
  const auto options = options_of(files_of(files), 1);
  {
    loader one{options};
    one.take(0);
  }
  loader after{options};
  CHECK(after.take(3).targets.size(0) == batch_size);
}

TEST_CASE("numbers and characters are gathered as they are") {
  const dataset numbers{at::arange(6, at::kFloat).reshape({3, 2}), at::tensor({0.5, 1.5, 2.5}, at::kFloat), {}};
  const auto some = make_batch(numbers, {{0.5}, {0.5}}, {2, 0});
  CHECK(some.inputs.equal(at::tensor({4, 5, 0, 1}, at::kFloat).reshape({2, 2})));
  CHECK(some.targets.equal(at::tensor({2.5, 0.5}, at::kFloat)));
  const dataset text{at::arange(8).reshape({2, 4}), at::arange(1, 9).reshape({2, 4}), {}};
  const auto line = make_batch(text, {}, {1, 1});
  CHECK(line.inputs.equal(at::tensor({4, 5, 6, 7, 4, 5, 6, 7}, at::kLong).reshape({2, 4})));
  CHECK(line.targets.equal(at::tensor({5, 6, 7, 8, 5, 6, 7, 8}, at::kLong).reshape({2, 4})));
}

}  // namespace loader_test

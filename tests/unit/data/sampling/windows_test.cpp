// Windows of a text at random positions: their positions, what these depend on, and which part is held out.
#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/sampling/augment.hpp"
#include "troupe/data/sampling/loader.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/data/sets/hold_out.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <unistd.h>

namespace windows_test {

using namespace troupe::data;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t window = 10, characters = 101;

/// Ten windows of a text in which each character is its own position.
dataset_pair positions() {
  const auto text = at::arange(characters);
  const auto set = std::make_shared<dataset>(dataset{.inputs = text.narrow(0, 0, 100).view({10, window}),
                                                     .targets = text.narrow(0, 1, 100).view({10, window}),
                                                     .classes{},
                                                     .drawn_from = text});
  return {.train = set, .test = set, .scale{}, .files{}};
}

loader_options options_of(const dataset_pair& sets, std::int64_t workers = 1, std::int64_t rank = 0) {
  return {.samples = sets.train,
          .sampling = {.samples = sets.train->size(),
                       .batch_size = 2,
                       .rank = rank,
                       .workers = workers,
                       .shuffle = false,
                       .seed = 3},
          .seed = 3};
}

/// Returns the first positions of the windows of so many steps.
std::vector<std::int64_t> beginnings(const loader_options& options, std::uint64_t steps) {
  loader one{options};
  std::vector<std::int64_t> all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto made = one.take(step);
    CHECK(made.targets.equal(made.inputs + 1));
    for (std::int64_t i = 0; i < made.inputs.size(0); ++i) {
      const auto first = made.inputs[i][0].item<std::int64_t>();
      CHECK(made.inputs[i].equal(at::arange(first, first + window)));
      all.push_back(first);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("training windows begin anywhere that leaves a target for their last character, all places alike") {
  constexpr int draws = 9100;
  std::vector<int> counts(characters - window);
  for (const auto first : beginnings(options_of(positions()), draws / 2)) ++counts.at(static_cast<std::size_t>(first));
  // 100 of each are expected. The standard deviation is sqrt(9100 · 1/91 · 90/91) = 9.9. The bound is five of them.
  for (const int count : counts) CHECK(std::abs(count - 100) < 50);
}

TEST_CASE("a window is a function of seed, epoch and sample, not of who asks") {
  const auto sets = positions();
  const auto alone = beginnings(options_of(sets), 20);
  CHECK(alone == beginnings(options_of(sets), 20));
  const std::vector<std::int64_t> first(alone.begin(), alone.begin() + 10),
      second(alone.begin() + 10, alone.begin() + 20);
  CHECK(first != second);  // another epoch
  auto other = options_of(sets);
  other.seed = 4;
  CHECK(beginnings(other, 5) != first);
  // The first of two workers has the samples 0, 2, 4 …, the second has 1, 3, 5 …
  for (const std::size_t rank : {0, 1}) {
    const auto mine = beginnings(options_of(sets, 2, static_cast<std::int64_t>(rank)), 2);
    for (std::size_t i = 0; i < mine.size(); ++i) CHECK(mine[i] == first[2 * i + rank]);
  }
}

TEST_CASE("evaluation takes the windows that follow each other") {
  const auto made = make_batch(*positions().test, {}, {0, 3});
  CHECK(made.inputs.equal(at::cat({at::arange(10), at::arange(30, 40)}).view({2, window})));
  CHECK(made.targets.equal(made.inputs + 1));
}

TEST_CASE("what is held out of such a text is its end, and no training window reaches into it") {
  auto sets = positions();
  hold_out(sets, 0.35, 5);
  CHECK(sets.train->size() == 7);
  CHECK(sets.test->size() == 3);
  CHECK(sets.test->inputs.equal(at::arange(70, 100).view({3, window})));
  CHECK(sets.test->targets.equal(at::arange(71, 101).view({3, window})));
  CHECK_FALSE(sets.test->drawn_from.defined());
  const auto all = beginnings(options_of(sets), 900);
  CHECK(std::set(all.begin(), all.end()).size() == 61);  // 0 to 60: the last target is character 70
  CHECK(*std::max_element(all.begin(), all.end()) == 60);
  CHECK(make_batch(*sets.train, {}, {6}).inputs.equal(at::arange(60, 70).view({1, window})));
}

TEST_CASE("a text is drawn from where its source says so, but never the test text") {
  const troupe::testing::scratch folder;
  const auto file = folder.write("text", "abcabcab");
  data_source from;
  from.file = from.test_file = file;
  from.sequence_length = 3;
  const auto& text = *find_dataset("text");
  CHECK_FALSE(text.load(from).train->drawn_from.defined());
  from.random_windows = true;
  const auto sets = text.load(from);
  CHECK(sets.train->drawn_from.equal(at::tensor({0, 1, 2, 0, 1, 2, 0, 1}, at::kLong)));
  CHECK_FALSE(sets.test->drawn_from.defined());
  CHECK(sets.train->size() == 2);
}

}  // namespace windows_test

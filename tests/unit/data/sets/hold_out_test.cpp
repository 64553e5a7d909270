#include "troupe/data/sets/hold_out.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace hold_out_test {

using namespace troupe::data;
namespace fs = std::filesystem;

namespace {

dataset_pair numbered(std::int64_t count) {
  auto set = std::make_shared<dataset>(dataset{
      .inputs = at::arange(count, at::kFloat).view({count, 1}), .targets = at::arange(count, at::kLong), .classes{}});
  return {.train = set, .test = set, .scale{}, .files{}};
}

}  // namespace

TEST_CASE("a seeded part of the training samples is evaluated and the rest trained on") {
  auto sets = numbered(100);
  hold_out(sets, 0.25, 5);
  CHECK(sets.train->size() == 75);
  CHECK(sets.test->size() == 25);
  const auto both = at::cat({sets.train->targets, sets.test->targets});
  CHECK(std::get<0>(both.sort()).equal(at::arange(100, at::kLong)));
  CHECK(sets.test->inputs.view({25}).equal(sets.test->targets.to(at::kFloat)));
  auto same = numbered(100), other = numbered(100);
  hold_out(same, 0.25, 5);
  hold_out(other, 0.25, 6);
  CHECK(same.test->targets.equal(sets.test->targets));
  CHECK(!other.test->targets.equal(sets.test->targets));
}

TEST_CASE("a part that leaves no sample on one side is refused") {
  for (const double fraction : {0.01, 0.09}) {
    auto sets = numbered(10);
    CHECK_THROWS_WITH_AS(
        hold_out(sets, fraction, 1),
        "data.validation holds out 0 of 10 training samples; expected a share that leaves at least one "
        "sample in each of the two sets",
        data_error);
  }
  auto one = numbered(1);
  CHECK_THROWS_AS(hold_out(one, 0.99, 1), data_error);
}

TEST_CASE("sparse rows that are held out stay where they are") {
  const std::vector<std::int64_t> offsets{0, 1, 3, 3, 6};
  const std::vector<std::int32_t> cells{7, 0, 1, 2, 0, 0, 0, 1, 2, 0, 0, 0};
  const auto owner = std::make_shared<int>(0);
  const sparse_rows all{4, 8, offsets.data(), cells.data(), owner};
  const auto some = all.chosen({3, 1, 0});
  CHECK(some->rows() == 3);
  CHECK(some->columns() == 8);
  CHECK(some->nonzeros() == 6);
  CHECK(some->at(0).columns == all.at(3).columns);
  CHECK(some->at(0).count == 3);
  const auto fewer = some->chosen({2, 0});
  CHECK(fewer->nonzeros() == 4);
  CHECK(fewer->at(0).columns == cells.data());
  CHECK(fewer->at(1).values == all.at(3).values);
  CHECK(owner.use_count() == 3);
}

TEST_CASE("sparse rows are held out with their columns") {
  data_source from;
  from.rows = 50;
  from.columns = 30;
  from.nonzeros = 4;
  auto sets = find_dataset("sparse")->load(from);
  const auto all = sets.train;
  hold_out(sets, 0.2, 1);
  CHECK(sets.test->rows->rows() == 10);
  CHECK(sets.train->rows->rows() == 40);
  CHECK(sets.train->rows->columns() == 30);
  CHECK(sets.train->rows->nonzeros() + sets.test->rows->nonzeros() == all->rows->nonzeros());
  // Find the row of the whole set with the columns and values of the first training row.
  const auto first = sets.train->rows->at(0);
  bool found = false;
  for (std::int64_t index = 0; index < 50 && !found; ++index) {
    const auto row = all->rows->at(index);
    found = row.count == first.count && std::equal(row.columns, row.columns + row.count, first.columns) &&
            std::equal(row.values, row.values + row.count, first.values);
  }
  CHECK(found);
}

}  // namespace hold_out_test

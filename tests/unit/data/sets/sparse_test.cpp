#include "tests/support/doctest.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/data/sets/sparsity.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace sparse_test {

using namespace troupe::data;

namespace {

using row_list = std::vector<std::vector<std::int32_t>>;

// Rows of these columns; the value of nonzero i of row r is 10 r + i + 1.
std::shared_ptr<const sparse_rows> rows_of(const row_list& list, std::int64_t columns) {
  struct storage {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> cells;
  };
  const auto kept = std::make_shared<storage>();
  for (std::size_t row = 0; row < list.size(); ++row) {
    kept->cells.insert(kept->cells.end(), list[row].begin(), list[row].end());
    for (std::size_t index = 0; index < list[row].size(); ++index) {
      const auto value = static_cast<float>(10 * row + index + 1);
      std::memcpy(&kept->cells.emplace_back(), &value, sizeof(value));
    }
    kept->offsets.push_back(kept->offsets.back() + static_cast<std::int64_t>(list[row].size()));
  }
  return std::make_shared<sparse_rows>(static_cast<std::int64_t>(list.size()), columns, kept->offsets.data(),
                                       kept->cells.data(), kept);
}

dataset tiny() {
  return {.inputs{},
          .targets = at::tensor({1, 0, 1}, at::kLong),
          .classes = {"a", "b"},
          .rows = rows_of({{0, 3}, {}, {1, 2, 4}}, 5)};
}

// Computed as the paper defines them, from every pair of rows.
sparsity by_definition(const row_list& list, std::int64_t columns) {
  sparsity found;
  std::vector<std::size_t> degrees(static_cast<std::size_t>(columns));
  std::size_t met_most = 0, nonzeros = 0;
  for (const auto& row : list) {
    found.omega = std::max(found.omega, static_cast<std::int64_t>(row.size()));
    nonzeros += row.size();
    for (const auto column : row) ++degrees[static_cast<std::size_t>(column)];
    std::size_t met = 0;
    for (const auto& other : list) {
      met += std::find_first_of(row.begin(), row.end(), other.begin(), other.end()) != row.end() ? 1 : 0;
    }
    met_most = std::max(met_most, met);
  }
  const auto all = static_cast<double>(list.size());
  found.delta = static_cast<double>(*std::max_element(degrees.begin(), degrees.end())) / all;
  found.rho = static_cast<double>(met_most) / all;
  found.mean_nonzeros = static_cast<double>(nonzeros) / all;
  return found;
}

data_source small_source() {
  data_source from;
  from.rows = 400;
  from.columns = 60;
  from.nonzeros = 7;
  from.seed = 11;
  return from;
}

dataset_pair make(const data_source& from) {
  return find_dataset("sparse")->load(from);
}

bool same(const sparse_rows& a, const sparse_rows& b, std::int64_t rows) {
  for (std::int64_t index = 0; index < rows; ++index) {
    const auto left = a.at(index), right = b.at(index);
    if (left.count != right.count || !std::equal(left.columns, left.columns + left.count, right.columns) ||
        !std::equal(left.values, left.values + left.count, right.values)) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a batch of sparse rows is a CSR tensor of the rows asked for, in that order") {
  const batch made = make_batch(tiny(), {{0.5}, {2.0}}, {2, 0, 1, 2});
  CHECK((made.inputs.layout() == at::kSparseCsr));
  CHECK((made.inputs.scalar_type() == at::kFloat));
  CHECK(made.inputs.sizes() == at::IntArrayRef{4, 5});
  CHECK(at::equal(made.inputs.crow_indices(), at::tensor({0, 3, 5, 5, 8}, at::kInt)));
  CHECK(at::equal(made.inputs.col_indices(), at::tensor({1, 2, 4, 0, 3, 1, 2, 4}, at::kInt)));
  CHECK(at::equal(made.inputs.values(), at::tensor({21, 22, 23, 1, 2, 21, 22, 23}, at::kFloat)));
  CHECK(at::equal(made.targets, at::tensor({1, 1, 0, 1}, at::kLong)));
  CHECK(made.inputs.to_dense()[1][3].item<float>() == 2);
}

TEST_CASE("a sparse sample that the set does not have is refused, and no sample is a batch of none") {
  CHECK_THROWS_AS(make_batch(tiny(), {}, {3}), std::out_of_range);
  CHECK_THROWS_AS(make_batch(tiny(), {}, {0, -1}), std::out_of_range);
  const batch none = make_batch(tiny(), {}, {});
  CHECK(none.inputs.sizes() == at::IntArrayRef{0, 5});
  CHECK(none.targets.size(0) == 0);
}

TEST_CASE("targets keep their dtype") {
  dataset numbers = tiny();
  numbers.targets = at::tensor({0.5, 1.5, 2.5}, at::kFloat);
  CHECK(at::equal(make_batch(numbers, {}, {2, 0}).targets, at::tensor({2.5, 0.5}, at::kFloat)));
  const dataset images{
      .inputs = at::zeros({2, 1, 1, 1}, at::kByte), .targets = at::tensor({3.5, 4.5}, at::kFloat), .classes{}};
  CHECK(at::equal(make_batch(images, {}, {1}).targets, at::tensor({4.5}, at::kFloat)));
}

TEST_CASE("the built-in sparse set has the rows, columns and nonzeros asked for, of unit length") {
  for (const double skew : {1.0, 1.3, 3.0}) {
    CAPTURE(skew);
    data_source from = small_source();
    from.skew = skew;
    const dataset_pair pair = make(from);
    CHECK(pair.sample_shape == std::vector<std::int64_t>{60});
    CHECK(pair.train->size() == 400);
    CHECK(pair.test->size() == 40);
    CHECK(pair.train->classes.size() == 2);
    for (const dataset* set : {pair.train.get(), pair.test.get()}) {
      REQUIRE(set->rows->rows() == set->size());
      CHECK(set->rows->columns() == 60);
      CHECK(set->rows->nonzeros() == 7 * set->size());
      for (std::int64_t index = 0; index < set->size(); ++index) {
        const auto row = set->rows->at(index);
        REQUIRE(row.count == 7);
        CHECK(std::is_sorted(row.columns, row.columns + 7, std::less_equal<>{}));  // strictly ascending
        CHECK((row.columns[0] >= 0 && row.columns[6] < 60));
        double squares = 0;
        for (std::int64_t nonzero = 0; nonzero < 7; ++nonzero) {
          CHECK(row.values[nonzero] > 0);
          squares += static_cast<double>(row.values[nonzero]) * row.values[nonzero];
        }
        CHECK(squares == doctest::Approx(1));
      }
    }
  }
}

TEST_CASE("a row of the built-in sparse set is a function of the seed and its index") {
  data_source from = small_source();
  const dataset_pair whole = make(from), again = make(from);
  CHECK(same(*whole.train->rows, *again.train->rows, 400));
  CHECK(at::equal(whole.train->targets, again.train->targets));
  from.rows = 50;
  const dataset_pair fewer = make(from);
  CHECK(same(*whole.train->rows, *fewer.train->rows, 50));
  CHECK(at::equal(whole.train->targets.narrow(0, 0, 50), fewer.train->targets));
  CHECK_FALSE(same(*whole.train->rows, *whole.test->rows, 40));
  from.seed = 12;
  CHECK_FALSE(same(*fewer.train->rows, *make(from).train->rows, 50));
}

TEST_CASE("without skew all columns are alike, with it some are in many rows") {
  data_source from = small_source();
  from.rows = 6000;
  std::vector<std::int64_t> by_column = touches(*make(from).train->rows);
  // 6000 rows, each with a column with probability 7/60: 700, with a standard deviation of 25. The bound is five of
  // them.
  for (const std::int64_t count : by_column) CHECK(std::abs(count - 700) < 125);
  from.skew = 3;
  by_column = touches(*make(from).train->rows);
  std::sort(by_column.begin(), by_column.end());
  // A draw is the most frequent column with probability (1/60)^(1/3) = 0.26, and the least frequent with 0.0056.
  CHECK(by_column.back() > 4800);
  CHECK(by_column.front() < 400);
}

TEST_CASE("labels of the built-in sparse set are even, and a plane tells them apart but for the flipped ones") {
  for (const double skew : {1.0, 3.0}) {
    data_source from = small_source();
    from.rows = 4000;
    from.skew = skew;
    const dataset_pair pair = make(from);
    const double above = pair.train->targets.to(at::kFloat).mean().item<double>();
    CHECK(above == doctest::Approx(0.5).epsilon(0.12));
    // An averaged perceptron suffices to find the plane.
    std::vector<double> weights(61), mean(61);
    const auto margin = [](const std::vector<double>& at, const sparse_rows::row& row) {
      double sum = at[60];
      for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero)
        sum += at[static_cast<std::size_t>(row.columns[nonzero])] * row.values[nonzero];
      return sum;
    };
    const auto* target = pair.train->targets.const_data_ptr<std::int64_t>();
    for (int epoch = 0; epoch < 10; ++epoch) {
      for (std::int64_t index = 0; index < 4000; ++index) {
        const auto row = pair.train->rows->at(index);
        if ((margin(weights, row) > 0) != (target[index] == 1)) {
          const double sign = target[index] == 1 ? 1 : -1;
          weights[60] += 0.3 * sign;
          for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero)
            weights[static_cast<std::size_t>(row.columns[nonzero])] += sign * row.values[nonzero];
        }
        for (std::size_t at = 0; at < 61; ++at) mean[at] += weights[at];
      }
    }
    std::int64_t right = 0;
    const auto* wanted = pair.test->targets.const_data_ptr<std::int64_t>();
    for (std::int64_t index = 0; index < 400; ++index)
      right += (margin(mean, pair.test->rows->at(index)) > 0) == (wanted[index] == 1) ? 1 : 0;
    CHECK(right > 350);
    CHECK(right < 397);
  }
}

TEST_CASE("a row may have every column") {
  data_source from = small_source();
  from.rows = 5;
  from.nonzeros = from.columns;
  from.skew = 1;
  const dataset_pair pair = make(from);
  const auto row = pair.train->rows->at(4);
  for (std::int32_t column = 0; column < 60; ++column) CHECK(row.columns[column] == column);
}

TEST_CASE("a sparse set that cannot be made is refused by the key that is wrong") {
  const auto told = [](const auto& change) -> std::string {
    data_source from = small_source();
    change(from);
    try {
      make(from);
    } catch (const data_error& error) {
      return error.what();
    }
    return "no failure";
  };
  CHECK(told([](auto& from) { from.rows = 0; }) == "data.rows = 0 is out of range; expected 1 to 2147483646");
  CHECK(told([](auto& from) { from.columns = -1; }).find("data.columns = -1") != std::string::npos);
  CHECK(told([](auto& from) { from.nonzeros = 61; }) ==
        "data.nonzeros = 61 is not from 1 to data.columns, which is 60; use at most 60");
  CHECK(told([](auto& from) {
          from.skew = 4;
          from.nonzeros = 31;
        }).find("expected at most half as many nonzeros") != std::string::npos);
  CHECK(told([](auto& from) { from.skew = 0.5; }).find("expected 1 to 16") != std::string::npos);
  CHECK(told([](auto& from) { from.skew = std::nan(""); }).find("expected 1 to 16") != std::string::npos);
  CHECK(told([](auto& from) { from.rows = from.columns = from.nonzeros = 2'000'000'000; }).find("nonzeros in total") !=
        std::string::npos);
}

TEST_CASE("Ω, Δ and ρ of rows that can be counted by hand") {
  // Row 0 meets itself, 1 and 2; row 3 only itself; row 4 is empty and meets none.
  const sparsity found = sparsity_of(*rows_of({{0, 1}, {1, 2, 3}, {0}, {5}, {}}, 7));
  CHECK(found.omega == 3);
  CHECK(found.delta == doctest::Approx(2.0 / 5));
  CHECK(found.rho == doctest::Approx(3.0 / 5));
  CHECK(found.rho_is_exact);
  CHECK(found.mean_nonzeros == doctest::Approx(7.0 / 5));
  CHECK(touches(*rows_of({{0, 1}, {1, 2, 3}, {0}, {5}, {}}, 7)) == std::vector<std::int64_t>{2, 2, 1, 1, 0, 1, 0});
}

TEST_CASE("Ω, Δ and ρ are those of the definition, whatever the shape") {
  random_stream stream{keyed(1, purpose::sparse)};
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t columns = 1 + stream.below(round % 3 == 0 ? 5 : 80), rows = 1 + stream.below(60);
    const std::uint64_t most = stream.below(std::min<std::uint64_t>(columns, 9) + 1);
    row_list list;
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::set<std::int32_t> drawn;
      for (std::uint64_t left = stream.below(most + 1); left > 0; --left) {
        const double u = stream.between(0, 1);
        drawn.insert(static_cast<std::int32_t>((round % 2 == 0 ? u : u * u * u) * static_cast<double>(columns)));
      }
      list.emplace_back(drawn.begin(), drawn.end());
    }
    const auto shape = static_cast<std::int64_t>(columns);
    const sparsity found = sparsity_of(*rows_of(list, shape)), wanted = by_definition(list, shape);
    CAPTURE(round);
    CHECK(found.omega == wanted.omega);
    CHECK(found.delta == wanted.delta);
    CHECK(found.rho == wanted.rho);
    CHECK(found.mean_nonzeros == wanted.mean_nonzeros);
    CHECK(found.rho_is_exact);
    for (const std::int64_t budget : {0, 3, 20, 200}) {
      const sparsity some = sparsity_of(*rows_of(list, shape), budget);
      CHECK(some.rho <= wanted.rho);
      CHECK(some.rho >= some.delta);
      CHECK((!some.rho_is_exact || some.rho == wanted.rho));
    }
  }
}

TEST_CASE("a set without rows has no sparsity to speak of") {
  const sparsity found = sparsity_of(*rows_of({}, 3));
  CHECK(found.omega == 0);
  CHECK(found.rho == 0);
}

}  // namespace sparse_test

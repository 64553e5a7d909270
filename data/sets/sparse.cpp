// The built-in sparse set: rows of unit length, like texts whose words are weighted (tf-idf), and labels from a hidden
// plane. A row is a function of (seed, set, index) only. Numbers are computed with + - * / and square roots only, so
// that all machines make the same bytes.
#include "troupe/data/formats/huge_pages.hpp"
#include "troupe/data/formats/memory.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

namespace troupe::data {

namespace {

constexpr double flipped = 0.05;       // share of the labels that are flipped
constexpr std::int64_t pilots = 1001;  // number of rows that determine where the plane lies

// The second word of a key.
enum key : std::uint64_t { train_row, test_row, pilot_row, weight, order };

random_stream stream_of(const data_source& from, key what, std::int64_t index = 0) {
  return random_stream{keyed(from.seed, purpose::sparse, what, static_cast<std::uint64_t>(index))};
}

void check(const data_source& from) {
  const auto refuse = [](const std::string& text) { throw data_error(text); };
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 1;
  if (from.rows < 1 || from.rows > most) {
    refuse("data.rows = " + std::to_string(from.rows) + " is out of range; expected 1 to " + std::to_string(most));
  }
  if (from.columns < 1 || from.columns > most) {
    refuse("data.columns = " + std::to_string(from.columns) + " is out of range; expected 1 to " +
           std::to_string(most));
  }
  if (from.nonzeros < 1 || from.nonzeros > from.columns) {
    refuse("data.nonzeros = " + std::to_string(from.nonzeros) + " is not from 1 to data.columns, which is " +
           std::to_string(from.columns) + "; use at most " + std::to_string(from.columns));
  }
  if (from.skew > 1 && from.nonzeros > std::max<std::int64_t>(1, from.columns / 2)) {
    refuse("data.nonzeros = " + std::to_string(from.nonzeros) + " with data.columns = " + std::to_string(from.columns) +
           " leaves no choice for a skew; expected at most half as many nonzeros as columns, or data.skew = 1");
  }
  constexpr std::int64_t most_nonzeros = std::int64_t{1} << 36;
  if (from.rows > most_nonzeros / from.nonzeros) {
    refuse("data.rows = " + std::to_string(from.rows) + " with data.nonzeros = " + std::to_string(from.nonzeros) +
           "; expected at most " + std::to_string(most_nonzeros) + " nonzeros in total");
  }
  // Memory of the training and the test set: offsets and targets of each row, columns and values of each nonzero, and
  // what each column needs while rows are drawn.
  const auto bytes = 1.1 * static_cast<double>(from.rows) * (16 + 8 * static_cast<double>(from.nonzeros)) +
                     static_cast<double>(from.columns) * (from.skew > 1 ? 16 : 8);
  if (const auto available = static_cast<double>(available_memory()); bytes > available) {
    const auto in_mib = [](double size) {
      return std::to_string(static_cast<std::int64_t>(size / (1 << 20))) + " MiB";
    };
    refuse("data.rows = " + std::to_string(from.rows) + " with data.columns = " + std::to_string(from.columns) +
           " and data.nonzeros = " + std::to_string(from.nonzeros) + " takes " + in_mib(bytes) +
           " of memory, but only " + in_mib(available) + " are available; reduce them");
  }
  if (!(from.skew >= 1 && from.skew <= 16)) refuse("data.skew = " + std::to_string(from.skew) + "; expected 1 to 16");
}

// Returns u^skew, with the skew in steps of 1/256: u^(1/2), u^(1/4) and so on for the bits after the binary point.
class power {
 public:
  explicit power(double skew) : whole_{static_cast<int>(skew)}, part_{static_cast<int>((skew - whole_) * 256)} {}

  double operator()(double u) const {
    double result = u, root = u;
    for (int times = 1; times < whole_; ++times) result *= u;
    for (int bits = part_; bits != 0; bits = bits << 1 & 0xff) {
      root = std::sqrt(root);
      if ((bits & 0x80) != 0) result *= root;
    }
    return result;
  }

 private:
  int whole_, part_;
};

class generator {
 public:
  explicit generator(const data_source& from)
      : from_{from}, power_{from.skew}, weights_(size(from.columns)), drawn_by_(size(from.columns)) {
    for (float& value : weights_) {
      value = static_cast<float>(stream_of(from, weight, &value - weights_.data()).between(-1, 1));
    }
    if (from.skew > 1) {  // which columns are in many rows is random, not a matter of their order
      order_.resize(size(from.columns));
      std::iota(order_.begin(), order_.end(), 0);
      random_stream stream = stream_of(from, order);
      for (std::size_t last = order_.size(); last > 1; --last) std::swap(order_[last - 1], order_[stream.below(last)]);
    }
    std::vector<double> margins;
    std::vector<std::int32_t> cells(size(2 * from.nonzeros));
    for (std::int64_t index = 0; index < pilots; ++index) {
      random_stream stream = stream_of(from, pilot_row, index);
      margins.push_back(draw(stream, cells.data()));
    }
    std::nth_element(margins.begin(), margins.begin() + pilots / 2, margins.end());
    middle_ = margins[pilots / 2];
  }

  std::shared_ptr<const dataset> make(key what, std::int64_t rows) {
    struct storage {
      std::vector<std::int64_t> offsets;
      huge_page_vector<std::int32_t> cells;
    };
    const auto kept = std::make_shared<storage>();
    kept->offsets.resize(size(rows + 1));
    kept->cells.resize(size(2 * rows * from_.nonzeros));
    const at::Tensor targets = at::empty({rows}, at::kLong);
    auto* target = targets.mutable_data_ptr<std::int64_t>();
    for (std::int64_t index = 0; index < rows; ++index) {
      random_stream stream = stream_of(from_, what, index);
      const bool above = draw(stream, kept->cells.data() + 2 * index * from_.nonzeros) > middle_;
      target[index] = above != (stream.between(0, 1) < flipped) ? 1 : 0;
      kept->offsets[size(index + 1)] = (index + 1) * from_.nonzeros;
    }
    return std::make_shared<dataset>(dataset{
        .inputs{},
        .targets = targets,
        .classes = {"below", "above"},
        .rows = std::make_shared<sparse_rows>(rows, from_.columns, kept->offsets.data(), kept->cells.data(), kept)});
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  // Fills in one row, columns and then values, and returns on which side of the hidden plane it lies and how far from
  // it.
  double draw(random_stream& stream, std::int32_t* columns) {
    ++row_;
    const std::int64_t count = from_.nonzeros;
    for (std::int64_t drawn = 0; drawn < count;) {
      const auto column = size(one(stream));
      if (drawn_by_[column] == row_) continue;
      drawn_by_[column] = row_;
      columns[drawn++] = static_cast<std::int32_t>(column);
    }
    std::sort(columns, columns + count);
    values_.resize(size(count));
    double squares = 0;
    for (float& value : values_) {
      value = static_cast<float>(stream.between(0.1, 1));
      squares += static_cast<double>(value) * value;
    }
    const double length = std::sqrt(squares);
    double margin = 0;
    for (std::size_t nonzero = 0; nonzero < values_.size(); ++nonzero) {
      values_[nonzero] = static_cast<float>(values_[nonzero] / length);
      margin += static_cast<double>(values_[nonzero]) * weights_[size(columns[nonzero])];
    }
    std::memcpy(columns + count, values_.data(), values_.size() * sizeof(float));
    return margin;
  }

  std::int64_t one(random_stream& stream) {
    if (order_.empty()) return static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(from_.columns)));
    return order_[size(static_cast<std::int64_t>(power_(stream.between(0, 1)) * static_cast<double>(from_.columns)))];
  }

  data_source from_;
  power power_;
  std::vector<float> weights_;          // weights of the hidden plane
  std::vector<std::int32_t> order_;     // columns, those in many rows first; empty if all are equally frequent
  std::vector<std::int64_t> drawn_by_;  // for each column, the row that drew it last
  std::int64_t row_{0};
  std::vector<float> values_;
  double middle_{0};  // where the plane lies: half the rows are above
};

}  // namespace

dataset_kind sparse() {
  return {.name = "sparse",
          .explanation = "sparse samples of two classes, generated by the program; needs no files",
          .folder = "",
          .sample_shape = {},
          .classes = 2,
          .published{},
          .load =
              [](const data_source& from) {
                check(from);
                generator source{from};
                dataset_pair pair{.train = source.make(train_row, from.rows),
                                  .test{},
                                  .scale{},
                                  .files{},
                                  .sample_shape = {from.columns}};
                pair.test = source.make(test_row, std::max<std::int64_t>(1, from.rows / 10));
                return pair;
              },
          .reads = {"rows", "columns", "nonzeros", "skew"},
          .draws = true};
}

}  // namespace troupe::data

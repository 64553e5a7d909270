// LIBSVM's text format (Chang, Lin 2011, "LIBSVM: a library for support vector machines"), with two classes: lines
// `label index:value index:value …`, indices ascending from 1, `#` before a comment.
#include "troupe/data/sets/row_files.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Each column has a weight: beyond this limit, a stray index would require gigabytes without indicating which line is
// at fault.
constexpr std::uint64_t largest_index = std::uint64_t{1} << 28;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

std::string label_text(float label) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), label).ptr;
  return {text.data(), end};
}

class libsvm_reader final : public sample_reader {
 public:
  libsvm_reader(const fs::path& file, const std::string& key, const row_context& context)
      : text_{file, key}, key_{key}, from_training_{context.labels.has_value()} {
    if (context.labels) labels_.assign(context.labels->begin(), context.labels->end());
  }

  bool next(sample& into) override {
    while (auto line = text_.next()) {
      rest_ = line->substr(0, line->find('#'));
      skip_spaces();
      if (rest_.empty()) continue;
      into.target = label(token());
      into.columns.clear();
      into.values.clear();
      before_ = 0;
      for (skip_spaces(); !rest_.empty(); skip_spaces()) pair(into);
      return true;
    }
    return false;
  }

  row_facts facts() const override {
    if (labels_.size() != 2) {
      throw data_error(text_.file().string() + ": every label is " + label_text(labels_.at(0)) +
                       "; expected two labels, such as -1 and 1, 0 and 1, or 1 and 2; set " + key_ +
                       " to a file with two classes");
    }
    const bool swapped = labels_[1] < labels_[0];
    return {.extents = {static_cast<std::int64_t>(columns_), 0},
            .labels = {labels_[swapped ? 1 : 0], labels_[swapped ? 0 : 1]},
            .swapped = swapped};
  }

 private:
  void skip_spaces() {
    std::size_t count = 0;
    while (count < rest_.size() && is_space(rest_[count])) ++count;
    rest_.remove_prefix(count);
  }

  std::string_view token() {
    std::size_t size = 0;
    while (size < rest_.size() && !is_space(rest_[size])) ++size;
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  // Returns the index of a label, in order of appearance.
  float label(std::string_view found) {
    const auto number = number_in(found);
    if (!number || !std::isfinite(static_cast<float>(*number))) {
      text_.fail("found " + quoted(found) + " instead of a label; expected a number such as 1 or -1");
    }
    const float value = static_cast<float>(*number) + 0.0f;  // -0 is 0
    const auto known = std::find(labels_.begin(), labels_.end(), value);
    if (known != labels_.end()) return static_cast<float>(known - labels_.begin());
    if (labels_.size() == 2) {
      text_.fail("found the label " + label_text(value) +
                 (from_training_ ? ", which does not occur in the training set" : "") + "; expected only " +
                 label_text(std::min(labels_[0], labels_[1])) + " and " + label_text(std::max(labels_[0], labels_[1])) +
                 " because only two classes are supported");
    }
    labels_.push_back(value);
    return static_cast<float>(labels_.size() - 1);
  }

  void pair(sample& into) {
    const char* end = rest_.data() + rest_.size();
    std::uint64_t index = 0;
    const auto [colon, error] = std::from_chars(rest_.data(), end, index);
    if (error == std::errc::invalid_argument || colon == end || *colon != ':') fail_pair();
    if (error != std::errc{} || index > largest_index) {
      text_.fail("found the index " + quoted({rest_.data(), colon}) + "; the largest supported index is " +
                 std::to_string(largest_index) + " because the model has one weight per index");
    }
    if (index == 0) text_.fail("found the index 0; indices start at 1: add 1 to every index of the data set");
    if (index <= before_) {
      text_.fail("found the index " + std::to_string(index) + " after " + std::to_string(before_) +
                 "; expected the indices of a line in ascending order, each once");
    }
    double value = 0;
    const auto [behind, wrong] = std::from_chars(colon + 1, end, value);
    if (wrong == std::errc{} && (behind == end || is_space(*behind))) {
      rest_.remove_prefix(static_cast<std::size_t>(behind - rest_.data()));
    } else {  // also handles +1 and values that are out of range
      const std::string_view text = token();
      const auto number = number_in(text.substr(static_cast<std::size_t>(colon + 1 - text.data())));
      if (!number) fail_pair(text);
      value = *number;
    }
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) {
      text_.fail("the value of index " + std::to_string(index) +
                 " is not a finite single-precision number; expected a value such as 0.5 or 1e-3");
    }
    before_ = index;
    columns_ = std::max(columns_, index);
    if (narrow == 0) return;  // shows only that the column exists
    into.columns.push_back(static_cast<std::int32_t>(index - 1));
    into.values.push_back(narrow);
  }

  [[noreturn]] void fail_pair() { fail_pair(token()); }
  [[noreturn]] void fail_pair(std::string_view found) const {
    text_.fail("found " + quoted(found) + " instead of index:value; expected a pair such as 12:0.5");
  }

  lines text_;
  std::string key_;
  bool from_training_;
  std::vector<float> labels_;  // in their order of appearance
  std::string_view rest_;      // unread rest of the line
  std::uint64_t before_{0};    // previous index in this line
  std::uint64_t columns_{0};
};

constexpr sample_format libsvm_format{
    .number = 1, .classes = true, .open = [](const fs::path& file, const std::string& key, const row_context& context) {
      return std::unique_ptr<sample_reader>{new libsvm_reader{file, key, context}};
    }};

row_set read_rows(const fs::path& file, const std::string& key, bool mapped, const row_context& context) {
  if (mapped) {
    auto kept = mapped_rows(libsvm_format, file);
    if (kept && (!context.labels || *context.labels == kept->facts.labels)) return *std::move(kept);
  }
  return read_rows(libsvm_format, file, key, context, mapped);
}

}  // namespace

dataset_kind libsvm() {
  return {.name = "libsvm",
          .explanation = "sparse samples of two classes, from your own file in LIBSVM's text format",
          .folder = "",
          .sample_shape = {},
          .classes = 2,
          .published{},
          .load =
              [](const data_source& from) {
                const row_set train = read_rows(from.file, "data.file", from.mapped, {});
                const auto& [low, high] = train.facts.labels;
                const std::vector<std::string> classes{label_text(low), label_text(high)};
                std::int64_t columns = train.facts.extents[0];
                std::optional<row_set> test;
                if (!from.test_file.empty()) {
                  test = read_rows(from.test_file, "data.test_file", from.mapped, {.labels = train.facts.labels});
                  columns = std::max(columns, test->facts.extents[0]);
                }
                if (columns == 0) {
                  throw data_error(from.file.string() + ": no sample has an index; expected lines such as 1 3:0.5 7:1");
                }
                dataset_pair pair{.train = dataset_of(train, columns, classes),
                                  .test{},
                                  .scale{},
                                  .files = {from.file.string()},
                                  .sample_shape = {columns}};
                pair.test = test ? dataset_of(*test, columns, classes) : pair.train;
                if (test) pair.files.push_back(from.test_file.string());
                return pair;
              },
          .reads = {"file", "test_file", "mapped"}};
}

}  // namespace troupe::data

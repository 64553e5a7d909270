// A table of numbers: a CSV file (RFC 4180) with a column of labels or of numbers to predict. One sample in each row.
#include "troupe/data/formats/lines.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/text.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// More labels are a mistake, such as a number to predict or an identifier in the place of a label.
constexpr std::size_t labels_at_most = std::size_t{1} << 16;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_missing(std::string_view value) {
  static const std::set<std::string_view> words{"",    "NA",   "N/A",  "na",   "n/a", "NaN",
                                                "nan", "null", "NULL", "None", "?"};
  return words.contains(value);
}

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

/// A line of the file, cut into its values.
struct csv_row {
  std::int64_t line{0};
  std::vector<std::string> values;
};

/// Reads the rows of a file and finds its separator.
class csv_rows {
 public:
  csv_rows(const fs::path& file, const std::string& key) : lines_{file, key} {}

  /// Returns the next row that is not empty, or nothing at the end.
  std::optional<csv_row> next() {
    while (auto line = lines_.next()) {
      ++number_;
      constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
      if (number_ == 1 && line->starts_with(byte_order_mark)) line->remove_prefix(byte_order_mark.size());
      if (trimmed(*line).empty()) continue;
      if (separator_ == '\0') separator_ = separator_of(*line);
      return csv_row{.line = number_, .values = values_of(*line)};
    }
    return std::nullopt;
  }

  [[noreturn]] void fail(std::int64_t line, const std::string& reason) const {
    throw data_error(lines_.file().string() + ":" + std::to_string(line) + ": " + reason);
  }

  [[noreturn]] void fail(const std::string& reason) const { throw data_error(lines_.file().string() + ": " + reason); }

 private:
  /// Returns which of the usual separators occurs most often.
  static char separator_of(std::string_view line) {
    std::map<char, int> counts{{',', 0}, {';', 0}, {'\t', 0}};
    bool is_quoted = false;
    for (const char c : line) {
      if (c == '"') is_quoted = !is_quoted;
      if (const auto candidate = counts.find(c); candidate != counts.end() && !is_quoted) ++candidate->second;
    }
    char best = ',';
    for (const auto& [candidate, count] : counts)
      if (count > counts[best]) best = candidate;
    return best;
  }

  std::vector<std::string> values_of(std::string_view line) const {
    std::vector<std::string> values;
    for (bool more = true; more;) {
      const auto start = line.find_first_not_of(' ');
      if (start != std::string_view::npos && line[start] == '"') {
        values.push_back(quoted_value(line.substr(start + 1), line));
        line = trimmed_front(line);
        more = !line.empty();
        if (more && line.front() != separator_) fail(number_, "there is text after a value in quotation marks");
        if (more) line.remove_prefix(1);
      } else {
        const auto end = line.find(separator_);
        values.emplace_back(trimmed(line.substr(0, end)));
        more = end != std::string_view::npos;
        if (more) line.remove_prefix(end + 1);
      }
    }
    return values;
  }

  static std::string_view trimmed_front(std::string_view text) {
    const auto first = text.find_first_not_of(' ');
    return first == std::string_view::npos ? std::string_view{} : text.substr(first);
  }

  /// Returns a value that begins after its first quotation mark, in which two of them stand for one; sets `rest` to
  /// what follows.
  std::string quoted_value(std::string_view text, std::string_view& rest) const {
    std::string value;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '"') {
        value += text[i];
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        value += '"';
        ++i;
      } else {
        rest = text.substr(i + 1);
        return value;
      }
    }
    fail(number_, "a value in quotation marks has no end in this line; expected one row in each line");
  }

  lines lines_;
  std::int64_t number_{0};
  char separator_{'\0'};
};

/// Where the values of a file are.
struct csv_columns {
  std::vector<std::size_t> inputs;
  std::size_t target{0};
  bool is_label{true};
  /// Whether the target was chosen by default, and not by the user.
  bool by_default{true};
};

/// The values of a file.
struct csv_values {
  std::vector<float> inputs{};
  std::vector<float> numbers{};             ///< Targets, if they are numbers.
  std::vector<std::int64_t> labels{};       ///< Targets, if they are labels: numbers in order of appearance.
  std::vector<std::string> names{};         ///< Labels in order of appearance.
  std::vector<std::int64_t> first_lines{};  ///< Where each of them appears first.
};

/// Reads one of the two files.
class csv_reader {
 public:
  csv_reader(const data_source& from, const fs::path& file, const std::string& key) : from_{from}, rows_{file, key} {
    first_ = rows_.next();
    if (!first_) rows_.fail("the file has no rows; expected one sample in each line, values separated by commas");
    second_ = rows_.next();
    width_ = first_->values.size();
    first_line_ = first_->line;
    if (width_ < 2)
      rows_.fail(first_->line,
                 "there is only one column; expected numbers and a target, separated by commas, semicolons or tabs");
    if (from.header.value_or(looks_like_header())) {
      header_ = first_->values;
      first_ = std::exchange(second_, std::nullopt);
      if (!first_) rows_.fail("there are no rows below the header");
    }
    find_columns();
  }

  csv_values read() {
    csv_values all;
    for (auto row = std::move(first_); row; row = second_ ? std::exchange(second_, std::nullopt) : rows_.next())
      add(*row, all);
    return all;
  }

  const csv_columns& columns() const { return columns_; }

  /// Returns the names of the input columns.
  std::vector<std::string> input_names() const {
    std::vector<std::string> names;
    for (const auto column : columns_.inputs) names.push_back(name_of(column));
    return names;
  }

  [[noreturn]] void fail(std::int64_t line, const std::string& reason) const { rows_.fail(line, reason); }
  [[noreturn]] void fail(const std::string& reason) const { rows_.fail(reason); }

  std::string target_name() const { return name_of(columns_.target); }

 private:
  /// Returns whether the first row names columns: the settings name one of them, or some column has a number in the
  /// second row, but not in the first.
  bool looks_like_header() const {
    if (!second_ || second_->values.size() != width_) return false;
    const auto is_named = [&](const std::string& called) {
      return !integer_in(called) &&
             std::find(first_->values.begin(), first_->values.end(), called) != first_->values.end();
    };
    if (is_named(from_.label) || is_named(from_.target) ||
        std::any_of(from_.inputs.begin(), from_.inputs.end(), is_named))
      return true;
    for (std::size_t i = 0; i < width_; ++i)
      if (!number_in(first_->values[i]) && !is_missing(first_->values[i]) && number_in(second_->values[i])) return true;
    return false;
  }

  std::string name_of(std::size_t column) const { return header_.empty() ? std::to_string(column) : header_[column]; }

  /// Returns the column that the user calls by its name in the header, or by its number.
  std::size_t column_called(const std::string& called, const std::string& key) const {
    const auto named = std::find(header_.begin(), header_.end(), called);
    if (named != header_.end()) {
      if (std::find(named + 1, header_.end(), called) != header_.end())
        rows_.fail("two columns are called " + data::quoted(called) + "; set " + key + " to the number of one, from 0");
      return static_cast<std::size_t>(named - header_.begin());
    }
    const auto width = static_cast<std::int64_t>(width_);
    const auto number = integer_in(called);
    if (number && *number >= -width && *number < width)
      return static_cast<std::size_t>(*number < 0 ? *number + width : *number);
    std::vector<std::string> names;
    constexpr std::size_t most_names = 12;
    for (std::size_t i = 0; i < std::min(most_names, header_.size()); ++i) names.push_back(text::printable(header_[i]));
    rows_.fail(
        key + " names the column " + data::quoted(called) + ", which the file does not have; expected " +
        (names.empty() ? ""
                       : text::listed(text::in_quotes(names)) + (header_.size() > most_names ? " …" : "") + ", or ") +
        "a number from 0 to " + std::to_string(width - 1) + " or from -1 (the last) to -" + std::to_string(width));
  }

  void find_columns() {
    columns_.is_label = from_.target.empty();
    columns_.by_default = from_.target.empty() && from_.label.empty();
    columns_.target = columns_.by_default    ? width_ - 1
                      : from_.target.empty() ? column_called(from_.label, "data.label")
                                             : column_called(from_.target, "data.target");
    for (const auto& called : from_.inputs) columns_.inputs.push_back(column_called(called, "data.inputs"));
    for (std::size_t column = 0; from_.inputs.empty() && column < width_; ++column)
      if (column != columns_.target) columns_.inputs.push_back(column);
    std::set<std::size_t> seen;
    for (std::size_t i = 0; i < columns_.inputs.size(); ++i) {
      if (columns_.inputs[i] == columns_.target)
        rows_.fail("the column " + data::quoted(target_name()) +
                   " is the target and one of data.inputs; remove it from data.inputs");
      if (!seen.insert(columns_.inputs[i]).second)
        rows_.fail("data.inputs names the column " + data::quoted(name_of(columns_.inputs[i])) +
                   " twice; remove one of them");
    }
  }

  void add(const csv_row& row, csv_values& all) const {
    if (row.values.size() != width_)
      fail(row.line, "the row has " + std::to_string(row.values.size()) + " values, but the first has " +
                         std::to_string(width_) + "; expected equal numbers");
    for (const auto column : columns_.inputs)
      all.inputs.push_back(number_at(row, column, "leave it out of data.inputs, or replace its values by numbers"));
    if (columns_.is_label)
      add_label(row, all);
    else
      all.numbers.push_back(
          number_at(row, columns_.target, "set data.label instead of data.target to predict classes"));
  }

  float number_at(const csv_row& row, std::size_t column, const std::string& fix) const {
    const auto& text = row.values[column];
    require_value(row, column);
    const auto number = number_in(text);
    if (!number)
      fail(row.line, "column " + data::quoted(name_of(column)) + " has " + data::quoted(text) +
                         ", which is not a number; " + fix + hint_of_header(row));
    const auto value = static_cast<float>(*number);
    if (!std::isfinite(value))
      fail(row.line, "column " + data::quoted(name_of(column)) + " has " + data::quoted(text) +
                         ", which is not a finite single-precision number; replace it, or remove the row");
    return value;
  }

  /// Returns what else could be wrong with the first row of the file.
  std::string hint_of_header(const csv_row& row) const {
    return !from_.header && header_.empty() && row.line == first_line_
               ? "; if the row has the names of the columns, set data.header = true"
               : "";
  }

  void require_value(const csv_row& row, std::size_t column) const {
    const auto& text = row.values[column];
    if (is_missing(text))
      fail(row.line, "column " + data::quoted(name_of(column)) + " has no value" +
                         (text.empty() ? "" : " (" + text + ")") + "; fill it in, or remove the row");
  }

  void add_label(const csv_row& row, csv_values& all) const {
    require_value(row, columns_.target);
    const auto& label = row.values[columns_.target];
    if (columns_.by_default && number_in(label) && !integer_in(label))
      fail(row.line, "the last column, " + data::quoted(target_name()) + ", has " + data::quoted(label) +
                         ", which is not the label of a class; to predict numbers, set data.target = \"" +
                         text::printable(target_name()) + "\"; to take each value as a class, set data.label");
    const auto [known, is_new] = numbers_of_labels_.try_emplace(label, static_cast<std::int64_t>(all.names.size()));
    if (is_new) {
      all.names.push_back(label);
      all.first_lines.push_back(row.line);
      if (all.names.size() > labels_at_most)
        fail(row.line, "column " + data::quoted(target_name()) + " has more than " + std::to_string(labels_at_most) +
                           " different labels; to predict numbers, set data.target instead of data.label");
    }
    all.labels.push_back(known->second);
  }

  const data_source& from_;
  csv_rows rows_;
  std::optional<csv_row> first_, second_;  ///< Rows that were read to find the header.
  std::size_t width_{0};
  std::int64_t first_line_{0};
  std::vector<std::string> header_;
  csv_columns columns_;
  mutable std::map<std::string, std::int64_t> numbers_of_labels_;
};

template <class Number>
at::Tensor tensor_of(std::vector<Number> numbers, const std::vector<std::int64_t>& sizes, at::ScalarType type) {
  const auto kept = std::make_shared<std::vector<Number>>(std::move(numbers));
  return at::from_blob(
      kept->data(), sizes, [kept](void*) {}, at::TensorOptions{}.dtype(type));
}

/// Returns labels in the order of classes: by value if all are integers, otherwise by their characters.
std::vector<std::string> classes_of(std::vector<std::string> labels) {
  const auto is_integer = [](const std::string& label) { return integer_in(label).has_value(); };
  if (std::all_of(labels.begin(), labels.end(), is_integer))
    std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) {
      return std::pair{*integer_in(a), a} < std::pair{*integer_in(b), b};
    });
  else
    std::sort(labels.begin(), labels.end());
  return labels;
}

std::shared_ptr<const dataset> set_of(const csv_reader& file, csv_values values,
                                      const std::vector<std::string>& classes) {
  const auto columns = static_cast<std::int64_t>(file.columns().inputs.size());
  dataset set{};
  set.classes = classes;
  if (file.columns().is_label) {
    std::vector<std::int64_t> class_of_label;
    for (std::size_t i = 0; i < values.names.size(); ++i) {
      const auto found = std::find(classes.begin(), classes.end(), values.names[i]);
      if (found == classes.end())
        file.fail(values.first_lines[i], "column " + data::quoted(file.target_name()) + " has the label " +
                                             data::quoted(values.names[i]) +
                                             ", which does not occur in the training set");
      class_of_label.push_back(found - classes.begin());
    }
    for (auto& label : values.labels) label = class_of_label[static_cast<std::size_t>(label)];
    const auto rows = static_cast<std::int64_t>(values.labels.size());
    set.targets = tensor_of(std::move(values.labels), {rows}, at::kLong);
  } else {
    const auto rows = static_cast<std::int64_t>(values.numbers.size());
    set.targets = tensor_of(std::move(values.numbers), {rows}, at::kFloat);
  }
  set.inputs = tensor_of(std::move(values.inputs), {set.targets.size(0), columns}, at::kFloat);
  return std::make_shared<dataset>(std::move(set));
}

dataset_pair load_csv(const data_source& from) {
  csv_reader training{from, from.file, "data.file"};
  auto values = training.read();
  const auto classes = classes_of(values.names);
  if (training.columns().is_label && classes.size() == 1)
    training.fail("every label in column " + data::quoted(training.target_name()) + " is " +
                  data::quoted(classes.front()) + "; expected at least two classes");
  dataset_pair pair{};
  pair.train = set_of(training, std::move(values), classes);
  pair.files = {from.file.string()};
  pair.sample_shape = {static_cast<std::int64_t>(training.columns().inputs.size())};
  pair.test = pair.train;
  if (from.test_file.empty()) return pair;
  csv_reader test{from, from.test_file, "data.test_file"};
  if (test.input_names() != training.input_names() || test.target_name() != training.target_name())
    test.fail("its columns differ from those of " + from.file.filename().string() +
              "; expected the same inputs and the same target in both files");
  auto of_test = test.read();
  pair.test = set_of(test, std::move(of_test), classes);
  pair.files.push_back(from.test_file.string());
  return pair;
}

}  // namespace

dataset_kind csv() {
  return {.name = "csv",
          .explanation = "your own table of numbers, a CSV file with a column of labels or of numbers to predict",
          .folder = "",
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load = load_csv,
          .reads = {"file", "test_file", "inputs", "label", "target", "header"}};
}

}  // namespace troupe::data

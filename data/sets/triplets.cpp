// Ratings, for matrix completion: lines `user item rating`, as in MovieLens (Harper, Konstan 2015). Each line is a
// sample with two ones, for its user and its item; its target is the rating.
#include "troupe/data/sets/row_files.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Each user and each item has weights in memory: a larger number is a mistake, such as an identifier in its place.
constexpr std::int64_t columns_at_most = std::int64_t{1} << 28;

class triplet_reader final : public sample_reader {
 public:
  triplet_reader(const fs::path& file, const std::string& key, const row_context& context)
      : text_{file, key}, users_{context.users} {}

  bool next(sample& into) override {
    while (auto line = text_.next()) {
      rest_ = line->substr(0, line->find('#'));
      whole_ = rest_;
      skip_spaces();
      if (rest_.empty()) continue;
      const std::int64_t user = id(field(), "a user"), item = id(field(), "an item");
      const std::string_view last = field();
      const auto rating = number_in(last);
      if (!rating || !std::isfinite(static_cast<float>(*rating))) fail_line(last, "a rating");
      if (!rest_.empty()) skip_time();
      extents_ = {std::max(extents_[0], user + 1), std::max(extents_[1], item + 1)};
      if (users_ > 0 && (user >= users_ || users_ + item >= columns_at_most)) {
        text_.fail("the file changed while it was being read; restart once it is complete");
      }
      into.columns.assign({static_cast<std::int32_t>(user), static_cast<std::int32_t>(users_ + item)});
      into.values.assign({1, 1});
      into.target = static_cast<float>(*rating);
      return true;
    }
    return false;
  }

  row_facts facts() const override { return {.extents = extents_, .users = users_}; }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  // Returns the text up to the next separator, and skips both. A separator is spaces and tabs with at most one comma or
  // :: among them.
  std::string_view field() {
    const std::size_t size = std::min(rest_.find_first_of(" \t\r,:"), rest_.size());
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    skip_spaces();
    const std::size_t mark = rest_.starts_with("::") ? 2 : rest_.starts_with(',') ? 1 : 0;
    rest_.remove_prefix(mark);
    skip_spaces();
    return text;
  }

  std::int64_t id(std::string_view found, const std::string& of) const {
    std::int64_t value = 0;
    const char* end = found.data() + found.size();
    const auto [behind, error] = std::from_chars(found.data(), end, value);
    if (error == std::errc::result_out_of_range || value >= columns_at_most) {
      text_.fail("found " + quoted(found) + " as the number of " + of + "; the largest supported number is " +
                 std::to_string(columns_at_most - 1) + " because the model has weights for each");
    }
    if (error != std::errc{} || behind != end || value < 0) fail_line(found, "the number of " + of);
    return value;
  }

  /// Skips the time after the rating, which MovieLens has, and throws if anything follows it.
  void skip_time() {
    const std::string_view time = field();
    if (!number_in(time)) fail_line(time, "a time or the end of the line");
    if (!rest_.empty())
      text_.fail("found " + quoted(field()) + " after the fourth number; expected `user item rating`, optionally " +
                 "followed by one number (a time), which is ignored");
  }

  [[noreturn]] void fail_line(std::string_view found, const std::string& wanted) const {
    text_.fail("found " + quoted(found) + " instead of " + wanted +
               "; expected a line `user item rating`, such as `3 17 4.5`, optionally followed by a time, or a comment "
               "that begins with #");
  }

  lines text_;
  std::int64_t users_;
  std::array<std::int64_t, 2> extents_{};
  std::string_view whole_, rest_;  // the line and its unread rest
};

constexpr sample_format triplets_format{
    .number = 2,
    .classes = false,
    .open = [](const fs::path& file, const std::string& key, const row_context& context) {
      return std::unique_ptr<sample_reader>{new triplet_reader{file, key, context}};
    }};

// Returns the numbers of users and items in the text.
std::array<std::int64_t, 2> extents_of(const fs::path& file, const std::string& key) {
  triplet_reader reader{file, key, {}};
  for (sample row; reader.next(row);) {
  }
  return reader.facts().extents;
}

struct source_file {
  fs::path path;
  std::string key;
  std::optional<row_set> kept;  // from an earlier run
  std::array<std::int64_t, 2> extents{};
};

}  // namespace

dataset_kind triplets() {
  return {.name = "triplets",
          .explanation = "ratings of items by users, from your own file; for matrix completion",
          .folder = "",
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load =
              [](const data_source& from) {
                std::vector<source_file> files{{from.file, "data.file", {}}};
                if (!from.test_file.empty()) files.push_back({from.test_file, "data.test_file", {}});
                // Item columns follow the users of both files, so the text is read twice: first to count them.
                std::int64_t users = 0, items = 0;
                for (auto& [path, key, kept, extents] : files) {
                  if (from.mapped) kept = mapped_rows(triplets_format, path);
                  extents = kept ? kept->facts.extents : extents_of(path, key);
                  users = std::max(users, extents[0]);
                  items = std::max(items, extents[1]);
                }
                if (users + items > columns_at_most) {
                  throw data_error(from.file.string() + ": " + std::to_string(users) + " users and " +
                                   std::to_string(items) + " items exceed the total limit of " +
                                   std::to_string(columns_at_most) + "; renumber them without gaps");
                }
                dataset_pair pair{.train{}, .test{}, .scale{}, .files{}, .sample_shape = {users, items}};
                for (auto& [path, key, kept, extents] : files) {
                  if (!kept || kept->facts.users != users) {
                    kept = read_rows(triplets_format, path, key, {.labels{}, .users = users}, from.mapped);
                  }
                  if (kept->facts.users != users || kept->facts.extents[0] > users || kept->facts.extents[1] > items) {
                    throw data_error(path.string() +
                                     ": the file changed while it was being read; restart once it is complete");
                  }
                  (pair.train ? pair.test : pair.train) = dataset_of(*kept, users + items, {});
                  pair.files.push_back(path.string());
                }
                if (!pair.test) pair.test = pair.train;
                return pair;
              },
          .reads = {"file", "test_file", "mapped"}};
}

}  // namespace troupe::data

#include "troupe/data/sets/row_files.hpp"

#include "troupe/data/formats/huge_pages.hpp"
#include "troupe/data/formats/mapped_file.hpp"

#include <ATen/ops/empty.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <unistd.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> magic{'T', 'R', 'O', 'U', 'P', 'E', 'R', 'W'};
constexpr std::uint32_t version = 1;

// The header of a .rows file. It also identifies the byte order: in another byte order, `version` has another value.
struct header {
  std::array<char, 8> magic{};
  std::uint32_t version{0}, format{0};
  std::int64_t rows{0}, nonzeros{0};
  std::int64_t source_bytes{0}, source_seconds{0}, source_nanoseconds{0};  // size and time of last change of the text
  std::array<std::int64_t, 2> extents{};
  std::int64_t users{0};
  std::array<float, 2> labels{};
  std::uint64_t checksum{0};      // checksum of everything after the header, in order: cells, offsets, targets
  std::uint64_t own_checksum{0};  // checksum of the fields above
};
static_assert(sizeof(header) == 104 && std::is_trivially_copyable_v<header>);

// Adds eight bytes at a time to a checksum, as fast as memory allows. It detects damage, not malice.
std::uint64_t add_words(std::uint64_t sum, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  for (std::size_t done = 0; done < bytes; done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + done, sizeof(word));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
    sum ^= sum >> 32;
  }
  return sum;
}

std::uint64_t own_checksum(const header& of) {
  return add_words(1, &of, offsetof(header, own_checksum));
}

std::size_t target_bytes(bool classes, std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  return classes ? count * sizeof(std::int64_t) : (count + 1) / 2 * 2 * sizeof(float);
}

struct change {
  std::int64_t bytes{-1}, seconds{0}, nanoseconds{0};
  bool operator==(const change&) const = default;
};

change last_change(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

fs::path rows_path(const fs::path& file) {
  return file.string() + ".rows";
}

// A file written in order through a buffer, with a checksum of its words.
class output {
 public:
  output(int descriptor, fs::path file) : descriptor_{descriptor}, file_{std::move(file)} { buffer_.reserve(most); }
  output(const output&) = delete;
  output& operator=(const output&) = delete;
  ~output() { close(descriptor_); }

  // Writes whole words of eight bytes.
  void write(const void* from, std::size_t bytes) {
    sum_ = add_words(sum_, from, bytes);
    const auto* at = static_cast<const char*>(from);
    if (buffer_.size() + bytes > most) flush();
    if (bytes > most) return write_out({at, bytes});
    buffer_.insert(buffer_.end(), at, at + bytes);
  }

  void flush() {
    write_out(buffer_);
    buffer_.clear();
  }

  // Overwrites the beginning of the file. Call flush() before it.
  void overwrite(const header& with) {
    if (lseek(descriptor_, 0, SEEK_SET) != 0) fail();
    write_out({reinterpret_cast<const char*>(&with), sizeof(with)});
  }

  void read(std::int64_t at, void* into, std::size_t bytes) {
    if (pread(descriptor_, into, bytes, at) != static_cast<ssize_t>(bytes)) fail();
  }

  std::uint64_t sum() const { return sum_; }
  void forget_sum() { sum_ = 0; }

  [[noreturn]] void fail() const {
    throw data_error(file_.string() + ": cannot write the file (" + std::strerror(errno) +
                     "); free some disk space and make its folder writable, or set data.mapped = false");
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;

  void write_out(std::span<const char> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail();
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  int descriptor_;
  fs::path file_;
  std::vector<char> buffer_;
  std::uint64_t sum_{0};
};

// A temporary file next to `wanted` that is renamed to it once it is complete, and otherwise removed.
class aside {
 public:
  explicit aside(fs::path wanted) : wanted_{std::move(wanted)}, name_{wanted_.string() + ".XXXXXX"} {
    descriptor_ = mkstemp(name_.data());
    if (descriptor_ < 0) fail();
    fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
    fchmod(descriptor_, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  }
  aside(const aside&) = delete;
  aside& operator=(const aside&) = delete;
  ~aside() {
    if (!name_.empty()) unlink(name_.c_str());
  }

  int descriptor() const { return descriptor_; }

  void become_the_wanted() {
    if (rename(name_.c_str(), wanted_.c_str()) != 0) fail();
    name_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    throw data_error(wanted_.string() + ": cannot write the file (" + std::strerror(errno) +
                     "); make its folder writable, or set data.mapped = false");
  }

  fs::path wanted_;
  std::string name_;
  int descriptor_;
};

// Returns the class of a sample from the index of its label, as returned by the reader.
std::int64_t class_of(float target, const row_facts& facts) {
  return (target != 0) != facts.swapped ? 1 : 0;
}

// Returns the columns, then the values, in the layout of sparse_rows.
const std::vector<std::int32_t>& cells_of(const sample& row, std::vector<std::int32_t>& into) {
  const std::size_t count = row.columns.size();
  into.resize(2 * count);
  std::copy(row.columns.begin(), row.columns.end(), into.begin());
  if (count > 0) std::memcpy(into.data() + count, row.values.data(), count * sizeof(float));
  return into;
}

[[noreturn]] void fail_empty(const fs::path& file, const std::string& key) {
  throw data_error(file.string() + ": the file contains no samples; set " + key + " to a file that does");
}

row_set read_to_memory(const sample_format& format, const fs::path& file, const std::string& key,
                       const row_context& context) {
  struct storage {
    std::vector<std::int64_t> offsets{0};
    huge_page_vector<std::int32_t> cells;
  };
  const auto kept = std::make_shared<storage>();
  std::vector<float> targets;
  std::vector<std::int32_t> cells;
  const auto reader = format.open(file, key, context);
  for (sample row; reader->next(row);) {
    cells_of(row, cells);
    kept->cells.insert(kept->cells.end(), cells.begin(), cells.end());
    kept->offsets.push_back(static_cast<std::int64_t>(kept->cells.size() / 2));
    targets.push_back(row.target);
  }
  if (targets.empty()) fail_empty(file, key);
  const auto rows = static_cast<std::int64_t>(targets.size());
  row_set set{reader->facts(), rows, kept->offsets.data(), kept->cells.data(), kept, {}};
  set.targets = at::empty({rows}, format.classes ? at::kLong : at::kFloat);
  if (format.classes) {
    std::transform(targets.begin(), targets.end(), set.targets.mutable_data_ptr<std::int64_t>(),
                   [&](float target) { return class_of(target, set.facts); });
  } else {
    std::copy(targets.begin(), targets.end(), set.targets.mutable_data_ptr<float>());
  }
  return set;
}

// The part of a row that is written only after all cells. Until then it is in a temporary file, so that memory does not
// grow.
struct row_end {
  std::int64_t offset{0};
  float target{0};
  std::uint32_t zero{0};
};

// Calls act(ends) for the ends of all rows, some at a time.
void for_ends(output& ends, std::int64_t rows, const auto& act) {
  std::vector<row_end> some;
  constexpr std::int64_t at_once = 1 << 14;
  for (std::int64_t first = 0; first < rows; first += at_once) {
    some.resize(static_cast<std::size_t>(std::min(at_once, rows - first)));
    ends.read(first * static_cast<std::int64_t>(sizeof(row_end)), some.data(), some.size() * sizeof(row_end));
    act(some);
  }
}

void write_rows(const sample_format& format, const fs::path& file, const std::string& key, const row_context& context) {
  const change before = last_change(file);
  const auto reader = format.open(file, key, context);
  aside whole{rows_path(file)};
  output out{whole.descriptor(), rows_path(file)};
  int ends_descriptor = -1;
  {
    const aside nameless{rows_path(file)};  // its name is removed at once, the file when its descriptor is closed
    ends_descriptor = nameless.descriptor();
  }
  output ends{ends_descriptor, rows_path(file)};
  header head{.magic = magic, .version = version, .format = format.number};
  out.write(&head, sizeof(head));
  out.forget_sum();
  std::vector<std::int32_t> cells;
  for (sample row; reader->next(row);) {
    cells_of(row, cells);
    out.write(cells.data(), cells.size() * sizeof(std::int32_t));
    head.nonzeros += static_cast<std::int64_t>(row.columns.size());
    ++head.rows;
    const row_end end{head.nonzeros, row.target};
    ends.write(&end, sizeof(end));
  }
  if (head.rows == 0) fail_empty(file, key);
  const row_facts facts = reader->facts();
  ends.flush();
  const std::int64_t none_yet = 0;
  out.write(&none_yet, sizeof(none_yet));
  for_ends(ends, head.rows, [&](const std::vector<row_end>& some) {
    for (const row_end& end : some) out.write(&end.offset, sizeof(end.offset));
  });
  std::vector<std::int64_t> classes;
  std::vector<float> numbers;
  for_ends(ends, head.rows, [&](const std::vector<row_end>& some) {
    classes.clear();
    numbers.clear();
    for (const row_end& end : some) {
      if (format.classes)
        classes.push_back(class_of(end.target, facts));
      else
        numbers.push_back(end.target);
    }
    if (numbers.size() % 2 == 1) numbers.push_back(0);
    out.write(classes.data(), classes.size() * sizeof(std::int64_t));
    out.write(numbers.data(), numbers.size() * sizeof(float));
  });
  out.flush();
  if (before != last_change(file)) {
    throw data_error(file.string() + ": the file changed while it was being read; restart once it is complete");
  }
  head.source_bytes = before.bytes;
  head.source_seconds = before.seconds;
  head.source_nanoseconds = before.nanoseconds;
  head.extents = facts.extents;
  head.users = facts.users;
  head.labels = facts.labels;
  head.checksum = out.sum();
  head.own_checksum = own_checksum(head);
  out.overwrite(head);
  whole.become_the_wanted();
}

std::shared_ptr<const mapped_file> mapped(const fs::path& file) try {
  const auto result = std::make_shared<const mapped_file>(file);
  return result->bytes() < sizeof(header) ? nullptr : result;
} catch (const files::unreadable&) {
  return nullptr;  // the file will be written again
}

// Returns whether a reader could have made these rows and their checksum is right.
bool sound(const header& head, const row_set& set, std::span<const char> targets, const mapped_file& bytes,
           bool classes) {
  const std::int64_t columns = classes ? head.extents[0] : head.users + head.extents[1];
  if (set.offsets[0] != 0) return false;
  const sparse_rows rows{set.rows, columns, set.offsets, set.cells, nullptr};
  std::uint64_t sum = 0;
  std::int64_t let_go_at = 0;
  for (std::int64_t row = 0; row < set.rows; ++row) {
    if (set.offsets[row + 1] < set.offsets[row] || set.offsets[row + 1] > head.nonzeros) return false;
    const auto [column, value, count] = rows.at(row);
    std::int64_t before = -1;
    bool good = true;
    for (std::int64_t index = 0; index < count; ++index) {
      good = good && column[index] > before && std::isfinite(value[index]);
      before = column[index];
    }
    if (!good || before >= columns) return false;
    if (!classes && (count != 2 || column[0] >= head.users || column[1] < head.users)) return false;
    sum = add_words(sum, column, static_cast<std::size_t>(count) * 2 * sizeof(std::int32_t));
    if (set.offsets[row + 1] >= let_go_at) {
      bytes.let_go();
      let_go_at = set.offsets[row + 1] + (std::int64_t{1} << 20);
    }
  }
  if (set.offsets[set.rows] != head.nonzeros) return false;
  sum = add_words(sum, set.offsets, static_cast<std::size_t>(set.rows + 1) * sizeof(std::int64_t));
  if (classes) {
    const auto* target = set.targets.const_data_ptr<std::int64_t>();
    if (!std::all_of(target, target + set.rows, [](std::int64_t label) { return label == 0 || label == 1; }))
      return false;
  } else {
    const auto* target = set.targets.const_data_ptr<float>();
    if (!std::all_of(target, target + set.rows, [](float number) { return std::isfinite(number); })) return false;
  }
  sum = add_words(sum, targets.data(), targets.size());
  bytes.let_go();
  return sum == head.checksum;
}

}  // namespace

std::optional<row_set> mapped_rows(const sample_format& format, const fs::path& file) {
  const auto bytes = mapped(rows_path(file));
  if (bytes == nullptr) return std::nullopt;
  header head;
  std::memcpy(&head, bytes->at(0), sizeof(head));
  constexpr std::int64_t absurd = std::int64_t{1} << 48, most_columns = std::int64_t{1} << 31;
  const auto within = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value < high;
  };
  if (head.magic != magic || head.version != version || head.format != format.number ||
      head.own_checksum != own_checksum(head) ||
      last_change(file) != change{head.source_bytes, head.source_seconds, head.source_nanoseconds} ||
      !within(head.rows, 1, absurd) || !within(head.nonzeros, 0, absurd) || !within(head.users, 0, most_columns) ||
      !within(head.extents[0], 0, most_columns) || !within(head.extents[1], 0, most_columns)) {
    return std::nullopt;
  }
  const auto rows = static_cast<std::size_t>(head.rows), cells = 2 * static_cast<std::size_t>(head.nonzeros);
  const std::size_t offsets_at = sizeof(head) + cells * sizeof(std::int32_t);
  const std::size_t targets_at = offsets_at + (rows + 1) * sizeof(std::int64_t);
  if (bytes->bytes() != targets_at + target_bytes(format.classes, head.rows)) return std::nullopt;
  // Offsets and targets are copied: they are small compared with the cells, and other parts of the program rely on
  // them. For the cells, see checked_rows.
  struct storage {
    std::shared_ptr<const mapped_file> file;
    std::vector<std::int64_t> offsets;
  };
  const auto kept = std::make_shared<storage>(storage{bytes, std::vector<std::int64_t>(rows + 1)});
  std::memcpy(kept->offsets.data(), bytes->at(offsets_at), kept->offsets.size() * sizeof(std::int64_t));
  std::vector<char> targets(target_bytes(format.classes, head.rows));  // with the padding after them, if any
  std::memcpy(targets.data(), bytes->at(targets_at), targets.size());
  row_set set{{.extents = head.extents, .labels = head.labels, .users = head.users},
              head.rows,
              kept->offsets.data(),
              reinterpret_cast<const std::int32_t*>(bytes->at(sizeof(head))),
              kept,
              at::empty({head.rows}, format.classes ? at::kLong : at::kFloat)};
  std::memcpy(set.targets.mutable_data_ptr(), targets.data(), set.targets.nbytes());
  try {
    if (!sound(head, set, targets, *bytes, format.classes)) return std::nullopt;
    bytes->require_unchanged();
  } catch (const data_error&) {
    return std::nullopt;  // the file is being changed
  }
  return set;
}

row_set read_rows(const sample_format& format, const fs::path& file, const std::string& key, const row_context& context,
                  bool mapped) {
  if (!mapped) return read_to_memory(format, file, key, context);
  write_rows(format, file, key, context);
  if (auto set = mapped_rows(format, file)) return *std::move(set);
  throw data_error(
      rows_path(file).string() +
      ": the file was changed after it was written; check that no other run changes this file or the text file it "
      "was made from");
}

std::shared_ptr<const dataset> dataset_of(const row_set& set, std::int64_t columns, std::vector<std::string> classes) {
  return std::make_shared<dataset>(
      dataset{.inputs{},
              .targets = set.targets,
              .classes = std::move(classes),
              .rows = std::make_shared<sparse_rows>(set.rows, columns, set.offsets, set.cells, set.owner)});
}

}  // namespace troupe::data

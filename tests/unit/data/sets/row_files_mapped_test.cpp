// Rows that are mapped from a .rows file beside their text file: when that file is used, and when it is made again.
#include "tests/support/doctest.hpp"
#include "tests/support/sparse_files.hpp"

#include "troupe/data/formats/checked_rows.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/sampling/batch.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/data/sets/sparsity.hpp"

#include <ATen/ops/equal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>
#include <vector>

namespace row_files_mapped_test {

using namespace troupe::data;
using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

bool same(const dataset_pair& a, const dataset_pair& b) {
  const auto equal = [](const dataset& left, const dataset& right) {
    return text_of(left) == text_of(right) && at::equal(left.targets, right.targets) &&
           left.targets.dtype() == right.targets.dtype() && left.classes == right.classes &&
           left.rows->columns() == right.rows->columns();
  };
  return equal(*a.train, *b.train) && equal(*a.test, *b.test) && a.sample_shape == b.sample_shape && a.files == b.files;
}

}  // namespace

TEST_CASE("mapped rows are those in memory, and a second run reads them from their file") {
  const row_folder folder;
  std::string text, ratings;
  random_stream stream{keyed(3, purpose::sparse)};
  for (int row = 0; row < 20'001; ++row) {  // more rows than are finished at once
    text += row % 3 == 0 ? "1" : "-1";
    for (std::uint64_t index = 1 + stream.below(40); index < 100; index += 1 + stream.below(40))
      text += " " + std::to_string(index) + ":" + std::to_string(stream.between(-1, 1));
    text += "\n";
    ratings += std::to_string(stream.below(50)) + " " + std::to_string(stream.below(70)) + " " +
               std::to_string(stream.below(5)) + "\n";
  }
  for (const std::string kind : {"libsvm", "triplets"}) {
    const std::string& written = kind == "libsvm" ? text : ratings;
    const fs::path train = folder.pack(kind + ".gz", written),
                   test = folder.write(kind + "_test", written.substr(written.find('\n') + 1));
    const dataset_pair plain = load(kind, train, test), first = load(kind, train, test, true);
    CHECK(same(plain, first));
    const fs::path rows = train.string() + ".rows";
    const auto made = fs::last_write_time(rows);
    const std::string bytes = contents(rows);
    CHECK(same(plain, load(kind, train, test, true)));
    CHECK(fs::last_write_time(rows) == made);  // not made again
    CHECK(contents(rows) == bytes);
    const batch a = make_batch(*plain.train, {}, {5, 17, 5, 20'000}),
                b = make_batch(*first.train, {}, {5, 17, 5, 20'000});
    CHECK(at::equal(a.inputs.to_dense(), b.inputs.to_dense()));
    CHECK(at::equal(a.targets, b.targets));
  }
  CHECK(folder.names() == std::vector<std::string>{"libsvm.gz", "libsvm.gz.rows", "libsvm_test", "libsvm_test.rows",
                                                   "triplets.gz", "triplets.gz.rows", "triplets_test",
                                                   "triplets_test.rows"});
}

TEST_CASE("a .rows file that is damaged, truncated or of another text is not believed") {
  const row_folder folder;
  for (const std::string kind : {"libsvm", "triplets"}) {
    const fs::path file = folder.write(kind, kind == "libsvm" ? small : "1 1 1\n2 3 4\n0 3 2\n"),
                   rows = file.string() + ".rows";
    const dataset_pair plain = load(kind, file);
    load(kind, file, {}, true);
    const std::string good = contents(rows);
    const auto read_again = [&](const std::string& bytes) {
      folder.write(kind + ".rows", bytes);
      CHECK(same(plain, load(kind, file, {}, true)));
      CHECK(contents(rows) == good);  // made again
    };
    for (std::size_t at = 0; at < good.size(); at += 3) {
      for (const int flip : {0x01, 0x80}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        CAPTURE(at);
        read_again(bad);
      }
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{7}, std::size_t{103}, std::size_t{104}, good.size() / 2, good.size() - 1})
      read_again(good.substr(0, size));
    read_again(good + std::string(8, '\0'));
    read_again(std::string(good.size(), '\0'));
    fs::remove(rows);
    fs::create_symlink("/dev/zero", rows);
    read_again(good);
    CHECK(same(plain, load(kind, file, {}, true)));
  }
  // Rows of one format are not used for another.
  fs::copy_file(folder.path() / "triplets.rows", folder.path() / "libsvm.rows", fs::copy_options::overwrite_existing);
  CHECK(load("libsvm", folder.path() / "libsvm", {}, true).train->size() == 4);
}

TEST_CASE("rows are made anew where the text has changed, be it only in its time") {
  const row_folder folder;
  const fs::path file = folder.write("f", small), rows = file.string() + ".rows";
  load("libsvm", file, {}, true);
  const std::string before = contents(rows);
  folder.write("f", small + "1 9:1\n");
  CHECK(load("libsvm", file, {}, true).train->size() == 5);
  folder.write("f", small);
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds{1000});
  CHECK(load("libsvm", file, {}, true).train->size() == 4);
  CHECK(contents(rows) != before);
}

TEST_CASE("rows stay what they were for those who have them, whatever becomes of the file") {
  const row_folder folder;
  const fs::path file = folder.write("f", small);
  const dataset_pair kept = load("libsvm", file, {}, true);
  const std::string before = text_of(*kept.train);
  folder.write("f", "1 1:1\n-1 1:1\n");
  CHECK(load("libsvm", file, {}, true).train->size() == 2);
  CHECK(text_of(*kept.train) == before);
}

TEST_CASE("where the rows cannot be written, the answer names the file and the way out") {
  const row_folder folder;
  const std::string mend = "); make its folder writable, or set data.mapped = false";
  const fs::path taken = folder.write("taken", small);
  fs::create_directory(taken.string() + ".rows");
  const std::string told = failure([&] { load("libsvm", taken, {}, true); });
  CHECK(holds(told, taken.string() + ".rows: cannot write the file ("));
  CHECK(holds(told, mend));
  CHECK(folder.names() == std::vector<std::string>{"taken", "taken.rows"});
  const fs::path long_name = folder.write(std::string(250, 'n'), small);  // leaves no room for a suffix
  CHECK(holds(failure([&] { load("libsvm", long_name, {}, true); }), mend));
  if (geteuid() != 0) {  // root may write anywhere
    fs::create_directory(folder.path() / "locked");
    const fs::path locked = folder.write("locked/f", small);
    fs::permissions(locked.parent_path(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(holds(failure([&] { load("libsvm", locked, {}, true); }), "Permission denied" + mend));
    fs::permissions(locked.parent_path(), fs::perms::owner_all);
  }
}

TEST_CASE("a file larger than the memory it is given is turned into rows") {
  const row_folder folder;
  std::string part;
  for (int row = 0; row < 2000; ++row) {
    part += row % 2 == 0 ? "1" : "-1";
    for (int index = 1; index <= 100; ++index) part += " " + std::to_string(index * 9) + ":0.25";
    part += "\n";
  }
  const fs::path file = folder.pack("f.gz", part, 40);  // 64 MB of rows, from 72 MB of text
  const auto status = [](const std::string& wanted) {
    std::ifstream text{"/proc/self/status"};
    for (std::string line; std::getline(text, line);)
      if (line.starts_with(wanted)) return std::stoll(line.substr(wanted.size())) << 10;
    return -1LL;
  };
  std::ofstream{"/proc/self/clear_refs"} << 5 << std::flush;  // resets the peak to the current size
  const long long before = status("VmRSS:");
  const bool forgotten = status("VmHWM:") < before + 4'000'000;  // not every machine lets a process reset the peak
  const dataset_pair pair = load("libsvm", file, {}, true);
  const long long most = status("VmHWM:") - before;
  CHECK(pair.train->size() == 80'000);
  CHECK(fs::file_size(file.string() + ".rows") > 64'000'000);
  if (forgotten) CHECK(most < 24'000'000);
  MESSAGE("memory grew by " << most / 1'000'000 << " MB");
}

TEST_CASE("a mapped file that is cut off or overwritten is named, and nothing outside of it is read") {
  random_stream stream{1};
  std::string text;
  for (int row = 0; row < 3000; ++row) {
    text += row % 2 == 0 ? "1" : "-1";
    for (std::uint64_t index = 1 + stream.below(40); index < 1000; index += 1 + stream.below(40))
      text += " " + std::to_string(index) + ":0.5";
    text += "\n";
  }
  const auto act_on = [&](const std::function<void(const fs::path&)>& change) {
    const row_folder folder;
    const fs::path file = folder.write("rows", text), rows = file.string() + ".rows";
    const auto sets = load("libsvm", file, {}, true);
    checked_rows checked;
    const std::vector<std::int64_t> all{0, 1500, 2999, 7};
    CHECK(checked.take(*sets.train->rows, all).size() == 4);
    change(rows);
    const auto said = rows.string() +
                      ": the file was changed while it was in use; restart the run, and let no other program write to "
                      "this file";
    CHECK(failure([&] {
            checked.take(*sets.train->rows, all);
            checked.require_unchanged();
          }) == said);
    CHECK(failure([&] { make_batch(*sets.train, {}, {2999}); }) == said);
    CHECK(failure([&] { sparsity_of(*sets.train->rows); }) == said);
    CHECK(failure([&] { touches(*sets.train->rows->chosen({5, 2998})); }) == said);
    CHECK(sets.train->targets.sum().item<std::int64_t>() == 1500);
  };
  act_on([](const fs::path& rows) { fs::resize_file(rows, 4096); });
  act_on([](const fs::path& rows) { fs::resize_file(rows, 0); });
  act_on([](const fs::path& rows) {
    std::fstream file{rows, std::ios::in | std::ios::out | std::ios::binary};
    file << std::string(fs::file_size(rows), '\xff');
  });
  act_on([](const fs::path& rows) {
    const auto before = fs::last_write_time(rows);
    std::fstream{rows, std::ios::in | std::ios::out | std::ios::binary} << std::string(fs::file_size(rows), '\x7f');
    fs::last_write_time(rows, before);  // as after a copy with preserved times
  });
}

TEST_CASE("a mapped file that is replaced under its name stays as it was") {
  const row_folder folder;
  const fs::path file = folder.write("rows", small), rows = file.string() + ".rows";
  const auto sets = load("libsvm", file, {}, true);
  const auto before = text_of(*sets.train);
  fs::rename(folder.write("other", "something else"), rows);
  CHECK(text_of(*sets.train) == before);
  checked_rows checked;
  CHECK(checked.take(*sets.train->rows, std::vector<std::int64_t>{0}).size() == 1);
}

}  // namespace row_files_mapped_test

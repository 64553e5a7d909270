// LIBSVM's text format and ratings, plain and compressed: what is read, and which mistakes are reported.
#include "troupe/data/sets/row_files.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/sparse_files.hpp"

#include "troupe/data/formats/lines.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace row_files_test {

using namespace troupe::data;
using namespace troupe::testing;
namespace fs = std::filesystem;

TEST_CASE("LIBSVM's text is read: comments, blank lines, signs, exponents, any white space") {
  const row_folder folder;
  const fs::path file = folder.write("train",
                                     "# a set\n\n1 1:0.5 3:-2e-1\t7:1 \n  \n-1.0   2:+4 # more\r\n+1\n"
                                     "-1 5:0 6:1e-60 8:1E3");
  const dataset_pair pair = load("libsvm", file);
  CHECK(text_of(*pair.train) == "0:0.5 2:-0.2 6:1\n1:4\n\n7:1000\n");
  CHECK(at::equal(pair.train->targets, at::tensor({1, 0, 1, 0}, at::kLong)));
  CHECK(pair.train->classes == std::vector<std::string>{"-1", "1"});
  CHECK_FALSE(pair.train->inputs.defined());
  CHECK(pair.sample_shape == std::vector<std::int64_t>{8});
  CHECK(pair.train->rows->columns() == 8);
  CHECK(pair.test == pair.train);
  CHECK(pair.files == std::vector<std::string>{file.string()});
}

TEST_CASE("a compressed file is read as a plain one, also of several members") {
  const row_folder folder;
  const dataset_pair plain = load("libsvm", folder.write("plain", small + small + small));
  const dataset_pair packed = load("libsvm", folder.pack("packed", small, 3));
  CHECK(text_of(*packed.train) == text_of(*plain.train));
  CHECK(at::equal(packed.train->targets, plain.train->targets));
}

TEST_CASE("of two labels the smaller is class 0, whichever comes first") {
  const row_folder folder;
  const struct {
    std::string first, second;
    std::vector<std::string> classes;
    std::int64_t first_class;
  } table[] = {{"0", "1", {"0", "1"}, 0},
               {"2", "1", {"1", "2"}, 1},
               {"-1", "+1", {"-1", "1"}, 0},
               {"1", "-1", {"-1", "1"}, 1},
               {"-0", "5e-1", {"0", "0.5"}, 0}};
  for (const auto& [first, second, classes, first_class] : table) {
    const fs::path file = folder.write("f", first + " 1:1\n" + second + " 1:1\n" + first + " 2:1\n");
    for (const bool mapped : {false, true}) {
      const dataset_pair pair = load("libsvm", file, {}, mapped);
      CHECK(pair.train->classes == classes);
      CHECK(at::equal(pair.train->targets, at::tensor({first_class, 1 - first_class, first_class}, at::kLong)));
    }
    fs::remove(file.string() + ".rows");
  }
}

TEST_CASE("columns are those of both files, and the test set has the training set's labels") {
  const row_folder folder;
  const fs::path train = folder.write("train", "2 1:1 4:1\n1 2:1\n"), test = folder.write("test", "2 9:1\n2 1:1\n");
  for (const bool mapped : {false, true, true}) {
    const dataset_pair pair = load("libsvm", train, test, mapped);
    CHECK(pair.sample_shape == std::vector<std::int64_t>{9});
    CHECK(pair.train->rows->columns() == 9);
    CHECK(at::equal(pair.train->targets, at::tensor({1, 0}, at::kLong)));
    CHECK(at::equal(pair.test->targets, at::tensor({1, 1}, at::kLong)));
    CHECK(pair.files == std::vector<std::string>{train.string(), test.string()});
  }
  // The labels of the training set change, so the stored rows of the test set have the wrong classes.
  folder.write("train", "2 1:1 4:1\n3 2:1\n2 1:1\n");
  CHECK(at::equal(load("libsvm", train, test, true).test->targets, at::tensor({0, 0}, at::kLong)));
  folder.write("test", "2 9:1\n\n4 1:1\n");
  const std::string wanted = test.string() +
                             ":3: found the label 4, which does not occur in the training set; expected only 2 and 3 "
                             "because only two classes are supported";
  for (const bool mapped : {false, true}) {
    CHECK(failure([&] { load("libsvm", train, test, mapped); }) == wanted);
  }
}

TEST_CASE("what is wrong in LIBSVM's text is answered with file, line, what was found and what was expected") {
  const row_folder folder;
  const std::string good = "1 1:1\n-1 2:1\n";
  const struct {
    std::string line, reason;
  } table[] = {
      {"1 0:1", "found the index 0; indices start at 1: add 1 to every index of the data set"},
      {"1 5:1 3:1", "found the index 3 after 5; expected the indices of a line in ascending order, each once"},
      {"1 5:1 5:1", "found the index 5 after 5; expected the indices of a line in ascending order, each once"},
      {"1 268435457:1",
       "found the index \"268435457\"; the largest supported index is 268435456 because the model"
       " has one weight per index"},
      {"1 99999999999999999999999:1", "found the index \"99999999999999999999999\"; the largest supported index is"},
      {"1 1:inf", "the value of index 1 is not a finite single-precision number"},
      {"1 1:nan", "the value of index 1 is not a finite single-precision number"},
      {"1 1:1e39", "the value of index 1 is not a finite single-precision number"},
      {"1 1:-1e999", "the value of index 1 is not a finite single-precision number"},
      {"1 1:", "found \"1:\" instead of index:value; expected a pair such as 12:0.5"},
      {"1 1:x", "found \"1:x\" instead of index:value; expected a pair such as 12:0.5"},
      {"1 1:1:1", "found \"1:1:1\" instead of index:value; expected a pair such as 12:0.5"},
      {"1 1:0x1p3", "found \"1:0x1p3\" instead of index:value"},
      {"1 1:+-3", "found \"1:+-3\" instead of index:value"},
      {"1 -3:1", "found \"-3:1\" instead of index:value"},
      {"1 1.5:1", "found \"1.5:1\" instead of index:value"},
      {"1 7", "found \"7\" instead of index:value"},
      {"1 : 1", "found \":\" instead of index:value"},
      {"1 qid:3 1:1", "found \"qid:3\" instead of index:value"},
      {"1,2 1:1", "found \"1,2\" instead of a label; expected a number such as 1 or -1"},
      {"1:1 2:1", "found \"1:1\" instead of a label; expected a number such as 1 or -1"},
      {"nan 1:1", "found \"nan\" instead of a label; expected a number such as 1 or -1"},
      {"1e60 1:1", "found \"1e60\" instead of a label; expected a number such as 1 or -1"},
      {"\x80\x7f 1:1", "found \"\\x80\\x7f\" instead of a label"},
      {"7 1:1", "found the label 7; expected only -1 and 1 because only two classes are supported"},
      {"1 " + std::string(100, 'y'), "found \"" + std::string(40, 'y') + "…\" instead of index:value"},
      {std::string("1 1:1\0", 6), "found a zero byte, which cannot occur in text; expected a text file"},
  };
  for (const auto& [line, reason] : table) {
    CAPTURE(line);
    std::string whole = good;
    whole += line;
    whole += "\n1 1:1\n";
    for (const fs::path& file : {folder.write("f", whole), folder.pack("f.gz", whole)}) {
      for (const bool mapped : {false, true}) {
        const std::string told = failure([&] { load("libsvm", file, {}, mapped); });
        CHECK(holds(told, file.string() + ":3: " + reason));
      }
    }
  }
  CHECK(folder.names() == std::vector<std::string>{"f", "f.gz"});  // no partially written file is left
}

TEST_CASE("files that cannot be a set are refused") {
  const row_folder folder;
  const auto told = [](const fs::path& file, const std::string& kind = "libsvm") {
    const std::string unmapped = failure([&] { load(kind, file); });
    CHECK(unmapped == failure([&] { load(kind, file, {}, true); }));
    return unmapped;
  };
  for (const std::string kind : {"libsvm", "triplets"}) {
    CAPTURE(kind);
    CHECK(told({}, kind) == "data.file is not set; set it to the file that contains the samples");
    CHECK(told(folder.path() / "nothing", kind) ==
          (folder.path() / "nothing").string() + ": no such file; set data.file to the file that contains the samples");
    CHECK(told(folder.path(), kind) ==
          folder.path().string() + ": this is a folder, not a regular file; set data.file to a regular file");
    CHECK(told("/dev/zero", kind) ==
          "/dev/zero: this is a device, not a regular file; set data.file to a regular file");
    const std::string utf16{
        "\xff\xfe"
        "1\0 \0",
        6};
    CHECK(holds(told(folder.write("utf16", utf16), kind), "utf16: the text is encoded in UTF-16; expected UTF-8"));
    const fs::path marked = folder.write("marked", "\xef\xbb\xbf" + (kind == "libsvm" ? small : "1 1 1\n"));
    CHECK(load(kind, marked).train->size() > 0);
    const fs::path empty = folder.write("empty", "");
    CHECK(told(empty, kind) == empty.string() + ": the file contains no samples; set data.file to a file that does");
    CHECK(told(folder.write("comments", "# none\n\n   \n"), kind) ==
          (folder.path() / "comments").string() + ": the file contains no samples; set data.file to a file that does");
    CHECK(holds(told(folder.pack("empty.gz", ""), kind), "the file contains no samples"));
    const fs::path good = folder.write("good", kind == "libsvm" ? small : "1 1 1\n");
    CHECK(holds(failure([&] { load(kind, good, folder.path() / "nothing"); }), ": no such file; set data.test_file"));
    CHECK(holds(failure([&] { load(kind, good, empty); }), "no samples; set data.test_file"));
    const fs::path image = folder.write("image", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
    CHECK(holds(told(image, kind), image.string() + ":1: found "));
  }
  const fs::path one = folder.write("one", "1 1:1\n1 2:1\n");
  CHECK(told(one) ==
        one.string() +
            ": every label is 1; expected two labels, such as -1 and 1, 0 and 1, or 1 and 2; set data.file to "
            "a file with two classes");
  CHECK(holds(told(folder.write("bare", "1\n-1\n")), "no sample has an index"));
}

TEST_CASE("a compressed file that is damaged, truncated or followed by something is refused") {
  const row_folder folder;
  std::string text;
  for (int line = 0; line < 3000; ++line) text += std::to_string(line % 2) + " 1:" + std::to_string(line * 7919) + "\n";
  const std::string good = contents(folder.pack("good.gz", text));
  REQUIRE(load("libsvm", folder.path() / "good.gz").train->size() == 3000);
  const auto told = [&](const std::string& bytes) {
    const fs::path file = folder.write("f.gz", bytes);
    const std::string reason = failure([&] { load("libsvm", file); });
    CHECK(holds(reason, file.string() + ":"));
    return reason;
  };
  for (const std::size_t size : {std::size_t{5}, std::size_t{40}, good.size() / 2, good.size() - 1})
    CHECK(holds(told(good.substr(0, size)), ": the compressed file is truncated; obtain it again"));
  std::string checksum = good;
  checksum[good.size() - 7] = static_cast<char>(~checksum[good.size() - 7]);
  CHECK(holds(told(checksum), "the compressed data is damaged (incorrect data check); obtain the file again"));
  CHECK(holds(told(good + "more"), "the compressed data is damaged (incorrect header check)"));
  CHECK(holds(told(good + good.substr(0, 20)), "truncated"));
}

TEST_CASE("a line that is too long is refused, one that is not is read, and memory stays within it") {
  const row_folder folder;
  const std::string spaces(lines::longest, ' ');
  const fs::path longer = folder.pack("long.gz", "1 1:1\n-1 2:1" + spaces + "3:1\n");
  CHECK(failure([&] { load("libsvm", longer); }) ==
        longer.string() + ":2: the line is longer than 16 MiB; expected a text file with one sample per line");
  const fs::path shorter = folder.pack("short.gz", "1 1:1\n-1 2:1" + spaces.substr(100) + "3:1\n1 1:1");
  CHECK(load("libsvm", shorter).train->rows->at(1).count == 2);
  lines text{shorter, "data.file"};
  std::size_t most = 0;
  while (text.next()) most = std::max(most, text.memory());
  CHECK(most <= lines::longest + (std::size_t{1} << 18));
}

TEST_CASE("lines are handed out whole, wherever the blocks of the file end") {
  const row_folder folder;
  random_stream stream{keyed(2, purpose::sparse)};
  std::vector<std::string> wanted;
  std::string text;
  for (int line = 0; line < 300; ++line) {
    wanted.emplace_back(stream.below(line % 50 == 0 ? 400'000 : 4000), static_cast<char>('a' + line % 26));
    text += wanted.back() + (line % 3 == 0 ? "\r\n" : "\n");
  }
  text.pop_back();  // the last line has no line end
  for (const fs::path& file : {folder.write("f", text), folder.pack("f.gz", text)}) {
    lines read{file, "data.file"};
    for (const std::string& line : wanted) {
      const auto found = read.next();
      REQUIRE(found);
      REQUIRE(*found == line);
    }
    CHECK_FALSE(read.next());
    CHECK_FALSE(read.next());
  }
}

TEST_CASE("ratings are read, whatever separates them") {
  const row_folder folder;
  for (const std::string line : {"3 17 4.5", "3\t17\t4.5", "3,17,4.5", "3::17::4.5", " 3 , 17 ,4.5 ",
                                 "3::17::4.5::978300760", "3,17,4.5,1094785740\r", "3  17 4.5 # seen twice"}) {
    CAPTURE(line);
    const fs::path file = folder.write("f", "# user item rating\n" + line + "\n\n0 2 -1\n");
    const dataset_pair pair = load("triplets", file);
    CHECK(text_of(*pair.train) == "3:1 21:1\n0:1 6:1\n");
    CHECK(at::equal(pair.train->targets, at::tensor({4.5, -1.0}, at::kFloat)));
    CHECK(pair.sample_shape == std::vector<std::int64_t>{4, 18});
    CHECK(pair.train->rows->columns() == 22);
    CHECK(pair.train->classes.empty());
    CHECK(pair.test == pair.train);
  }
  CHECK(find_dataset("triplets")->classes == 0);
}

TEST_CASE("items begin behind the users of both files") {
  const row_folder folder;
  const fs::path train = folder.write("train", "1 1 5\n2 3 4\n3 1 1\n"), test = folder.write("test", "5 0 2\n");
  for (const bool mapped : {false, true, true}) {
    const dataset_pair pair = load("triplets", train, test, mapped);
    CHECK(pair.sample_shape == std::vector<std::int64_t>{6, 4});
    CHECK(text_of(*pair.train) == "1:1 7:1\n2:1 9:1\n3:1 7:1\n");
    CHECK(text_of(*pair.test) == "5:1 6:1\n");
    CHECK(at::equal(pair.train->targets, at::tensor({5, 4, 1}, at::kFloat)));
  }
  // The other file has fewer users, so the stored rows of the first file are no longer valid.
  folder.write("test", "0 0 2\n0 7 2\n");
  const dataset_pair pair = load("triplets", train, test, true);
  CHECK(pair.sample_shape == std::vector<std::int64_t>{4, 8});
  CHECK(text_of(*pair.train) == "1:1 5:1\n2:1 7:1\n3:1 5:1\n");
}

TEST_CASE("what is wrong in ratings is answered with file, line, what was found and what was expected") {
  const row_folder folder;
  const struct {
    std::string line, reason;
  } table[] = {
      {"userId,movieId,rating", "found \"userId\" instead of the number of a user; expected a line `user item rating`"},
      {"-1 2 3", "found \"-1\" instead of the number of a user"},
      {"1.5 2 3", "found \"1.5\" instead of the number of a user"},
      {"1", "found \"\" instead of the number of an item"},
      {"1 2", "found \"\" instead of a rating"},
      {"1,,2,3", "found \"\" instead of the number of an item"},
      {"1:2:3", "found \"\" instead of the number of an item"},
      {"1 2 x", "found \"x\" instead of a rating"},
      {"1 2 nan", "found \"nan\" instead of a rating"},
      {"1 2 1e40", "found \"1e40\" instead of a rating"},
      {"1 2 3 4 5",
       "found \"5\" after the fourth number; expected `user item rating`, optionally followed by one number (a time), "
       "which is ignored"},
      {"1 2 3 x", "found \"x\" instead of a time or the end of the line"},
      {"268435456 1 1",
       "found \"268435456\" as the number of a user; the largest supported number is 268435455 because the model has "
       "weights for each"},
      {"1 99999999999999999999 1", "as the number of an item; the largest supported number is 268435455"},
  };
  for (const auto& [line, reason] : table) {
    CAPTURE(line);
    const fs::path file = folder.write("f", "1 1 1\n" + line + "\n");
    for (const bool mapped : {false, true}) {
      const std::string told = failure([&] { load("triplets", file, {}, mapped); });
      CHECK(holds(told, file.string() + ":2: "));
      CHECK(holds(told, reason));
    }
  }
  CHECK(holds(failure([&] { load("triplets", folder.write("f", "268435455 0 1\n0 1 1\n")); }),
              ": 268435456 users and 2 items exceed the total limit of 268435456; renumber them without gaps"));
}

TEST_CASE("no bytes crash the readers: they are a set or a data_error") {
  const row_folder folder;
  random_stream stream{keyed(4, purpose::sparse)};
  const std::string alphabet = "0123456789:::  \t\n\n,,.-+e#x\r\0\xff";
  const std::string ratings = "1 1 1\n2,3,4.5\n3::4::1e-3::7\n";
  int sets = 0;
  for (int round = 0; round < 800; ++round) {
    const std::string kind = round % 2 == 0 ? "libsvm" : "triplets";
    std::string bytes;
    if (round % 3 == 0) {
      for (std::uint64_t left = stream.below(200); left > 0; --left) bytes += alphabet[stream.below(alphabet.size())];
    } else {
      bytes = kind == "libsvm" ? small : ratings;
      if (round % 5 == 0) bytes = contents(folder.pack("packed", bytes));
      for (std::uint64_t left = stream.below(4); left > 0 && !bytes.empty(); --left) {
        const std::size_t at = stream.below(bytes.size());
        const std::uint64_t how = stream.below(3);
        if (how == 0) bytes[at] = alphabet[stream.below(alphabet.size())];
        if (how == 1) bytes[at] = static_cast<char>(stream.below(256));
        if (how == 2) bytes.resize(at);
      }
    }
    const fs::path file = folder.write("f", bytes);
    CAPTURE(bytes);
    try {
      const dataset_pair pair = load(kind, file, {}, round % 7 == 0);
      ++sets;
      const sparse_rows& rows = *pair.train->rows;
      REQUIRE(rows.rows() == pair.train->size());
      for (std::int64_t index = 0; index < rows.rows(); ++index) {
        const auto row = rows.at(index);
        std::int32_t before = -1;
        for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
          CHECK((row.columns[nonzero] > before && row.columns[nonzero] < rows.columns()));
          CHECK(std::isfinite(row.values[nonzero]));
          before = row.columns[nonzero];
        }
      }
    } catch (const data_error& error) {
      CHECK(holds(error.what(), file.string() + ":"));
    }
  }
  CHECK(sets > 100);
}

}  // namespace row_files_test

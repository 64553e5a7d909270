#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace text_test {

using namespace troupe::data;
using troupe::testing::scratch;
namespace fs = std::filesystem;

namespace {

dataset_pair load(const fs::path& file, std::int64_t length, const fs::path& test_file = {}) {
  data_source from;
  from.file = file;
  from.test_file = test_file;
  from.sequence_length = length;
  return find_dataset("text")->load(from);
}

std::string failure(const fs::path& file, std::int64_t length, const fs::path& test_file = {}) {
  try {
    load(file, length, test_file);
  } catch (const data_error& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace

TEST_CASE("samples of a text are windows one behind the other, targets the next characters") {
  const scratch here;
  const auto sets = load(here.write("a", "badcabcd"), 3);
  CHECK(sets.train->classes == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(at::equal(sets.train->inputs, at::tensor({1, 0, 3, 2, 0, 1}, at::kLong).view({2, 3})));
  CHECK(at::equal(sets.train->targets, at::tensor({0, 3, 2, 0, 1, 2}, at::kLong).view({2, 3})));
  CHECK(sets.train->inputs.is_contiguous());
  CHECK(sets.train->targets.is_contiguous());
  CHECK(sets.train->inputs.storage().data() == sets.train->targets.storage().data());  // one copy in memory
  CHECK(sets.sample_shape == std::vector<std::int64_t>{3});
  CHECK(sets.test == sets.train);
}

TEST_CASE("characters are code points where the training text is UTF-8, else bytes") {
  const scratch here;
  CHECK(load(here.write("a", "zäöz€𝄞"), 1).train->classes == std::vector<std::string>{"z", "ä", "ö", "€", "𝄞"});
  CHECK(load(here.write("a", "z\xe4\nz"), 1).train->classes == std::vector<std::string>{"\n", "z", "\\xe4"});
  for (const char* none : {"a\xc0\xaf"
                           "a",
                           "a\xed\xa0\x80"
                           "a",
                           "a\xf4\x90\x80\x80"
                           "a",
                           "a\xe2\x82"}) {
    CAPTURE(none);
    const auto names = load(here.write("a", none), 1).train->classes;
    CHECK(names.front() == "a");
    CHECK(names.back().starts_with("\\x"));
  }
}

TEST_CASE("a test text has the characters of the training text") {
  const scratch here;
  const auto train = here.write("train", "abcä\n"), test = here.write("test", "cab\nc");
  const auto sets = load(train, 2, test);
  CHECK(at::equal(sets.test->inputs, at::tensor({3, 1, 2, 0}, at::kLong).view({2, 2})));
  CHECK(sets.files == std::vector<std::string>{train, test});
  const auto other = here.write("other", "ab\n\nabö");
  CHECK(failure(train, 2, other) == other.string() +
                                        ":3: found the character \"ö\", which does not occur in the training text "
                                        "train; remove it here or add it there");
  const auto bytes = here.write("bytes", "ab\xe4");
  CHECK(failure(train, 2, bytes).find(bytes.string() + ":1: found the character \"\\xe4\"") == 0);
}

TEST_CASE("a text that fills no window is refused") {
  const scratch here;
  const auto file = here.write("a", "abcä");
  CHECK(failure(file, 4) ==
        file.string() +
            ": the file has 4 characters, but data.sequence_length = 4 requires at least 5; provide "
            "more text or reduce data.sequence_length");
  CHECK(failure(here.write("a", ""), 1).find("has 0 characters") != std::string::npos);
  CHECK(failure({}, 1) == "data.file is not set; set it to the file that contains the text");
  CHECK(failure(here.path() / "none", 1).find("no such file; set data.file to") != std::string::npos);
  CHECK(failure(here.path(), 1).find("not a regular file") != std::string::npos);
  CHECK(failure("/dev/zero", 1) == "/dev/zero: this is a device, not a regular file; set data.file to a regular file");
}

TEST_CASE("a text in another encoding is not taken for bytes") {
  using namespace std::string_literals;
  const scratch here;
  for (const auto& text : {"\xff\xfe"
                           "a\0b\0"s,
                           "\xfe\xff\0a\0b"s}) {
    const auto file = here.write("a.txt", text);
    CHECK(failure(file, 1) == file.string() +
                                  ": the text is encoded in UTF-16; expected UTF-8; convert it with iconv -f "
                                  "UTF-16 -t UTF-8 a.txt > a-utf8.txt");
  }
  CHECK(failure(here.write("a.txt", "\xff\xfe\0\0a\0\0\0"s), 1).find("encoded in UTF-32") != std::string::npos);
  CHECK(failure(here.write("a.txt", "\0\0\xfe\xff\0\0\0a"s), 1).find("encoded in UTF-32") != std::string::npos);
  CHECK(failure(here.write("a.txt", "a\0b\0"s), 1).find("found a zero byte at byte 1") != std::string::npos);
}

TEST_CASE("the byte order mark of UTF-8 is not a character of the text") {
  const scratch here;
  CHECK(load(here.write("a",
                        "\xef\xbb\xbf"
                        "abc"),
             1)
            .train->classes == std::vector<std::string>{"a", "b", "c"});
}

}  // namespace text_test

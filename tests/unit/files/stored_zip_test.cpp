#include "troupe/files/stored_zip.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/stored_archive.hpp"

#include "troupe/files/crc32.hpp"

#include <random>
#include <string>
#include <vector>

namespace stored_zip_test {

using namespace troupe;

namespace {

/// Returns why an archive with these bytes, or one of its entries, is refused; empty if it is not.
std::string refusal_of(const std::string& bytes) try {
  const testing::scratch folder;
  const files::stored_zip archive{folder.write("a.zip", bytes)};
  for (const auto& [name, where] : archive.entries()) archive.text(name);
  return {};
} catch (const files::zip_error& reason) {
  return reason.what();
}

}  // namespace

TEST_CASE("the checksum is that of IEEE 802.3") {
  CHECK(crc32(testing::bytes_of("123456789")) == 0xcbf43926);
  CHECK(crc32(testing::bytes_of("6789"), crc32(testing::bytes_of("12345"))) == 0xcbf43926);
  CHECK(crc32({}) == 0);
}

TEST_CASE("the entries of an archive are read") {
  const testing::scratch folder;
  const std::string many(1000, 'x');
  const files::stored_zip archive{
      folder.write("a.zip", testing::stored_archive({{"net/a", "first"}, {"net/b", ""}, {"net/c", many}}))};
  CHECK(archive.entries().size() == 3);
  CHECK(archive.text("net/a") == "first");
  CHECK(archive.text("net/b").empty());
  CHECK(archive.text("net/c") == many);
  CHECK(archive.find("net/d") == nullptr);
  CHECK_THROWS_WITH_AS(archive.text("net/d"), "it has no entry net/d", files::zip_error);
}

TEST_CASE("an archive that contradicts itself is refused") {
  const auto whole = testing::stored_archive({{"net/a", "first"}, {"net/b", "second"}});
  CHECK(refusal_of(whole).empty());
  CHECK(refusal_of("") == "the file is too small for a zip archive");
  CHECK(refusal_of(whole.substr(0, whole.size() - 1)) ==
        "the file does not end as a zip archive does; it may be cut off");
  CHECK(refusal_of(testing::stored_archive({{"a", "x"}, {"a", "y"}})) == "its entry a is in it twice");
  auto other = whole;
  other[other.find("first")] = 'F';
  CHECK(refusal_of(other) == "its entry net/a does not match its checksum");
  auto compressed = whole;
  compressed[compressed.find("PK\1\2") + 10] = 8;
  CHECK(refusal_of(compressed) == "its entry net/a is compressed or encrypted");
}

TEST_CASE("an archive with other bytes is refused, or has the same entries") {
  const testing::scratch folder;
  const std::vector<testing::archive_entry> entries{{"net/a", "first"}, {"net/b", ""}, {"net/c", "third"}};
  const auto whole = testing::stored_archive(entries);
  std::mt19937 random{1};
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
  };
  int accepted = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    auto bytes = whole;
    for (auto changes = 1 + below(3); changes > 0; --changes) {
      if (below(8) == 0) bytes.resize(1 + below(bytes.size()));
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    }
    try {
      const files::stored_zip archive{folder.write("a.zip", bytes)};
      for (const auto& [name, content] : entries) {
        const auto read = archive.text(name);
        REQUIRE(read == content);
      }
      ++accepted;
    } catch (const files::zip_error&) {
    }
  }
  CHECK(accepted > 0);  // some bytes, such as dates, do not matter
}

}  // namespace stored_zip_test

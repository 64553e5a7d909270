#include "troupe/data/formats/utf8.hpp"

#include "tests/support/doctest.hpp"

namespace utf8_test {

using namespace troupe::data;

TEST_CASE("of bytes that are not UTF-8 it is told where they begin, and they are shown as numbers") {
  const struct {
    std::string text;
    std::size_t beginning;
    std::string shown;
  } table[] = {
      {"", 0, ""},
      {"plain", 5, "plain"},
      {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xad", 9, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xad"},  // of two, three and four
      {"a\n\x7f", 3, "a\\x0a\\x7f"},
      {"a\xe9z", 1, "a\\xe9z"},
      {"a\xc2\x9bz", 4, "a\\xc2\\x9bz"},  // a control character of two bytes
      {"\xc3", 0, "\\xc3"},
      {"a\xc0\xaf", 1, "a\\xc0\\xaf"},                  // overlong
      {"\xe0\x80\xaf", 0, "\\xe0\\x80\\xaf"},           // overlong
      {"\xed\xa0\x80", 0, "\\xed\\xa0\\x80"},           // half of a surrogate pair
      {"\xf4\x90\x80\x80", 0, "\\xf4\\x90\\x80\\x80"},  // beyond the last
  };
  for (const auto& [text, beginning, shown] : table) {
    CAPTURE(shown);
    CHECK(utf8_beginning(text) == beginning);
    CHECK(printable_utf8(text) == shown);
    CHECK(utf8_beginning(printable_utf8(text)) == shown.size());
  }
}

TEST_CASE("a long text is cut at a character") {
  CHECK(clipped("short", 5) == "short");
  CHECK(clipped("longer", 5) == "longe…");
  CHECK(clipped("a\xc3\xa4\xc3\xa4", 4) == "a\xc3\xa4…");
  CHECK(clipped("", 0) == "");
}

}  // namespace utf8_test

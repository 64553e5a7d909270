#include "troupe/runtime/support/terminal.hpp"

#include "tests/support/doctest.hpp"

namespace terminal_test {

using troupe::for_terminal;

TEST_CASE("text for a terminal holds no control characters but line feeds") {
  CHECK(for_terminal("plain é\nsecond line") == "plain é\nsecond line");
  CHECK(for_terminal("\x1b[31mred\r\x07") == "\\x1b[31mred\\x0d\\x07");
  CHECK(for_terminal("") == "");
  CHECK(for_terminal("a\n") == "a\n");
}

TEST_CASE("the middle of a long line is left out, at whole characters") {
  const auto line = std::string(100'000, 'x');
  const auto shown = for_terminal("begin\n" + line + "end\nlast");
  CHECK(shown.size() < 1'200);
  CHECK(shown.starts_with("begin\nxxx"));
  CHECK(shown.ends_with("xxxend\nlast"));
  CHECK(shown.find("(99003 bytes left out)") != std::string::npos);
  std::string letters;
  while (letters.size() < 2'001) letters += "ä";
  const auto cut = for_terminal("x" + letters);
  CHECK(cut.find("\\x") == std::string::npos);
}

}  // namespace terminal_test

#include "troupe/data/formats/encoding.hpp"

namespace troupe::data {

std::size_t utf8_mark(std::string_view text) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return text.starts_with(mark) ? mark.size() : 0;
}

std::string other_encoding(std::string_view text, const std::filesystem::path& file) {
  using namespace std::string_view_literals;
  std::string encoding;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv))
    encoding = "UTF-32";
  else if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv))
    encoding = "UTF-16";
  if (encoding.empty()) return {};
  const auto converted = file.stem().string() + "-utf8" + file.extension().string();
  return "the text is encoded in " + encoding + "; expected UTF-8; convert it with iconv -f " + encoding +
         " -t UTF-8 " + file.filename().string() + " > " + converted;
}

}  // namespace troupe::data

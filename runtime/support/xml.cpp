#include "troupe/runtime/support/xml.hpp"

#include "troupe/data/formats/utf8.hpp"

namespace troupe::xml {

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : data::printable_utf8(text)) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  return safe;
}

}  // namespace troupe::xml

#include "troupe/files/text.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe::text {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += between;
    text += word;
  }
  return text;
}

std::string listed(const std::vector<std::string>& words, std::string_view last) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? " " + std::string(last) + " " : ", ";
    result += words[i];
  }
  return result;
}

std::vector<std::string> in_quotes(std::vector<std::string> words) {
  for (std::string& word : words) word = '"' + word + '"';
  return words;
}

std::string printable(std::string_view text) {
  constexpr std::size_t most_bytes = 60;
  std::string safe(text.substr(0, most_bytes));
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e; }, '?');
  return text.size() > most_bytes ? safe + "…" : safe;
}

}  // namespace troupe::text

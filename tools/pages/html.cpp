#include "troupe/tools/pages/html.hpp"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace troupe::pages {

std::string filled(std::string_view page, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string text;
  for (auto open = page.find("{{"); open != std::string_view::npos; open = page.find("{{")) {
    const auto close = page.find("}}", open);
    text += page.substr(0, open);
    text += parts.at(std::string(page.substr(open + 2, close - open - 2)));
    page.remove_prefix(close + 2);
  }
  return text + std::string(page);
}

std::string script_json(const std::string& json) {
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const auto length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string url_of_svg(const std::string& drawing) {
  return "data:image/svg+xml;base64," + base64(drawing);
}

std::string policy_source(std::string_view script) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_Digest(script.data(), script.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("this build of OpenSSL does not provide SHA-256");
  return "'sha256-" + base64({reinterpret_cast<const char*>(digest.data()), length}) + "'";
}

}  // namespace troupe::pages

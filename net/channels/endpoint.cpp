#include "troupe/net/channels/endpoint.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace troupe {
namespace {

constexpr std::size_t longest_host = 253;  // RFC 1035, section 2.3.4

/// Returns an IPv6 address in its canonical form.
std::optional<std::string> ipv6(const std::string& text) {
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return {};
  std::array<char, INET6_ADDRSTRLEN> written{};
  return inet_ntop(AF_INET6, &address, written.data(), written.size());
}

/// Parses an IPv4 address: four decimal numbers without leading zeros, which other programs would read as octal.
std::optional<in_addr> ipv4(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return {};
  return address;
}

/// Returns a host name in lower case, made of letters, digits, - and _ between dots, or an IPv4 address. Rejects a name
/// whose last part is a number, because resolvers read it as a short form of an address (127.1).
std::optional<std::string> name_or_ipv4(std::string text) {
  if (text.empty() || text.size() > longest_host || text.front() == '-') return {};
  std::string part;
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '.') {
      if (part.empty()) return {};
      part.clear();
    } else if (byte < 0x80 && (std::isalnum(byte) || c == '-' || c == '_')) {
      c = static_cast<char>(std::tolower(byte));
      part += c;
    } else {
      return {};
    }
  }
  const bool numeric = std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
  if (part.empty() || (numeric && !ipv4(text))) return {};
  return text;
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return port;
}

}  // namespace

std::optional<endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  const auto port = port_of(text.substr(colon + 1));
  const std::string_view before = text.substr(0, colon);
  const bool bracketed = before.size() > 2 && before.front() == '[' && before.back() == ']';
  // C strings would drop everything after a zero byte.
  if (!port || before.find('\0') != std::string_view::npos) return {};
  const auto host =
      bracketed ? ipv6(std::string(before.substr(1, before.size() - 2))) : name_or_ipv4(std::string(before));
  if (!host) return {};
  return endpoint{.host = *host, .port = *port};
}

std::string print_endpoint(const endpoint& where) {
  const std::string port = ":" + std::to_string(where.port);
  return where.host.find(':') == std::string::npos ? where.host + port : "[" + where.host + "]" + port;
}

bool is_loopback(const endpoint& where) {
  if (where.host == "localhost" || ipv6(where.host) == "::1") return true;
  const auto address = ipv4(where.host);
  return address && ntohl(address->s_addr) >> 24 == 127;
}

}  // namespace troupe

#include "troupe/tools/fetch/http_get.hpp"

#include "troupe/net/security/x509.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/http.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

namespace troupe::fetch {

namespace http = boost::beast::http;
using boost::system::error_code;
using security::releases;

namespace {

constexpr int redirections_max = 5;

/// Where distributions keep the certificates of authorities. OpenSSL knows only the place of the one it was built for.
constexpr std::array authorities{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                 "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

/// Returns why the last call to OpenSSL has failed.
std::string reason() {
  const char* detail = "";
  int flags = 0;
  const auto error = ERR_peek_error_data(&detail, &flags);  // the first of them is the cause of the others
  if (error == 0) return "the other side closed the connection";
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  if (ERR_GET_REASON(error) == ERR_R_SYS_LIB && (flags & ERR_TXT_STRING) != 0) return detail;  // of getaddrinfo(3)
  const auto* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "OpenSSL error " + std::to_string(error);
}

/// The parts of a URL.
struct address {
  bool encrypted{false};
  std::string user, host, port, target;

  /// Throws http_error. `what` names the URL in its message.
  explicit address(const std::string& url, const std::string& what = "") {
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
    const auto has_scheme = url.starts_with("http://") || url.starts_with("https://");
    int uses_tls = 0;
    std::array<char*, 6> parts{};
    auto& [user_part, host_part, port_part, path, query, fragment] = parts;
    const bool parsed = has_scheme && std::all_of(url.begin(), url.end(), is_plain) &&
                        OSSL_HTTP_parse_url(url.c_str(), &uses_tls, &user_part, &host_part, &port_part, nullptr, &path,
                                            &query, &fragment) == 1;
    if (parsed) {
      encrypted = uses_tls != 0;
      user = user_part;
      host = host_part;
      port = port_part;
      target = *query == '\0' ? std::string(path) : std::string(path) + "?" + query;
    }
    for (auto* part : parts) OPENSSL_free(part);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);  // of IPv6
    if (!host.empty()) return;
    throw http_error(what.empty() ? "is not an HTTP URL: " + url
                                  : what + " is not an HTTP URL; expected one such as http://proxy:3128");
  }

  std::string endpoint() const { return (is_ipv6() ? "[" + host + "]" : host) + ":" + port; }
  /// Returns the URL without user, path and default port.
  std::string origin() const { return (encrypted ? "https://" : "http://") + authority(); }
  /// Returns the host, and the port unless it is the default.
  std::string authority() const {
    if (port != (encrypted ? "443" : "80")) return endpoint();
    return is_ipv6() ? "[" + host + "]" : host;
  }

 private:
  bool is_ipv6() const { return host.find(':') != std::string::npos; }
};

/// Returns the URL that a server redirects to: RFC 3986, section 5.2, for a path without "..".
std::string resolved(const std::string& location, const address& from) {
  if (location.starts_with("http://") || location.starts_with("https://")) return location;
  if (location.find("://") != std::string::npos) throw http_error("redirected to something else than HTTP");
  if (location.starts_with("//")) return (from.encrypted ? "https:" : "http:") + location;
  if (location.starts_with('/')) return from.origin() + location;
  return from.origin() + from.target.substr(0, from.target.substr(0, from.target.find('?')).rfind('/') + 1) + location;
}

/// Returns text without the escapes of URLs, such as %40.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const auto* digits = text.data() + i + 1;
    const bool escaped =
        text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2;
    plain += escaped ? static_cast<char>(code) : text[i];
    if (escaped) i += 2;
  }
  return plain;
}

std::string base64(const std::string& text) {
  std::string encoded(4 * ((text.size() + 2) / 3) + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()), reinterpret_cast<const unsigned char*>(text.data()),
                  int(text.size()));
  encoded.pop_back();
  return encoded;
}

using parser = http::response_parser<http::buffer_body>;

std::string said(const parser& answer) {
  return "answered " + std::to_string(answer.get().result_int()) + " " + std::string(answer.get().reason());
}

/// A connection to a server, perhaps through a proxy: a SyncReadStream of Beast.
class connection {
 public:
  connection(const address& to, const http_limits& limits) : limits_(limits) {
    const auto* proxy = OSSL_HTTP_adapt_proxy(nullptr, nullptr, to.host.c_str(), to.encrypted ? 1 : 0);
    if (proxy == nullptr) {
      connect(to);
    } else {
      const address through(proxy, to.encrypted ? "the proxy in https_proxy" : "the proxy in http_proxy");
      if (through.encrypted) throw http_error("the proxy " + through.endpoint() + " is encrypted; expected http://");
      connect(through);
      if (!through.user.empty())
        authorization_ = "Proxy-Authorization: Basic " + base64(unescaped(through.user)) + "\r\n";
      is_proxied_ = !to.encrypted;
      if (to.encrypted) ask_for_tunnel(to, through);
    }
    if (to.encrypted) encrypt(to);
  }

  /// Returns whether requests go to a proxy, which needs the whole URL.
  bool is_proxied() const { return is_proxied_; }
  /// Returns the field of a request with the user name and password for the proxy that it goes to, or "".
  std::string authorization() const { return is_proxied_ ? authorization_ : ""; }

  void write(std::string_view text) {
    while (!text.empty())
      text.remove_prefix(static_cast<std::size_t>(done_within(
          limits_.silence, "send a request", [&] { return BIO_write(bio_.get(), text.data(), int(text.size())); })));
  }

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, error_code& error) {
    const auto into = boost::asio::mutable_buffer(*boost::asio::buffer_sequence_begin(buffers));
    const auto most = static_cast<int>(std::min<std::size_t>(into.size(), std::numeric_limits<int>::max()));
    const auto got = wait_for(limits_.silence, [&] { return BIO_read(bio_.get(), into.data(), most); });
    if (got < 0 && ERR_peek_error() != 0) throw http_error("the connection was lost: " + reason());
    error = got > 0 ? error_code() : boost::asio::error::eof;
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) {
    error_code error;
    const auto got = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return got;
  }

 private:
  /// Tries the addresses of the host one after another.
  void connect(const address& to) {
    ERR_clear_error();
    BIO_ADDRINFO* found = nullptr;
    if (BIO_lookup(to.host.c_str(), to.port.c_str(), BIO_LOOKUP_CLIENT, AF_UNSPEC, SOCK_STREAM, &found) != 1)
      throw http_error("cannot connect to " + to.endpoint() + ": " + reason());
    const std::unique_ptr<BIO_ADDRINFO, releases<BIO_ADDRINFO_free>> addresses(found);
    for (const auto* each = found; each != nullptr; each = BIO_ADDRINFO_next(each)) {
      bio_.reset(BIO_new(BIO_s_connect()));
      security::checked(bio_ != nullptr, "BIO_new");
      BIO_set_conn_address(bio_.get(), BIO_ADDRINFO_address(each));
      BIO_set_nbio(bio_.get(), 1L);
      try {
        done_within(limits_.connect, "connect to " + to.endpoint(), [&] { return BIO_do_connect(bio_.get()); });
        return;
      } catch (const http_error&) {
        if (BIO_ADDRINFO_next(each) == nullptr) throw;
      }
    }
  }

  void ask_for_tunnel(const address& to, const address& through) {
    write("CONNECT " + to.endpoint() + " HTTP/1.1\r\nHost: " + to.endpoint() + "\r\n" + authorization_ + "\r\n");
    boost::beast::flat_buffer buffer;
    parser answer;
    answer.skip(true);
    error_code error;
    http::read_header(*this, buffer, answer, error);
    const auto proxy = "the proxy " + through.endpoint();
    if (error) throw http_error(proxy + " sent no valid HTTP response (" + error.message() + ")");
    if (answer.get().result() != http::status::ok) throw http_error(proxy + " " + said(answer));
  }

  void encrypt(const address& to) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    security::checked(context_ != nullptr, "SSL_CTX_new");
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_options(context_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);  // the size of a file is known
    SSL_CTX_set_default_verify_paths(context_.get());
    if (std::getenv("SSL_CERT_FILE") == nullptr)
      for (const auto* file : authorities)
        if (std::filesystem::exists(file) && SSL_CTX_load_verify_file(context_.get(), file) == 1) break;
    auto* encrypted = BIO_new_ssl(context_.get(), 1);
    security::checked(encrypted != nullptr, "BIO_new_ssl");
    bio_.reset(BIO_push(encrypted, bio_.release()));
    SSL* ssl = nullptr;
    BIO_get_ssl(encrypted, &ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), to.host.c_str()) != 1) {  // it is a name
      security::checked(SSL_set1_host(ssl, to.host.c_str()) == 1, "SSL_set1_host");
      SSL_set_tlsext_host_name(ssl, to.host.c_str());
    }
    const auto what = "trust " + to.endpoint();
    try {
      done_within(limits_.connect, what, [&] { return BIO_do_handshake(bio_.get()); });
    } catch (const http_error&) {
      const auto verdict = SSL_get_verify_result(ssl);
      if (verdict == X509_V_OK) throw;
      throw http_error("cannot " + what + ": " + X509_verify_cert_error_string(verdict) +
                       "; SSL_CERT_FILE can name a file with the certificates of the authorities to trust");
    }
  }

  /// Calls a function of OpenSSL until it does not need to wait for the other side any more. Returns its result.
  template <class Call>
  int wait_for(int seconds, Call call) {
    constexpr unsigned milliseconds_between = 100;
    ERR_clear_error();
    const auto deadline = std::time(nullptr) + seconds;
    for (;;) {
      const int result = call();
      if (result > 0 || !BIO_should_retry(bio_.get())) return result;
      if (BIO_wait(bio_.get(), deadline, milliseconds_between) <= 0)
        throw http_error("did not answer for " + std::to_string(seconds) + " seconds");
    }
  }
  template <class Call>
  int done_within(int seconds, const std::string& what, Call call) {
    const int result = wait_for(seconds, call);
    if (result <= 0) throw http_error("cannot " + what + ": " + reason());
    return result;
  }

  std::unique_ptr<SSL_CTX, releases<SSL_CTX_free>> context_;
  std::unique_ptr<BIO, releases<BIO_free_all>> bio_;
  http_limits limits_;
  bool is_proxied_{false};
  std::string authorization_;
};

std::string request(const connection& over, const address& to, std::uint64_t first) {
  return "GET " + (over.is_proxied() ? to.origin() : std::string()) + to.target +
         " HTTP/1.1\r\nHost: " + to.authority() + "\r\nUser-Agent: troupe\r\nAccept: */*\r\nConnection: close\r\n" +
         over.authorization() + (first == 0 ? "" : "Range: bytes=" + std::to_string(first) + "-\r\n") + "\r\n";
}

void read_body(connection& from, boost::beast::flat_buffer& buffer, parser& answer, const take_bytes& take) {
  std::array<char, 1u << 16u> piece{};
  while (!answer.is_done()) {
    answer.get().body().data = piece.data();
    answer.get().body().size = piece.size();
    error_code error;
    http::read_some(from, buffer, answer, error);
    const auto size = piece.size() - answer.get().body().size;
    if (size > 0 && !take({piece.data(), size})) return;
    if (error && error != http::error::need_buffer) return;  // less than the server has promised
  }
}

}  // namespace

void http_get(const std::string& url, std::uint64_t first, const take_bytes& take, const http_limits& limits) {
  auto at = url;
  for (int redirections = 0; redirections <= redirections_max; ++redirections) {
    const address to(at);
    connection over(to, limits);
    over.write(request(over, to, first));
    boost::beast::flat_buffer buffer;
    parser answer;
    answer.body_limit(std::numeric_limits<std::uint64_t>::max());  // `take` ends what is too long
    error_code error;
    http::read_header(over, buffer, answer, error);
    if (error) throw http_error("sent no valid HTTP response (" + error.message() + ")");
    const auto& head = answer.get();
    if (head.result_int() / 100 == 3 && head.count(http::field::location) == 1) {
      at = resolved(std::string(head[http::field::location]), to);
      if (to.encrypted && !at.starts_with("https://")) throw http_error("redirected to an address without encryption");
      continue;
    }
    if (first > 0 && (head.result() == http::status::ok || head.result() == http::status::range_not_satisfiable))
      throw cannot_resume(said(answer));
    if (head.result() != (first > 0 ? http::status::partial_content : http::status::ok)) throw http_error(said(answer));
    return read_body(over, buffer, answer, take);
  }
  throw http_error("redirected more than " + std::to_string(redirections_max) + " times");
}

}  // namespace troupe::fetch

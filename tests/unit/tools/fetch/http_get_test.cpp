#include "troupe/tools/fetch/http_get.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/file_server.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/runtime/security/authority.hpp"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace fetch_http_get_test {

using namespace troupe;
using testing::file_server;

namespace {

/// An environment variable for the time of a test.
class variable {
 public:
  variable(const char* name, const std::string& value) : name_(name) {
    if (const auto* before = ::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Returns the file at `url`, or why there is none.
std::string got(const std::string& url) {
  std::string file;
  try {
    fetch::http_get(url, 0, [&](std::string_view piece) {
      file += piece;
      return true;
    });
  } catch (const fetch::http_error& error) {
    return error.what();
  }
  return file;
}

std::string greeting(const std::string&) {
  return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
}

std::string moved_to(const std::string& place) {
  return "HTTP/1.1 302 Found\r\nLocation: " + place + "\r\nContent-Length: 0\r\n\r\n";
}

}  // namespace

TEST_CASE("a file of unknown size ends with the connection or with its last chunk") {
  const file_server open([](const auto&) { return "HTTP/1.1 200 OK\r\n\r\nhello"; });
  CHECK(got(open.url()) == "hello");
  const file_server chunked([](const auto&) {
    return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
  });
  CHECK(got(chunked.url()) == "hello");
}

TEST_CASE("redirections are followed, but not forever") {
  const file_server end(greeting);
  const file_server begin([&](const auto& request) {
    return request.starts_with("GET /a?b ") ? moved_to("/c") : moved_to(end.url() + "d?e");
  });
  CHECK(got(begin.url() + "a?b") == "hello");
  CHECK(end.requests().at(0).starts_with("GET /d?e HTTP/1.1\r\n"));
  const file_server circle([](const auto&) { return moved_to("/"); });
  CHECK(got(circle.url()) == "redirected more than 5 times");
  CHECK(circle.requests().size() == 6);
  const file_server wrong([](const auto&) { return moved_to("ftp://127.0.0.1/"); });
  CHECK(got(wrong.url()) == "redirected to something else than HTTP");
  const file_server relative(
      [](const auto& request) { return request.starts_with("GET /a/b?") ? moved_to("c") : greeting(request); });
  CHECK(got(relative.url() + "a/b?d/e") == "hello");
  CHECK(relative.requests().at(1).starts_with("GET /a/c HTTP/1.1\r\n"));
  const file_server crooked([](const auto&) { return moved_to("/a b"); });
  CHECK(got(crooked.url()).starts_with("is not an HTTP URL: "));
  for (const auto* url : {"https:///file", "file.gz", "http://", "ftp://host/"}) {
    CAPTURE(url);
    CHECK(got(url) == "is not an HTTP URL: " + std::string(url));
  }
}

TEST_CASE("a server that is silent is given up") {
  const file_server stuck([](const auto&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return "";
  });
  CHECK_THROWS_WITH_AS(fetch::http_get(stuck.url(), 0, [](auto) { return true; }, {.silence = 1}),
                       "did not answer for 1 seconds", fetch::http_error);
}

TEST_CASE("what is not an HTTP server is named") {
  const file_server other([](const auto&) { return "220 welcome\r\n\r\n"; });
  CHECK(got(other.url()).starts_with("sent no valid HTTP response ("));
  const file_server silent([](const auto&) { return ""; });
  CHECK(got(silent.url()).starts_with("sent no valid HTTP response ("));
  const auto unknown = got("http://no-such-host.invalid/");
  CHECK(unknown.starts_with("cannot connect to no-such-host.invalid:80: "));
  CHECK(unknown.find("system lib") == std::string::npos);
}

TEST_CASE("a server of HTTPS has to identify itself") {
  const testing::scratch here;
  security::make_certificates({.folder = here.path(), .nodes = {"localhost", "elsewhere"}});
  const file_server web(greeting, here.path(), "localhost"), other(greeting, here.path(), "elsewhere");
  const auto url = "https://" + web.endpoint("localhost") + "/";
  CHECK(got(url).starts_with("cannot trust " + web.endpoint("localhost") + ": "));
  CHECK(web.requests().empty());
  const variable authority("SSL_CERT_FILE", (here.path() / "authority.crt").string());
  CHECK(got(url) == "hello");
  const file_server downgrade([](const auto&) { return moved_to("http://127.0.0.1/"); }, here.path(), "localhost");
  CHECK(got("https://" + downgrade.endpoint("localhost") + "/") == "redirected to an address without encryption");
  CHECK(got("https://" + other.endpoint("localhost") + "/").find("mismatch") != std::string::npos);
  CHECK(got("https://" + web.endpoint() + "/").find("mismatch") != std::string::npos);
}

TEST_CASE("proxies in the environment are used") {
  const testing::scratch here;
  security::make_certificates({.folder = here.path(), .nodes = {"proxied"}});
  SUBCASE("for HTTP, which they see") {
    const file_server proxy(greeting);
    const variable through("http_proxy", "http://user:s%65cret@" + proxy.endpoint());
    CHECK(got("http://proxied/file?a") == "hello");
    const auto request = proxy.requests().at(0);
    CHECK(request.starts_with("GET http://proxied/file?a HTTP/1.1\r\nHost: proxied\r\n"));
    CHECK(request.find("\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n") != std::string::npos);
    const variable wrong("http_proxy", "socks5://user:secret@" + proxy.endpoint());
    CHECK(got("http://proxied/") ==
          "the proxy in http_proxy is not an HTTP URL; expected one such as http://proxy:3128");
  }
  SUBCASE("for HTTPS, as tunnels") {
    const file_server proxy(greeting, here.path(), "proxied");
    const variable through("https_proxy", "http://" + proxy.endpoint());
    const variable authority("SSL_CERT_FILE", (here.path() / "authority.crt").string());
    CHECK(got("https://proxied/file") == "hello");
    CHECK(proxy.requests().at(0).starts_with("GET /file HTTP/1.1\r\nHost: proxied\r\n"));
    CHECK(proxy.requests().at(0).find("Proxy-Authorization") == std::string::npos);
  }
}

}  // namespace fetch_http_get_test

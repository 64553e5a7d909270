// A server of HTTP or HTTPS on this host, and a proxy for itself.
#pragma once

#include "tests/support/doctest.hpp"

#include "troupe/net/security/x509.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::testing {

/// Passes each request to `answer` and sends back the result, one connection per request. A request for a tunnel is
/// granted: its end is this server, too.
class file_server {
 public:
  using answers = std::function<std::string(const std::string& request)>;

  explicit file_server(answers answer) : file_server(std::move(answer), context{}) {}
  /// Serves HTTPS, with the certificate of `name` in a folder.
  file_server(answers answer, const std::filesystem::path& folder, const std::string& name)
      : file_server(std::move(answer), context_of(folder, name)) {}
  ~file_server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  std::string endpoint(const std::string& host = "127.0.0.1") const { return host + ":" + std::to_string(port_); }
  std::string url() const { return "http://" + endpoint() + "/"; }

  /// Returns the requests so far, without those for tunnels.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  using context = std::unique_ptr<SSL_CTX, security::releases<SSL_CTX_free>>;
  using read_some = std::function<long(char*, std::size_t)>;

  static context context_of(const std::filesystem::path& folder, const std::string& name) {
    context made(SSL_CTX_new(TLS_server_method()));
    REQUIRE(SSL_CTX_use_certificate_file(made.get(), (folder / (name + ".crt")).c_str(), SSL_FILETYPE_PEM) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(made.get(), (folder / (name + ".key")).c_str(), SSL_FILETYPE_PEM) == 1);
    return made;
  }

  file_server(answers answer, context made) : answer_(std::move(answer)), context_(std::move(made)) {
    ::setenv("no_proxy", "127.0.0.1,localhost", 1);
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::listen(socket_, 8) == 0);
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }

  static std::string request_of(const read_some& read) {
    std::string request;
    char block[4096];
    for (long got = 1; got > 0 && request.find("\r\n\r\n") == std::string::npos;) {
      got = read(block, sizeof block);
      if (got > 0) request.append(block, static_cast<std::size_t>(got));
    }
    return request;
  }

  std::string answered(const std::string& request) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    return answer_(request);
  }

  void serve() {
    for (int peer = ::accept(socket_, nullptr, nullptr); peer >= 0; peer = ::accept(socket_, nullptr, nullptr)) {
      const auto send = [&](const std::string& text) {
        [[maybe_unused]] const auto sent = ::send(peer, text.data(), text.size(), MSG_NOSIGNAL);
      };
      const auto receive = [&](char* into, std::size_t most) { return ::recv(peer, into, most, 0); };
      char first = 0;
      if (::recv(peer, &first, 1, MSG_PEEK) == 1 && first == 'C') {
        request_of(receive);
        send("HTTP/1.0 200 Connection established\r\n\r\n");
      }
      if (context_)
        serve_encrypted(peer);
      else
        send(answered(request_of(receive)));
      ::close(peer);
    }
  }

  void serve_encrypted(int peer) {
    const std::unique_ptr<SSL, security::releases<SSL_free>> ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), peer);
    if (SSL_accept(ssl.get()) != 1) return;
    const auto answer = answered(request_of(
        [&](char* into, std::size_t most) -> long { return SSL_read(ssl.get(), into, static_cast<int>(most)); }));
    SSL_write(ssl.get(), answer.data(), static_cast<int>(answer.size()));
    SSL_shutdown(ssl.get());
  }

  answers answer_;
  int socket_{-1};
  int port_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  context context_;
  std::thread thread_;
};

}  // namespace troupe::testing

// Downloads over HTTP and HTTPS.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::fetch {

/// A download that did not succeed. The text is what a server did, such as "answered 404 Not Found".
struct http_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A server that does not send a file from the byte that was asked for.
struct cannot_resume : http_error {
  using http_error::http_error;
};

/// Receives a piece of a file. Returns false to end the download there.
using take_bytes = std::function<bool(std::string_view piece)>;

/// How long a server may be silent, in seconds.
struct http_limits {
  int connect{15};  ///< Until each address of the host has answered, and until the connection is encrypted.
  int silence{30};  ///< Until the next bytes arrive.
};

/// Passes the file at `url`, from byte `first` on, to `take` in pieces. Follows up to five redirections, but none from
/// HTTPS to HTTP. Uses the proxies in the environment variables http_proxy and https_proxy, except for the hosts listed
/// in no_proxy. The certificate of a server must be from an authority that this system knows; the file SSL_CERT_FILE or
/// the folder SSL_CERT_DIR replaces those. Throws http_error.
void http_get(const std::string& url, std::uint64_t first, const take_bytes& take, const http_limits& limits = {});

}  // namespace troupe::fetch

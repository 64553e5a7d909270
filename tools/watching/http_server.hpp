// Serves a site over HTTP/1.1, on a thread of its own with a low priority. Clients that are slow, many or hostile cost
// memory and time within fixed bounds: a request has a short header, no body and a deadline, each connection carries
// one request, and of too many connections the oldest are closed.
#pragma once

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/tools/watching/site.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::watching {

struct server_limits {
  std::size_t connections{64};
  std::size_t followers{32};                     ///< Connections of open pages, among all.
  std::chrono::milliseconds to_ask{5'000};       ///< Time for the whole header of a request.
  std::chrono::milliseconds to_receive{10'000};  ///< Time for the whole answer, and for each update.
};

class http_server {
 public:
  /// Listens on the address; port 0 chooses a free port. Throws input_error if it cannot listen there.
  http_server(const endpoint& where, site served, const server_limits& limits = {});

  /// Sends the last update to all open pages, and ends within a second.
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// Returns the port on which it listens.
  std::uint16_t port() const;

 private:
  class server;
  std::unique_ptr<server> server_;
};

}  // namespace troupe::watching

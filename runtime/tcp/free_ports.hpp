// Free ports to listen on.
#pragma once

#include "troupe/net/channels/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::transport {

/// Finds free ports and reserves them for its lifetime, so that no port is returned twice.
class free_ports {
 public:
  free_ports();
  ~free_ports();

  /// Returns a free port of `host`. Throws input_error if it finds none.
  std::uint16_t next(const std::string& host);

 private:
  struct held;
  std::unique_ptr<held> held_;
};

/// Throws input_error if this process cannot listen on the address now.
void check_free(const endpoint& listen);

}  // namespace troupe::transport

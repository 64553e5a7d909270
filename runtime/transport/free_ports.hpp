// Ports that are free to listen on.
#pragma once

#include "troupe/runtime/topology/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::transport {

/// Finds pairs of neighbouring ports and holds them until it goes, so that no two are the same.
class free_ports {
 public:
  free_ports();
  ~free_ports();

  /// Returns a port of `host` that is free together with the one behind it. Throws input_error where there is none.
  std::uint16_t next(const std::string& host);

 private:
  struct held;
  std::unique_ptr<held> held_;
};

/// Throws input_error where an address cannot be listened on now.
void check_free(const topology::endpoint& listen);

}  // namespace troupe::transport

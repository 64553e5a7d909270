// Headers with the checksum of their payload, which connections add when they send.
#pragma once

#include "troupe/files/crc32c.hpp"
#include "troupe/runtime/transport/frame.hpp"

namespace troupe::testing {

inline transport::frame_header sealed(transport::frame_header header, const at::Tensor& payload) {
  header.payload_crc = crc32c({static_cast<const std::byte*>(payload.const_data_ptr()), payload.nbytes()});
  return header;
}

}  // namespace troupe::testing

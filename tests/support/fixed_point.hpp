// A second codec, of one byte per value: multiples of 1/64 from -127/64 to 127/64, each value encoded on its own.
#pragma once

#include "troupe/codec.hpp"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace troupe::tests {

class fixed_point final : public codec {
 public:
  std::string name() const override { return "fixed_point"; }
  at::ScalarType payload_type() const override { return at::kChar; }
  std::int64_t max_bytes(std::int64_t elements) const override { return elements; }

  at::Tensor encode(const at::Tensor& values, const encoding_task& /*task*/) const override {
    return values.mul(64).round().clamp(-127, 127).to(at::kChar);
  }

  void decode(const at::Tensor& payload, at::Tensor& values) const override { values.copy_(payload).div_(64); }
};

}  // namespace troupe::tests

/// @file
/// Encodings of your own for the messages of an exchange. A codec, registered before the command runs, becomes a value
/// of the setting `encoding`:
///
/// @code{.cpp}
/// #include "troupe/codec.hpp"
/// #include "troupe/command.hpp"
///
/// #include <ATen/ATen.h>
///
/// #include <memory>
///
/// /// One byte per value: 64 steps per unit, and no more than two units.
/// struct fixed_point final : troupe::codec {
///   std::string name() const override { return "fixed8"; }
///   at::ScalarType payload_type() const override { return at::kChar; }
///   std::int64_t max_bytes(std::int64_t elements) const override { return elements; }
///   at::Tensor encode(const at::Tensor& values, const troupe::encoding_task&) const override {
///     return (values * 64).round().clamp(-127, 127).to(at::kChar);
///   }
///   void decode(const at::Tensor& payload, at::Tensor& values) const override { values.copy_(payload).div_(64); }
/// };
///
/// int main(int count, char** words) {
///   troupe::register_codec(std::make_unique<fixed_point>());
///   return troupe::apps::command(count, words);
/// }
/// @endcode
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"

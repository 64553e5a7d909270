#include "troupe/algorithms/exchange/around/compressing.hpp"

#include "troupe/algorithms/messages/errc.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::int64_t block = 256;
constexpr std::int64_t scale_bytes = sizeof(float);

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The payload of block codecs: for each block, its scale as float32, then the codes of its values, packed with the
/// first in the lowest bits. A payload cut at a multiple of the block is the payload of the cut values.
///
/// The last block is computed as if zeros followed it. So all loops are over local arrays of a fixed size, which GCC
/// turns into vector instructions at -O2 if they are as simple as those below.
template <int bits>
class block_codec : public codec {
 public:
  explicit block_codec(std::string name) : name_(std::move(name)) {}

  std::string name() const final { return name_; }
  codec_nature nature() const override { return {.block = block}; }
  at::ScalarType payload_type() const final { return at::kByte; }
  std::int64_t max_bytes(std::int64_t elements) const final {
    return divided_up(elements, per_byte) + scale_bytes * divided_up(elements, block);
  }

  at::Tensor encode(const at::Tensor& values, const encoding_task& task) const final {
    const auto total = values.numel();
    at::Tensor payload = at::empty({max_bytes(total)}, at::kByte);
    const auto* in = values.const_data_ptr<float>();
    auto* out = payload.mutable_data_ptr<std::uint8_t>();
    std::array<float, block> own;
    for (std::int64_t first = 0; first < total; first += block) {
      const auto count = std::min(block, total - first);
      std::fill(std::copy_n(in + first, count, own.begin()), own.end(), 0.0F);
      const auto [scale, codes] = encode_block(own, count, task, first);
      const auto bytes = packed(codes);
      std::memcpy(out, &scale, scale_bytes);
      out = std::copy_n(bytes.begin(), divided_up(count, per_byte), out + scale_bytes);
    }
    return payload;
  }

  void decode(const at::Tensor& payload, at::Tensor& values) const final {
    const auto total = values.numel();
    const auto* in = payload.const_data_ptr<std::uint8_t>();
    auto* out = values.mutable_data_ptr<float>();
    packed_codes bytes{};
    for (std::int64_t first = 0; first < total; first += block) {
      const auto count = std::min(block, total - first), size = divided_up(count, per_byte);
      float scale = 0;
      std::memcpy(&scale, in, scale_bytes);
      std::copy_n(in + scale_bytes, size, bytes.begin());
      in += scale_bytes + size;
      out = std::copy_n(decode_block({scale, unpacked(bytes)}).begin(), count, out);
    }
  }

 protected:
  using block_values = std::array<float, block>;
  using block_codes = std::array<std::uint8_t, block>;

  /// A scale, and a code for each value, in the lowest bits.
  struct encoded_block {
    float scale;
    block_codes codes;
  };

 private:
  static constexpr int per_byte = 8 / bits;
  using packed_codes = std::array<std::uint8_t, block / per_byte>;

  /// Encodes a block of `count` values, followed by zeros. `first` is the place of the first one.
  virtual encoded_block encode_block(const block_values& values, std::int64_t count, const encoding_task& task,
                                     std::int64_t first) const = 0;

  virtual block_values decode_block(const encoded_block& encoded) const = 0;

  /// Moves codes next to each other, eight at a time: first the two of a pair, then pairs, then fours.
  static packed_codes packed(const block_codes& codes) {
    packed_codes bytes;
    for (std::size_t i = 0; i < block / 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, &codes[i * 8], 8);
      word = (word | word >> (8 - bits)) & every(16, 2 * bits);
      word = (word | word >> 2 * (8 - bits)) & every(32, 4 * bits);
      word |= word >> 4 * (8 - bits);
      std::memcpy(&bytes[i * bits], &word, bits);
    }
    return bytes;
  }

  /// Reverses packed().
  static block_codes unpacked(const packed_codes& bytes) {
    block_codes codes;
    for (std::size_t i = 0; i < block / 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, &bytes[i * bits], bits);
      word = (word | word << 4 * (8 - bits)) & every(32, 4 * bits);
      word = (word | word << 2 * (8 - bits)) & every(16, 2 * bits);
      word = (word | word << (8 - bits)) & every(8, bits);
      std::memcpy(&codes[i * 8], &word, 8);
    }
    return codes;
  }

  /// Returns a mask of the lowest `size` bits of every `distance` bits.
  static constexpr std::uint64_t every(int distance, int size) {
    const auto lowest = [](int count) { return (std::uint64_t{1} << count) - 1; };
    return ~std::uint64_t{0} / lowest(distance) * lowest(size);
  }

  std::string name_;
};

template <int bits>
class quantizer final : public block_codec<bits> {
 public:
  using block_codec<bits>::block_codec;

 private:
  using typename block_codec<bits>::block_values;
  using typename block_codec<bits>::encoded_block;

  encoded_block encode_block(const block_values& values, std::int64_t /*count*/, const encoding_task& task,
                             std::int64_t first) const override {
    std::int32_t largest = 0;  // as bits, which have the order of the magnitudes
    for (const auto value : values) largest = std::max(largest, std::bit_cast<std::int32_t>(std::abs(value)));
    const auto scale = std::bit_cast<float>(largest);
    if (!std::isfinite(scale)) return {std::numeric_limits<float>::quiet_NaN(), {}};

    auto random = data::random_stream::after(task.random, static_cast<std::uint64_t>(task.first + first));
    std::array<double, block> drawn;
    for (auto& one : drawn) one = static_cast<double>(static_cast<std::int64_t>(random.next() >> 11));

    const auto divisor = scale == 0 ? 1.0 : static_cast<double>(scale);
    std::array<std::int32_t, block> magnitudes;
    for (std::size_t i = 0; i < block; ++i) {
      const auto level = std::abs(static_cast<double>(values[i])) / divisor * levels;
      magnitudes[i] = std::min(levels, static_cast<int>(level + drawn[i] * 0x1.0p-53));
    }
    encoded_block result;
    result.scale = scale;
    for (std::size_t i = 0; i < block; ++i) {
      const auto of_value = std::bit_cast<std::int32_t>(values[i]);
      const auto sign = of_value >> 31;  // 0, or -1 for a negative value
      const auto code = (magnitudes[i] ^ sign) - sign;
      const auto of_zero = of_value == std::bit_cast<std::int32_t>(-0.0F) ? minus_zero : 0;
      result.codes[i] = static_cast<std::uint8_t>((code | of_zero) & mask);
    }
    return result;
  }

  block_values decode_block(const encoded_block& encoded) const override {
    // code · step is the same float32 as code · scale / levels: no exact quotient is midway between two of them.
    const auto step = static_cast<double>(encoded.scale) / levels;
    std::array<std::int32_t, block> codes;
    for (std::size_t i = 0; i < block; ++i) codes[i] = (encoded.codes[i] ^ sign_bit) - sign_bit;  // two's complement
    block_values values;
    for (std::size_t i = 0; i < block; ++i) values[i] = static_cast<float>(codes[i] * step);
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint32_t is_minus_zero = codes[i] == minus_zero ? 1 : 0;
      const auto of_value = std::bit_cast<std::uint32_t>(values[i]);
      values[i] = std::bit_cast<float>((of_value & (is_minus_zero - 1)) | (is_minus_zero << 31));
    }
    return values;
  }

  static constexpr int sign_bit = 1 << (bits - 1);
  static constexpr int levels = sign_bit - 1;
  static constexpr int mask = sign_bit | levels;
  static constexpr int minus_zero = -sign_bit;  ///< The integer without a counterpart; see rules/missing_gradients.hpp.
};

class sign_codec final : public block_codec<1> {
 public:
  sign_codec() : block_codec("sign") {}

  codec_nature nature() const override { return {.block = block, .feedback = true, .requires_feedback = true}; }

 private:
  encoded_block encode_block(const block_values& values, std::int64_t count, const encoding_task& /*task*/,
                             std::int64_t /*first*/) const override {
    double sum = 0;
    for (const auto value : values) sum += std::abs(value);
    encoded_block result;
    result.scale = std::isfinite(sum) ? static_cast<float>(sum / static_cast<double>(count))
                                      : std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < block; ++i) result.codes[i] = std::bit_cast<std::uint32_t>(values[i]) >> 31;
    return result;
  }

  block_values decode_block(const encoded_block& encoded) const override {
    block_values values;
    for (std::size_t i = 0; i < block; ++i) values[i] = encoded.codes[i] != 0 ? -encoded.scale : encoded.scale;
    return values;
  }
};

class top_k final : public codec {
 public:
  std::string name() const override { return "top_k"; }
  codec_nature nature() const override {
    return {.block = 0, .feedback = true, .takes_ratio = true, .by_magnitude = true};
  }
  at::ScalarType payload_type() const override { return at::kByte; }
  std::int64_t max_bytes(std::int64_t elements) const override { return entry_bytes * elements; }
  std::int64_t bytes(std::int64_t elements, const encoding_task& task) const override {
    return entry_bytes * chosen(elements, task);
  }
  bool may_have(std::int64_t bytes, std::int64_t elements) const override {
    return bytes > 0 && bytes % entry_bytes == 0 && bytes <= max_bytes(elements);
  }

  at::Tensor encode(const at::Tensor& values, const encoding_task& task) const override {
    const auto total = values.numel(), k = chosen(total, task);
    const auto* in = values.const_data_ptr<float>();
    const auto [least, of_least] = least_of_highest(in, total, k);
    auto payload = at::empty({entry_bytes * k}, at::kByte);
    auto* indices = static_cast<std::uint32_t*>(payload.mutable_data_ptr());
    auto* chosen_values = static_cast<float*>(payload.mutable_data_ptr()) + k;
    std::int64_t sent = 0, left = of_least;
    visit_above(least - 1, in, total, [&, least = least](std::int64_t i, std::int32_t rank) {
      if (sent == k) return;
      // The next value overwrites one that is not chosen: a branch would often be mispredicted.
      indices[sent] = static_cast<std::uint32_t>(i);
      chosen_values[sent] = in[i];
      const auto is_least = rank == least ? 1 : 0;
      sent += (rank > least || (is_least > 0 && left > 0)) ? 1 : 0;
      left -= is_least;
    });
    return payload;
  }

  void decode(const at::Tensor& payload, at::Tensor& values) const override {
    const auto k = payload.numel() / entry_bytes, total = values.numel();
    const auto* indices = static_cast<const std::uint32_t*>(payload.const_data_ptr());
    const auto* chosen_values = static_cast<const float*>(payload.const_data_ptr()) + k;
    values.zero_();
    auto* out = values.mutable_data_ptr<float>();
    std::int64_t before = -1;
    for (std::int64_t i = 0; i < k; ++i) {
      if (indices[i] <= before || indices[i] >= total)
        throw exchange_error(errc::mismatch, "the indices of sparse values are not ascending, or too large");
      before = indices[i];
      out[indices[i]] = chosen_values[i];
    }
  }

 private:
  static constexpr std::int64_t entry_bytes = sizeof(std::uint32_t) + sizeof(float);

  static std::int64_t chosen(std::int64_t elements, const encoding_task& task) {
    return std::min(share_of(task), elements);
  }

  /// Returns a number that orders values by magnitude, with NaN as the largest.
  static std::int32_t rank_of(float value) {
    return std::min(std::bit_cast<std::int32_t>(std::abs(value)), 0x7f800001);
  }

  /// Calls `visit` with the place and rank of each value whose rank is above `bound`, in order. Also visits other
  /// values of their groups, and the last ones. `visit` may raise `bound`.
  template <typename visitor>
  static void visit_above(const std::int32_t& bound, const float* values, std::int64_t total, const visitor& visit) {
    constexpr std::int64_t group = 16;
    for (std::int64_t first = 0; first < total; first += group) {
      const auto count = std::min(group, total - first);
      if (count == group) {
        std::int32_t above = 0;
        for (std::int64_t i = 0; i < group; ++i)
          above += std::bit_cast<std::int32_t>(std::abs(values[first + i])) > bound ? 1 : 0;
        if (above == 0) continue;
      }
      for (auto i = first; i < first + count; ++i) visit(i, rank_of(values[i]));
    }
  }

  /// Returns the lowest of the k highest ranks, and how many of these have it. Collects the ranks that are above the
  /// k-th highest one so far, and drops all but k of them when there is no room for more.
  static std::pair<std::int32_t, std::int64_t> least_of_highest(const float* values, std::int64_t total,
                                                                std::int64_t k) {
    std::vector<std::int32_t> kept(static_cast<std::size_t>(std::min(total, 2 * k + 1024)));
    const auto last = kept.begin() + (k - 1);
    auto end = kept.begin();
    std::int32_t least = -1;
    const auto drop = [&] {
      std::nth_element(kept.begin(), last, end, std::greater{});
      end = last + 1;
      least = *last;
    };
    visit_above(least, values, total, [&](std::int64_t /*i*/, std::int32_t rank) {
      if (end == kept.end()) drop();
      *end = rank;
      end += rank > least ? 1 : 0;
    });
    drop();
    return {least, std::count(kept.begin(), end, least)};
  }
};

}  // namespace

std::unique_ptr<const codec> make_quantizer(std::string name, int bits) {
  if (bits == 4) return std::make_unique<quantizer<4>>(std::move(name));
  return std::make_unique<quantizer<8>>(std::move(name));
}

std::unique_ptr<const codec> make_sign_codec() {
  return std::make_unique<sign_codec>();
}

std::unique_ptr<const codec> make_top_k() {
  return std::make_unique<top_k>();
}

at::Tensor chosen_by_top_k(const at::Tensor& payload) {
  return payload.narrow(0, 0, payload.numel() / 2).view(at::kInt);
}

}  // namespace troupe

// Keyed randomness: every draw is a function of (seed, worker, step or epoch, purpose), never of a stream that some
// thread has advanced. So nothing has to be saved, and placement and timing cannot matter.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace troupe::data {

enum class purpose : std::uint64_t {
  permutation = 1,
  dropout,
  augmentation,
  digits,
  graph,
  sparse,
  split,
  validation,
  window,
  exchange,     ///< For members of exchanges: see member_options::seed.
  rounding,     ///< For codecs that round at random.
  coordinates,  ///< For exchanges that send values at random places.
  query         ///< For the matrices with which low-rank approximations begin.
};

/// Mixes a key into 64 well-distributed bits (SplitMix64's finaliser over each word in turn; Steele, Lea, Flood 2014).
constexpr std::uint64_t keyed(std::uint64_t seed, purpose why, std::uint64_t a = 0, std::uint64_t b = 0) {
  std::uint64_t state = seed;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(why), a, b}) {
    state += 0x9e3779b97f4a7c15ull + word;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    state ^= state >> 31;
  }
  return state;
}

/// SplitMix64 from a key: a small generator for permutations and the built-in data sets.
class random_stream {
 public:
  /// Starts the stream of this key.
  explicit constexpr random_stream(std::uint64_t key) : state_(key) {}

  /// Returns the stream of this key without its first `drawn` draws of 64 bits.
  static constexpr random_stream after(std::uint64_t key, std::uint64_t drawn) {
    return random_stream{key + drawn * increment};
  }

  /// Returns the next 64 random bits.
  constexpr std::uint64_t next() {
    std::uint64_t z = (state_ += increment);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  /// Returns a uniform number in [0, bound), without bias (Lemire 2019); requires bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using wide = unsigned __int128;
    for (;;) {
      const wide product = static_cast<wide>(next()) * bound;
      if (static_cast<std::uint64_t>(product) >= -bound % bound) return static_cast<std::uint64_t>(product >> 64);
    }
  }

  /// Returns a uniform number in [low, high).
  constexpr double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1.0p-53);
  }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15ull;
  std::uint64_t state_;
};

}  // namespace troupe::data

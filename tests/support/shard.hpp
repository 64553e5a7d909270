// Divides a long test among several processes, and prints lines that show its progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace troupe::tests {

/// The environment variable TROUPE_TESTS_SHARD is "i/n" for the i-th of n processes, from 0. If it is not set, this
/// process runs all cases.
class shard {
 public:
  shard() {
    unsigned index = 0, count = 1;
    const auto* text = std::getenv("TROUPE_TESTS_SHARD");
    if (text == nullptr || std::sscanf(text, "%u/%u", &index, &count) != 2) return;
    index_ = index;
    count_ = count;
  }

  /// Returns whether this process runs the next case.
  bool takes_next() { return next_++ % count_ == index_; }

 private:
  std::uint64_t index_{0}, count_{1}, next_{0};
};

/// Prints a line to stderr every half minute.
class progress_lines {
 public:
  void show(const std::string& line) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds{30}) return;
    last_ = now;
    std::fprintf(stderr, "%s\n", line.c_str());
  }

 private:
  std::chrono::steady_clock::time_point last_{std::chrono::steady_clock::now()};
};

}  // namespace troupe::tests

// The bytes of event files, compared with those that TensorBoard's own message classes (2.21) write.
#include "troupe/runtime/telemetry/event_file.hpp"

#include "tests/support/doctest.hpp"

#include <array>
#include <cstdio>
#include <string>

namespace telemetry_event_file_test {

using namespace troupe;
namespace event_file = telemetry::event_file;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    text += digits.data();
  }
  return text;
}

/// Returns the event in a record.
std::string payload(const std::string& record) {
  return hex(record.substr(12, record.size() - 16));
}

}  // namespace

TEST_CASE("a record has its length and two masked checksums") {
  CHECK(hex(event_file::beginning(0)) ==
        "1800000000000000a37f4b22"
        "0900000000000000001a0d627261696e2e4576656e743a32"
        "eedf28a3");
}

TEST_CASE("a scalar is a simple_value") {
  CHECK(payload(event_file::values(2.5, 300, {.scalars = {{"loss", 0.5}}})) ==
        "09000000000000044010ac022a0d0a0b0a046c6f7373150000003f");
}

TEST_CASE("counts are a histogram with a bucket for each value") {
  CHECK(payload(event_file::values(2.5, 7, {.histograms = {{"s", {0, 1, 2}}}})) ==
        "09000000000000044010072a680a660a01732a6109000000000000f03f11000000000000004019000000000000084021"
        "00000000000014402900000000000022403218000000000000e03f000000000000f83f00000000000004403a18000000"
        "0000000000000000000000f03f0000000000000040");
}

TEST_CASE("a restart is the start of a session") {
  CHECK(payload(event_file::restart(2.5)) == "0900000000000004403a020801");
}

}  // namespace telemetry_event_file_test

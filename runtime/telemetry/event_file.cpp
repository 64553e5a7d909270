#include "troupe/runtime/telemetry/event_file.hpp"

#include "troupe/files/crc32c.hpp"

#include <bit>
#include <cstddef>
#include <span>
#include <type_traits>

namespace troupe::telemetry::event_file {

namespace {

/// Appends the bytes of a number, least significant first.
template <class Number>
void append(std::string& bytes, Number value) {
  static_assert(std::endian::native == std::endian::little && std::is_trivially_copyable_v<Number>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Protocol Buffers: a message is a sequence of fields, each a key, which is (number << 3 | wire type), and a value.
// ----

enum class wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7u) message += static_cast<char>(value | 0x80u);
  message += static_cast<char>(value);
}

void append_key(std::string& message, std::uint32_t number, wire type) {
  append_varint(message, number << 3u | static_cast<std::uint32_t>(type));
}

void add_integer(std::string& message, std::uint32_t number, std::uint64_t value) {
  append_key(message, number, wire::varint);
  append_varint(message, value);
}

void add_double(std::string& message, std::uint32_t number, double value) {
  append_key(message, number, wire::fixed64);
  append(message, value);
}

void add_float(std::string& message, std::uint32_t number, float value) {
  append_key(message, number, wire::fixed32);
  append(message, value);
}

/// Adds text, or a message within the message.
void add_bytes(std::string& message, std::uint32_t number, std::string_view value) {
  append_key(message, number, wire::bytes);
  append_varint(message, value.size());
  message += value;
}

void add_doubles(std::string& message, std::uint32_t number, const std::vector<double>& values) {
  std::string packed;
  for (const auto value : values) append(packed, value);
  add_bytes(message, number, packed);
}

// TensorFlow's event.proto and summary.proto. ----------------------------------------------------------------------

std::string event(double time, std::uint64_t step) {
  std::string message;
  add_double(message, 1, time);                 // wall_time
  if (step > 0) add_integer(message, 2, step);  // step
  return message;
}

/// Returns a HistogramProto with one bucket for each value, whose upper limit is halfway to the next value.
std::string histogram(const std::vector<double>& counts) {
  double number = 0, sum = 0, sum_squares = 0, lowest = 0, highest = 0;
  std::vector<double> limits;
  for (std::size_t value = 0; value < counts.size(); ++value) {
    const auto x = static_cast<double>(value);
    limits.push_back(x + 0.5);
    if (counts[value] == 0) continue;
    if (number == 0) lowest = x;
    highest = x;
    number += counts[value];
    sum += counts[value] * x;
    sum_squares += counts[value] * x * x;
  }
  std::string message;
  add_double(message, 1, lowest);
  add_double(message, 2, highest);
  add_double(message, 3, number);
  add_double(message, 4, sum);
  add_double(message, 5, sum_squares);
  add_doubles(message, 6, limits);
  add_doubles(message, 7, counts);
  return message;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const auto crc = crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15u | crc << 17u) + 0xa282ead8u;
}

}  // namespace

std::string beginning(double time) {
  auto message = event(time, 0);
  add_bytes(message, 3, "brain.Event:2");  // file_version
  return record_of(message);
}

std::string restart(double time) {
  auto message = event(time, 0);
  std::string log;
  add_integer(log, 1, 1);      // status = START
  add_bytes(message, 7, log);  // session_log
  return record_of(message);
}

std::string values(double time, std::uint64_t step, const summary& of) {
  std::string summary;
  for (const auto& [tag, value] : of.scalars) {
    std::string entry;
    add_bytes(entry, 1, tag);
    add_float(entry, 2, static_cast<float>(value));  // simple_value
    add_bytes(summary, 1, entry);
  }
  for (const auto& [tag, counts] : of.histograms) {
    std::string entry;
    add_bytes(entry, 1, tag);
    add_bytes(entry, 5, histogram(counts));  // histo
    add_bytes(summary, 1, entry);
  }
  auto message = event(time, step);
  add_bytes(message, 5, summary);  // summary
  return record_of(message);
}

std::string record_of(std::string_view payload) {
  std::string record;
  append(record, static_cast<std::uint64_t>(payload.size()));
  append(record, masked_crc(record));
  record += payload;
  append(record, masked_crc(payload));
  return record;
}

}  // namespace troupe::telemetry::event_file

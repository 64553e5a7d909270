// Control messages as bytes. The inspect() of a message lists its fields once, for CAF and for this format. Numbers are
// stored in little-endian byte order and in their own size, enums and bools as numbers; texts, lists and maps are
// preceded by their length (u32).
#pragma once

#include "troupe/runtime/transport/frame.hpp"

#include <caf/meta/type_name.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::transport {

static_assert(std::endian::native == std::endian::little, "control messages have the byte order of memory");

template <class T>
concept plain_number = (std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!std::same_as<T, bool>;

/// Appends fields to bytes.
class byte_writer {
 public:
  using result_type = void;

  /// Writes the fields of a message; the signature is that of a CAF inspector.
  template <class... Fields>
  void operator()(caf::meta::type_name_t, const Fields&... fields) {
    (put(fields), ...);
  }

  template <plain_number T>
  void put(const T& number) {
    const auto* begin = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void put(bool flag) { put(static_cast<std::uint8_t>(flag)); }
  void put(const std::string& text) {
    put_length(text.size());
    const auto view = std::as_bytes(std::span{text});
    bytes_.insert(bytes_.end(), view.begin(), view.end());
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put_length(list.size());
    for (const auto& element : list) put(element);
  }
  template <class Key, class Value>
  void put(const std::map<Key, Value>& map) {
    put_length(map.size());
    for (const auto& [key, value] : map) put(key), put(value);
  }
  template <class Message>
  requires std::is_class_v<Message>
  void put(const Message& message) {
    inspect(*this, const_cast<Message&>(message));  // this inspector only reads
  }

  std::vector<std::byte> take() { return std::exchange(bytes_, {}); }

 private:
  void put_length(std::size_t length) { put(static_cast<std::uint32_t>(length)); }

  std::vector<std::byte> bytes_;
};

/// Reads what byte_writer has written. The bytes are not trusted: memory is allocated only for what they contain.
/// Throws frame_error if they are too few or not valid.
class byte_reader {
 public:
  using result_type = void;

  explicit byte_reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class... Fields>
  void operator()(caf::meta::type_name_t, Fields&... fields) {
    (get(fields), ...);
  }

  template <plain_number T>
  void get(T& number) {
    std::memcpy(&number, next(sizeof(T)), sizeof(T));
  }
  void get(bool& flag) {
    std::uint8_t number = 0;
    get(number);
    if (number > 1) throw frame_error("received a control message with an invalid truth value");
    flag = number == 1;
  }
  void get(std::string& text) {
    const auto length = get_length();
    text.assign(reinterpret_cast<const char*>(next(length)), length);
  }
  template <class T>
  void get(std::vector<T>& list) {
    list.clear();
    for (auto length = get_length(); length > 0; --length) get(list.emplace_back());
  }
  template <class Key, class Value>
  void get(std::map<Key, Value>& map) {
    map.clear();
    for (auto length = get_length(); length > 0; --length) {
      Key key{};
      get(key);
      get(map[std::move(key)]);
    }
  }
  template <class Message>
  requires std::is_class_v<Message>
  void get(Message& message) { inspect(*this, message); }

  /// Throws frame_error if bytes are left.
  void finish() const {
    if (!left_.empty()) throw frame_error("received a control message that is longer than its fields");
  }

 private:
  const std::byte* next(std::size_t count) {
    if (count > left_.size()) throw frame_error("received a control message that is shorter than its fields");
    const auto* begin = left_.data();
    left_ = left_.subspan(count);
    return begin;
  }

  /// Reads a length. Every element has at least one byte, so a length that exceeds the number of bytes left is wrong.
  std::uint32_t get_length() {
    std::uint32_t length = 0;
    get(length);
    if (length > left_.size()) throw frame_error("received a control message that is shorter than its fields");
    return length;
  }

  std::span<const std::byte> left_;
};

}  // namespace troupe::transport

// The fields of a plain struct, for messages that name each of their fields only once, and how CAF and the frames write
// them.
#pragma once

#include <caf/deserializer.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/serializer.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe {

namespace detail {

/// Initialises a field of any type. Used only to count fields.
struct any_value {
  template <class T>
  operator T() const;
};

template <class T, class... Values>
constexpr std::size_t count_fields() {
  if constexpr (requires { T{Values{}..., any_value{}}; })
    return count_fields<T, Values..., any_value>();
  else
    return sizeof...(Values);
}

}  // namespace detail

/// Calls `f` with the fields of an aggregate, in the order of their declaration. Returns the result of `f`.
template <class T, class Function>
decltype(auto) with_fields(T& x, Function f) {
  constexpr auto count = detail::count_fields<T>();
  static_assert(count <= 7, "add a case for more fields");
  if constexpr (count == 0) {
    return f();
  } else if constexpr (count == 1) {
    auto& [a] = x;
    return f(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = x;
    return f(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = x;
    return f(a, b, c);
  } else {
    static_assert(count == 7, "add a case for so many fields");
    auto& [a, b, c, d, e, g, h] = x;
    return f(a, b, c, d, e, g, h);
  }
}

namespace detail {

/// Whether an inspector reads or writes CAF's network format.
template <class Inspector>
constexpr bool is_caf_format = std::is_base_of_v<caf::serializer, std::decay_t<Inspector>> ||
                               std::is_base_of_v<caf::deserializer, std::decay_t<Inspector>>;

/// A double that travels as its bits: CAF's own format does not keep every double.
struct exact {
  double& value;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, exact& x) {
  if constexpr (is_caf_format<Inspector>) {
    auto bits = std::bit_cast<std::uint64_t>(x.value);
    auto result = f(bits);
    x.value = std::bit_cast<double>(bits);
    return result;
  } else {
    return f(caf::meta::type_name("exact"), x.value);
  }
}

inline exact exactly(double& x) {
  return {x};
}
template <class Field>
Field& exactly(Field& x) {
  return x;
}

template <class Inspector, class... Fields>
typename Inspector::result_type inspect_exact(Inspector& f, const char* name, Fields&&... fields) {
  return f(caf::meta::type_name(name), fields...);
}

}  // namespace detail

/// Passes the fields of a message to an inspector of CAF or of the frames.
template <class Inspector, class... Fields>
typename Inspector::result_type inspect_fields(Inspector& f, const char* name, Fields&... fields) {
  return detail::inspect_exact(f, name, detail::exactly(fields)...);
}

}  // namespace troupe

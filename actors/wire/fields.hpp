// The fields of a plain struct, for messages that name each of their fields only once.
#pragma once

#include <cstddef>

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

}  // namespace troupe

// doctest for all tests. LibTorch defines macros with the same names, including a CHECK that aborts the process. Only
// this header includes both, in the order in which doctest's macros replace LibTorch's.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Logging.h>

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE

#include <doctest/doctest.h>

// doctest prints what a lambda has captured, which Clang before 16 cannot do with a structured binding.
#undef CAPTURE
#define CAPTURE_AS(value, name) \
  const auto& name = value;     \
  DOCTEST_INFO(#value " := ", name)
#define CAPTURE(value) CAPTURE_AS(value, DOCTEST_ANONYMOUS(CAPTURED_))

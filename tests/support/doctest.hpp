// doctest for all tests. LibTorch leaks macros of the same names, among them a CHECK that aborts the process: this
// header, and no other, includes both, in the one order that gives doctest the last word.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Logging.h>

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE

#include <doctest/doctest.h>

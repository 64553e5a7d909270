// The headers that take longest to parse, compiled once for all test programs.
#pragma once

#include "tests/support/doctest.hpp"

#include <caf/all.hpp>

#include "troupe/models/networks/out_of_memory.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/empty.h>

#include <new>
#include <stdexcept>

namespace out_of_memory_test {

using troupe::models::out_of_memory;

TEST_CASE("a failed allocation is described in words, whoever reports it") {
  try {
    at::empty({std::int64_t{1} << 60}, at::kByte);
    FAIL("there is no such memory");
  } catch (const std::exception& failure) {
    CHECK(out_of_memory(failure) == "out of memory: a tensor of 1152921504606846976 bytes cannot be allocated");
  }
  CHECK(out_of_memory(std::bad_alloc{}) == "out of memory");
  CHECK_FALSE(out_of_memory(std::runtime_error("the loss is nan")));
}

}  // namespace out_of_memory_test

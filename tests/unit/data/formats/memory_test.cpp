#include "troupe/data/formats/memory.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <sys/resource.h>

#include <string>

namespace memory_test {

using namespace troupe::data;

#ifdef __SANITIZE_ADDRESS__
constexpr bool is_sanitized = true;  // the sanitizer itself maps memory, and ends the process if it cannot
#else
constexpr bool is_sanitized = false;
#endif

TEST_CASE("the available memory is at most what a resource limit leaves" * doctest::skip(is_sanitized)) {
  constexpr std::uint64_t mib = 1024 * 1024;
  const auto before = available_memory();
  CHECK(before > mib);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_DATA, &old) == 0);
  auto low = old;
  low.rlim_cur = 1;
  REQUIRE(setrlimit(RLIMIT_DATA, &low) == 0);
  const auto with_limit = available_memory();
  setrlimit(RLIMIT_DATA, &old);
  CHECK(with_limit == 0);
}

TEST_CASE("generated rows that no memory holds are refused before they are generated") {
  data_source from;
  from.rows = 1'000'000'000;
  from.columns = 2'000;
  from.nonzeros = 60;
  std::string text;
  try {
    find_dataset("sparse")->load(from);
  } catch (const data_error& reason) {
    text = reason.what();
  }
  CHECK(text.find("data.rows = 1000000000 with data.columns = 2000 and data.nonzeros = 60 takes") == 0);
  CHECK(text.find("reduce them") != std::string::npos);
}

}  // namespace memory_test

#include "troupe/algorithms/messages/state_dict.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/arange.h>

#include <limits>

namespace state_dict_test {

using namespace troupe;

TEST_CASE("a state returns what was put into it") {
  state_dict inner;
  inner.put("x", at::arange(3, at::kFloat));
  inner.put_count("version", std::numeric_limits<std::uint64_t>::max());
  state_dict all;
  all.put_all("server", inner);
  all.put_number("loss", 0.1);
  all.put_text("status", "done");
  all.put_counts("next", {});

  CHECK(all.number("loss") == 0.1);
  CHECK(all.text("status") == "done");
  CHECK(all.counts("next").empty());
  const auto back = all.all("server");
  CHECK(back.entries().size() == 2);
  CHECK(back.count("version") == std::numeric_limits<std::uint64_t>::max());
  CHECK(back.tensor("x", 3).equal(at::arange(3, at::kFloat)));
  CHECK(all.all("serve").empty());
}

TEST_CASE("a state names the entry that does not fit") {
  state_dict state;
  state.put("x", at::arange(3, at::kFloat));
  state.put_counts("next", {1, 2});
  CHECK_THROWS_WITH_AS(state.tensor("y"), "the entry \"y\" is missing", state_error);
  CHECK_THROWS_WITH_AS(state.tensor("x", 4), "the entry \"x\" has 3 elements; expected 4", state_error);
  CHECK_THROWS_WITH_AS(state.count("x"), "the entry \"x\" has the type Float; expected Long", state_error);
  CHECK_THROWS_WITH_AS(state.count("next"), "the entry \"next\" has 2 elements; expected 1", state_error);
}

}  // namespace state_dict_test

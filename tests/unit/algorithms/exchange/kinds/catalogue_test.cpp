// The descriptions of the kinds of exchange for users.
#include "troupe/algorithms/exchange/kinds/catalogue.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/registry.hpp"

namespace catalogue_test {

using namespace troupe;

TEST_CASE("every kind of exchange has an equation, a picture and, for each variant, a test") {
  for (const auto& kind : exchange_kinds()) {
    CAPTURE(kind.name);
    const auto facts = facts_of_kind(kind.name);
    CHECK_FALSE(facts.equation.empty());
    CHECK_FALSE(facts.picture.empty());
    CHECK_FALSE(facts.variants.empty());
    for (const auto& variant : facts.variants) {
      CHECK_FALSE(variant.equals.empty());
      CHECK_FALSE(variant.shown_by.empty());
    }
  }
  CHECK(facts_of_kind("of a program").variants.empty());
}

}  // namespace catalogue_test

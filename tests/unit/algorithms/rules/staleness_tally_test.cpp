#include "tests/support/doctest.hpp"

#include "troupe/algorithms/rules/staleness.hpp"

#include <cstdint>
#include <vector>

namespace staleness_tally_test {

using namespace troupe;

TEST_CASE("staleness is counted, pooled and told apart from what was counted before") {
  staleness_tally tally;
  CHECK(rules::mean(tally) == 0);
  for (const std::uint64_t staleness : {0U, 3U, 3U, 2U}) rules::count(tally, staleness);
  CHECK((tally.counts == std::vector<std::uint64_t>{1, 0, 1, 2}));
  CHECK(tally.applied == 4);
  CHECK(tally.sum == 8);
  CHECK(tally.most == 3);
  CHECK(rules::mean(tally) == 2);

  const auto before = tally;
  CHECK(rules::since(before, tally).applied == 0);
  CHECK(rules::since(before, tally).counts.empty());
  CHECK(rules::since(before, tally).most == 0);
  rules::count(tally, 1);
  const auto lately = rules::since(before, tally);
  CHECK((lately.counts == std::vector<std::uint64_t>{0, 1}));
  CHECK(lately.applied == 1);
  CHECK(lately.sum == 1);
  CHECK(lately.most == 1);

  const auto both = rules::pooled({before, lately, {}});
  CHECK((both.counts == tally.counts));
  CHECK(both.applied == 5);
  CHECK(both.sum == 9);
  CHECK(both.most == 3);
}

TEST_CASE("staleness beyond the last entry is counted there, and not lost from the sum") {
  staleness_tally tally;
  rules::count(tally, 255);
  rules::count(tally, 1'000);
  CHECK(tally.counts.size() == 256);
  CHECK(tally.counts.back() == 2);
  CHECK(tally.sum == 1'255);
  CHECK(tally.most == 1'000);
  CHECK(rules::since({}, tally).most == 1'000);
}

}  // namespace staleness_tally_test

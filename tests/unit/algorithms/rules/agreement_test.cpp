#include "troupe/algorithms/rules/agreement.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/arange.h>

#include <stdexcept>

namespace agreement_test {

namespace {

using namespace troupe;
using rules::agreement;

const digest_list same{1, 2, 3};
const std::vector<std::string> names{"0.weight", "0.bias", "2.weight"};

std::optional<std::string> after_all(const std::vector<digest_list>& digests) {
  agreement replicas{static_cast<std::uint32_t>(digests.size()), names};
  std::optional<std::string> found;
  for (std::uint32_t rank = 0; rank < digests.size(); ++rank) {
    CHECK_FALSE(found);  // not before the digests of all replicas have arrived
    found = replicas.take(rank_id{rank}, 200, digests[rank]);
  }
  return found;
}

}  // namespace

TEST_CASE("equal replicas agree") {
  CHECK_FALSE(after_all({same, same, same}));
  CHECK_FALSE(after_all({same}));
}

TEST_CASE("the replicas that differ from most are named, with the first tensor") {
  const auto why = after_all({{1, 9, 9}, same, same, {1, 2, 4}, same});
  REQUIRE(why);
  CHECK(why->find("workers 0, 3 differ from those of workers 1, 2, 4 after step 200, first in 0.bias,") !=
        std::string::npos);
  const auto few = after_all({same, {1, 2, 4}});
  REQUIRE(few);
  CHECK(few->find("worker 1 differ from those of worker 0 after step 200, first in 2.weight,") != std::string::npos);
}

TEST_CASE("steps are compared separately, and in any order") {
  agreement replicas{2, names};
  CHECK_FALSE(replicas.take(rank_id{0}, 100, same));
  CHECK_FALSE(replicas.take(rank_id{0}, 200, {4, 5, 6}));
  CHECK_FALSE(replicas.take(rank_id{1}, 200, {4, 5, 6}));
  CHECK_FALSE(replicas.take(rank_id{1}, 100, same));
}

TEST_CASE("digests that cannot be compared are refused") {
  agreement replicas{2, names};
  CHECK_THROWS_AS(replicas.take(rank_id{0}, 1, {1, 2}), std::logic_error);
  CHECK_FALSE(replicas.take(rank_id{0}, 2, same));
  CHECK_THROWS_AS(replicas.take(rank_id{0}, 2, same), std::logic_error);
}

TEST_CASE("a digest covers one tensor, and neither the padding nor the buffers") {
  models::flat_layout layout;
  layout.parameters = {{.name = "a", .shape = {2}, .first = 0, .count = 2},
                       {.name = "b", .shape = {3}, .first = 16, .count = 3}};
  layout.parameter_end = 32;
  layout.total = 48;
  const auto values = at::arange(48, at::kFloat);
  const auto digests = rules::digests_of(values, layout);
  REQUIRE(digests.size() == 2);
  const auto with = [&](std::int64_t at) {
    auto changed = values.clone();
    changed[at] += 1;
    return rules::digests_of(changed, layout);
  };
  CHECK(with(2) == digests);
  CHECK(with(40) == digests);
  CHECK(with(1)[0] != digests[0]);
  CHECK(with(1)[1] == digests[1]);
  CHECK(with(18)[1] != digests[1]);
}

}  // namespace agreement_test

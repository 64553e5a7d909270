#include "tests/support/doctest.hpp"

#include "troupe/actors/wire/error.hpp"
#include "troupe/actors/wire/type_ids.hpp"

#include <ATen/ops/ones.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/deep_to_string.hpp>

#include <vector>

namespace messages_test {

namespace {

using namespace troupe;

template <class Message>
caf::error serialised(Message message) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  return sink(message);
}

}  // namespace

TEST_CASE("a message that holds a tensor cannot leave its process") {
  CHECK(serialised(part{.piece = {0, at::ones({4})}}));
  CHECK(serialised(outcome{}));
  CHECK(serialised(snapshot{{}, at::ones({4})}));
  CHECK(serialised(advance{}));
  CHECK(serialised(advanced{}));
  CHECK(serialised(completion{}));
}

TEST_CASE("a message that holds a tensor prints its stamp and shape, not its values") {
  const part sent{.origin = {.sender = rank_id{3}, .step = 7}, .piece = {16, at::ones({4})}};
  const auto text = caf::deep_to_string(sent);
  CHECK(text.find("[4]") != std::string::npos);
  CHECK(text.find("7") != std::string::npos);
}

TEST_CASE("a control message survives a round trip") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  const auto round_trip = [&](auto sent) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    REQUIRE_FALSE(sink(sent));
    caf::binary_deserializer source{system, bytes};
    decltype(sent) received;
    REQUIRE_FALSE(source(received));
    return received;
  };
  const auto reached = round_trip(milestone{.rank = rank_id{3},
                                            .step = 8,
                                            .loss_sum = 0.1,
                                            .sample_count = 64,
                                            .bytes_sent = 1ull << 40,
                                            .cpu = 1.5,
                                            .loading_cpu = 0.75,
                                            .exchange_wait = 0.125});
  const auto more = round_trip(assignment{.first_step = 3, .first_batch = 1ull << 40, .count = 5});
  CHECK(more.first_step == 3);
  CHECK(more.first_batch == 1ull << 40);
  CHECK(more.count == 5);
  CHECK(reached.rank == rank_id{3});
  CHECK(reached.step == 8);
  CHECK(reached.loss_sum == 0.1);
  CHECK(reached.sample_count == 64);
  CHECK(reached.bytes_sent == 1ull << 40);
  CHECK((reached.cpu == 1.5 && reached.loading_cpu == 0.75 && reached.exchange_wait == 0.125));
}

TEST_CASE("an error carries what a person reads") {
  const auto error = make_error(errc::timed_out, "rank 2 has waited for rank 1");
  CHECK(is(error, errc::timed_out));
  CHECK_FALSE(is(error, errc::stale));
  CHECK(describe(error) == "rank 2 has waited for rank 1");
  CHECK(describe(make_error(errc::stale)) == "stale");
}

}  // namespace messages_test

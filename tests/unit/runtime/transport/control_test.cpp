// Control messages as bytes, and which of them a node accepts.
#include "troupe/runtime/transport/control.hpp"

#include "tests/support/control_messages.hpp"
#include "tests/support/doctest.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace transport_control_test {

using namespace troupe;
using tests::one_of_each;
using transport::frame_error;

namespace {

/// Three nodes with two ranks each.
const std::vector<control::node_ranks> nodes{{0, 2}, {2, 2}, {4, 2}};

std::string refusal_of(const control::message& what, std::uint32_t from, std::uint32_t to) {
  try {
    control::check(what, nodes, from, to);
  } catch (const frame_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every control message comes back as it was sent") {
  const auto all = one_of_each();
  REQUIRE(all.size() == std::variant_size_v<control::message>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(control::name_of(all[i]));
    CHECK(all[i].index() == i);
    const auto bytes = control::encode(all[i]);
    const auto back = control::decode(bytes);
    CHECK(back.index() == i);
    const auto is_same = control::encode(back) == bytes;
    CHECK(is_same);
  }
  const auto who = std::get<control::introduction>(control::decode(control::encode(all[0])));
  CHECK(who.node == "beta");
  CHECK(who.fingerprint.at("cpu") == "x");
  CHECK(who.continues);
  const auto reached = std::get<milestone>(control::decode(control::encode(all[7])));
  CHECK(reached.rank == rank_id{3});
  CHECK(std::isnan(reached.loss_sum));
  CHECK(reached.busy == 1.5);
  CHECK(std::get<control::verified>(control::decode(control::encode(all[10]))).digests ==
        digest_list{1, 2, 0xffffffff});
  CHECK(std::get<control::welcome>(control::decode(control::encode(all[15]))).memories.at(1).file == 3);
}

TEST_CASE("a control message that is cut off, too long or changed is refused or another message, and never more") {
  for (const auto& what : one_of_each()) {
    CAPTURE(control::name_of(what));
    const auto bytes = control::encode(what);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK_THROWS_AS(control::decode(std::span{bytes}.first(length)), frame_error);
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_THROWS_AS(control::decode(longer), frame_error);
  }
  data::random_stream random{1};
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto all = one_of_each();
    auto bytes = control::encode(all[random.below(all.size())]);
    bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    try {
      control::decode(bytes);
    } catch (const frame_error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK_THROWS_WITH_AS(control::decode(std::vector<std::byte>{std::byte{200}}),
                       "received a control message of an unknown kind", frame_error);
}

TEST_CASE("a length that exceeds the message takes no memory") {
  auto bytes = control::encode(control::verified{rank_id{1}, 2, {3}});
  bytes[13] = bytes[14] = bytes[15] = bytes[16] = std::byte{0xff};  // the number of digests
  CHECK_THROWS_AS(control::decode(bytes), frame_error);
}

TEST_CASE("a node believes what the other one may say, about its own ranks only") {
  const auto all = one_of_each();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(control::name_of(all[i]));
    const auto to_first = i < control::message{control::welcome{}}.index();
    CHECK(refusal_of(all[i], 1, 0).empty() == to_first);
    CHECK(refusal_of(all[i], 0, 1).empty() == !to_first);
    for (const auto& [from, to] : {std::pair{1u, 2u}, {0u, 0u}})
      CHECK(refusal_of(all[i], from, to).find("from a node that may not send it") != std::string::npos);
  }
  // Rank 3 is on node 1.
  CHECK(refusal_of(control::progress{rank_id{3}, 1}, 2, 0) ==
        "received the control message progress about a rank of another node");
  CHECK(refusal_of(milestone{.rank = rank_id{0}}, 1, 0) != "");
  CHECK(refusal_of(control::proceed{rank_id{4}, 1}, 0, 1) != "");
  CHECK(refusal_of(control::proceed{rank_id{~0u}, 1}, 0, 1) != "");
  CHECK(refusal_of(control::link_lost{3, ""}, 1, 0) ==
        "received the control message link_lost about a node that does not exist");
  CHECK(refusal_of(control::who_waits{~0u}, 0, 1) != "");
  // 128 plus the signal is the status of the run; -128 would turn it into success.
  for (const int signal : {-128, 0, 9, 128, 256}) CHECK(refusal_of(control::interrupted{signal}, 1, 0) != "");
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) CHECK(refusal_of(control::interrupted{signal}, 1, 0).empty());
}

}  // namespace transport_control_test

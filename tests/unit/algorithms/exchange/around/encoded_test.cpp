// Parts that travel as bfloat16.
#include "troupe/algorithms/exchange/around/encoded.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace encoded_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

float rounded(float value) {
  models::buffer_pool pool;
  const part piece{.piece = {0, at::full({1}, value)}};
  constexpr auto how = encoding::bfloat16;
  return decoded(encoded(piece, how, codec_of(how).encode(piece.piece.values, {})), pool).piece.values[0].item<float>();
}

exchange_pump::options pumped(const std::string& kind, const setting_values& settings, slot sends, encoding how,
                              std::uint32_t servers = 0) {
  const auto* found = find_exchange(kind);
  const auto same = nature_of(*found, settings).same_for_all;
  return {.workers = 4,
          .servers = servers,
          .steps = 3,
          .make =
              [=](rank_id rank) {
                const member_options own{.among = {.rank = rank, .world_size = 4, .servers = servers},
                                         .layout = three_parameters(),
                                         .settings = settings,
                                         .when = {.steps = 3},
                                         .optimizer = {.lr = 0.125},
                                         .initial = at::zeros({176})};
                if (how == encoding::float32) return found->make_member(own);
                return make_encoded_member(own, {.how = how, .same_for_all = same}, found->make_member);
              },
          .bring =
              [sends](std::uint32_t rank, std::uint64_t step, const at::Tensor&) {
                return part{.what = sends, .piece = {0, noise(176, rank, step)}, .sample_count = 1};
              },
          .watch = {}};
}

}  // namespace

TEST_CASE("bfloat16 rounds to the nearest value, ties to even") {
  CHECK(rounded(1.0F) == 1.0F);
  CHECK(rounded(1.0F + 1.0F / 256) == 1.0F);               // a tie: rounds to the even neighbour below
  CHECK(rounded(1.0F + 3.0F / 256) == 1.0F + 4.0F / 256);  // a tie: rounds to the even neighbour above
  CHECK(rounded(1.0F + 1.0F / 256 + 1e-6F) == 1.0F + 2.0F / 256);
  CHECK(rounded(-0.0F) == 0.0F);
  CHECK(std::signbit(rounded(-0.0F)));
  CHECK(std::isinf(rounded(std::numeric_limits<float>::max())));
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("encoded exchanges send half the bytes, and answers that are the same for all stay so") {
  struct one {
    std::string kind;
    setting_values settings;
    slot sends;
    std::uint32_t servers;
  };
  const std::vector<one> all{
      {"star", {{"send", std::string{"whole"}}}, slot::gradient, 0},
      {"all_reduce", {{"route", std::string{"auto"}}}, slot::gradient, 0},  // so small that it is sent whole to all
      {"all_reduce", {{"route", std::string{"direct"}}}, slot::gradient, 0},
      {"all_reduce", {{"route", std::string{"ring"}}}, slot::gradient, 0},
      {"all_reduce", {{"route", std::string{"chain"}}}, slot::parameters, 0},
      {"gossip", {{"graph", std::string{"complete"}}}, slot::parameters, 0},
      {"parameter_server", {{"apply", std::string{"all"}}, {"shards", std::int64_t{2}}}, slot::gradient, 2}};
  for (const auto& [kind, settings, sends, servers] : all) {
    CAPTURE(kind);
    exchange_pump plain{pumped(kind, settings, sends, encoding::float32, servers)};
    exchange_pump small{pumped(kind, settings, sends, encoding::bfloat16, servers)};
    exchange_pump again{pumped(kind, settings, sends, encoding::bfloat16, servers)};
    plain.run(1);
    small.run(1);
    again.run(2);
    for (const auto& [ends, bytes] : plain.bytes()) CHECK(small.bytes().at(ends) * 2 == bytes);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      CHECK((small.last(rank).scalar_type() == at::kFloat));
      CHECK(small.last(rank).equal(small.last(0)));
      CHECK(small.last(rank).equal(again.last(rank)));  // whatever the order of the messages
      CHECK_FALSE(small.last(rank).equal(plain.last(rank)));
      CHECK(at::allclose(small.last(rank), plain.last(rank), 0.02, 0.02));
    }
  }
}

TEST_CASE("encoded contributions have the same mean in a star, added up by shards, or added up by everyone") {
  const auto mean_of = [](const std::string& kind, const std::string& key, const std::string& value) {
    exchange_pump pump{pumped(kind, {{key, value}}, slot::gradient, encoding::bfloat16)};
    pump.run(3);
    return pump.last(2);
  };
  const auto star = mean_of("star", "send", "whole");
  CHECK(mean_of("all_reduce", "route", "direct").equal(star));
  CHECK(mean_of("all_reduce", "route", "auto").equal(star));
  CHECK_FALSE(mean_of("all_reduce", "route", "chain").equal(star));  // a chain rounds the sum at each hop
}

}  // namespace encoded_test

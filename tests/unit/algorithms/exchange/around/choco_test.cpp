// CHOCO-SGD: the numbers of the specification, its limits, and what happens without it.
#include "troupe/algorithms/exchange/around/choco.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace choco_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// Gossip without gradients, from the given values on.
struct averaging {
  std::uint32_t workers{2};
  std::string graph{"complete"};
  encoding_options codec{};
  std::optional<double> rate{};  ///< Without one, the parameters themselves are encoded.
  models::flat_layout layout{three_parameters()};
  at::Tensor initial{at::zeros({176})};
  std::function<at::Tensor(std::uint32_t)> begin{};

  exchange_pump::options pumped(std::uint64_t steps) const {
    const auto settings = settled(*find_exchange("gossip"), slot::parameters, workers, {{"graph", graph}});
    return {.workers = workers,
            .steps = steps,
            .elements = layout.parameter_end,
            .make = [one = *this, settings](rank_id rank) { return one.made(rank, settings, {}); },
            .bring =
                [one = *this](std::uint32_t rank, std::uint64_t, const at::Tensor& last) {
                  return part{.what = slot::parameters,
                              .piece = {0, last.defined() ? last : one.begin(rank)},
                              .sample_count = 1};
                },
            .watch = {}};
  }

  std::unique_ptr<member> made(rank_id rank, const setting_values& settings,
                               std::shared_ptr<const state_dict> restored) const {
    member_options own{.among = {.rank = rank, .world_size = workers},
                       .seed = 3,
                       .layout = layout,
                       .carries = {.sends = slot::parameters, .answers = slot::parameters},
                       .settings = settings,
                       .initial = initial};
    own.layout.cut_multiple = std::max<std::int64_t>(16, codec_of(codec.how).nature().block);
    own.restored = std::move(restored);
    const auto& make_inner = find_exchange("gossip")->make_member;
    return rate ? make_choco_member(own, codec, *rate, make_inner) : make_encoded_member(own, codec, make_inner);
  }

  /// Returns how far the workers are apart after so many exchanges, and how far their mean has moved.
  std::pair<double, double> after(std::uint64_t steps) const {
    exchange_pump pump{pumped(steps)};
    pump.run(1);
    std::vector<at::Tensor> first, last;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      first.push_back(begin(rank));
      last.push_back(pump.last(rank));
    }
    const auto mean = at::stack(last).mean(0);
    return {(at::stack(last) - mean).abs().max().item<double>(),
            (mean - at::stack(first).mean(0)).abs().max().item<double>()};
  }
};

averaging ring_of_four(const std::string& encoding, double ratio, std::optional<double> rate) {
  averaging one{.workers = 4,
                .graph = "ring",
                .codec = {.how = encoding_named(encoding), .same_for_all = false, .ratio = ratio},
                .rate = rate};
  one.begin = [layout = one.layout](std::uint32_t rank) { return without_padding(layout, noise(176, rank, 5)); };
  return one;
}

}  // namespace

TEST_CASE("two members have the values of the specification") {
  averaging two{.codec = {.how = encoding_named("top_k"), .same_for_all = false, .ratio = 0.5}, .rate = 0.5};
  two.layout = {
      .parameters = {{"a", {2}, 0, 2}}, .buffers = {}, .parameter_end = 16, .total = 16, .parameter_count = 2};
  two.initial = at::zeros({16});
  two.begin = [](std::uint32_t rank) {
    auto values = at::zeros({16});
    values[0] = rank == 0 ? 4 : 0;
    values[1] = rank == 0 ? 1 : 2;
    return values;
  };
  exchange_pump pump{two.pumped(1)};
  pump.run(1);
  CHECK(pump.last(0)[0].item<float>() == 3);
  CHECK(pump.last(0)[1].item<float>() == 1.5);
  CHECK(pump.last(1)[0].item<float>() == 1);
  CHECK(pump.last(1)[1].item<float>() == 1.5);
  pump.extend(2);
  pump.run(1);
  CHECK(pump.last(0)[0].item<float>() == 2.25);
  CHECK(pump.last(0)[1].item<float>() == 1.625);
}

TEST_CASE("members agree on their mean, which encoding the parameters or rounding to the nearest does not reach") {
  for (const auto& [encoding, ratio, rate] :
       {std::tuple{"int4", 1.0, 0.3}, std::tuple{"sign", 1.0, 0.1}, std::tuple{"top_k", 0.1, 0.1}}) {
    CAPTURE(encoding);
    const auto [apart, moved] = ring_of_four(encoding, ratio, rate).after(500);
    CHECK(apart < 0.01);  // from 1.4
    CHECK(moved < 1e-4);
    const auto [apart_without, moved_without] = ring_of_four(encoding, ratio, std::nullopt).after(100);
    CHECK(std::max(apart_without, moved_without) > 0.1);
  }
}

TEST_CASE("a rate of 1 and float32 are gossip, up to rounding") {
  auto exact = ring_of_four("float32", 1, 1.0);
  auto plain = ring_of_four("float32", 1, std::nullopt);
  exchange_pump a{exact.pumped(5)}, b{plain.pumped(5)};
  a.run(1);
  b.run(2);
  for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(at::allclose(a.last(rank), b.last(rank), 1e-5, 1e-6));
}

TEST_CASE("top-k of a hundredth with a rate of 1 diverges") {
  CHECK(ring_of_four("top_k", 0.01, 1.0).after(300).first > 2);
}

TEST_CASE("members that are made again from their state continue with the same bits") {
  const auto one = ring_of_four("int4", 1, 0.3);
  const auto settings = settled(*find_exchange("gossip"), slot::parameters, 4, {{"graph", std::string{"ring"}}});
  exchange_pump whole{one.pumped(6)};
  whole.run(1);
  for (std::uint64_t at = 1; at < 6; ++at) {
    exchange_pump parts{one.pumped(at)};
    parts.run(2);
    parts.remake([&](rank_id rank, std::shared_ptr<const state_dict> state) { return one.made(rank, settings, state); },
                 6);
    parts.run(3);
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(parts.last(rank).equal(whole.last(rank)));
  }
}

}  // namespace choco_test

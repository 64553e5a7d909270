// Streaming DiLoCo: the numbers of the specification, and its limits.
#include "troupe/algorithms/exchange/around/streaming.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace streaming_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// Two parameters of one element each.
models::flat_layout two_elements() {
  return {.parameters = {{"a", {1}, 0, 1}, {"b", {1}, 16, 1}},
          .buffers = {},
          .parameter_end = 32,
          .total = 32,
          .parameter_count = 2};
}

/// Workers that take steps of SGD between exchanges: worker i along `gradient`(i, step).
struct diloco {
  streaming how{};
  bool streams{true};
  std::uint64_t every{4};
  std::uint64_t steps{12};
  std::uint32_t workers{3};
  std::string encoding{"float32"};
  outer_optimizer outer{.rule = outer_rule::nesterov, .lr = 0.7, .momentum = 0.9};
  models::flat_layout layout{three_parameters()};
  at::Tensor initial{noise(176, 5, 5)};
  std::function<at::Tensor(std::uint32_t, std::uint64_t)> gradient{
      [](std::uint32_t rank, std::uint64_t step) { return 0.1 * noise(176, rank, step); }};

  cadence whole() const { return make_cadence(every, true); }
  cadence due() const { return streams ? how.due(whole(), 1000) : whole(); }

  std::unique_ptr<member> made(rank_id rank, std::uint64_t first_step,
                               std::shared_ptr<const state_dict> restored) const {
    member_options own{.among = {.rank = rank, .world_size = workers},
                       .first_step = first_step,
                       .seed = 7,
                       .layout = layout,
                       .carries = {.sends = slot::parameters, .answers = slot::parameters},
                       .settings = {{"route", std::string{"direct"}}},
                       .due = due(),
                       .initial = initial,
                       .restored = std::move(restored)};
    const auto is_encoded = encoding != "float32";
    std::vector<wrapper> around;
    if (is_encoded)
      around.emplace_back([&](const member_options& given, const member_maker& make_inner) {
        return make_encoded_member(given, {.how = encoding_named(encoding), .feedback = true, .ratio = 0.2},
                                   make_inner);
      });
    around.emplace_back([&](const member_options& given, const member_maker& make_inner) {
      return make_outer_member(given, outer, is_encoded, make_inner);
    });
    if (streams)
      around.emplace_back([&](const member_options& given, const member_maker& make_inner) {
        return make_streaming_member(given, how, whole(), make_inner);
      });
    return wrapped(find_exchange("all_reduce")->make_member, around)(own);
  }

  /// Parameters of the workers after each exchange, and the number of steps until then.
  struct replicas {
    std::vector<at::Tensor> values;
    std::vector<std::uint64_t> steps;
  };

  void train(replicas& all, std::uint32_t rank, std::uint64_t until) const {
    auto& x = all.values[rank];
    for (; all.steps[rank] < until; ++all.steps[rank]) x = x - gradient(rank, all.steps[rank]);
  }

  exchange_pump::options pumped(replicas& all) const {
    return {.workers = workers,
            .due = due(),
            .steps = steps,
            .elements = layout.parameter_end,
            .make = [one = *this](rank_id rank) { return one.made(rank, 0, {}); },
            .bring =
                [one = *this, &all](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                  if (last.defined()) all.values[rank] = last.clone();
                  one.train(all, rank, step);
                  return part{.what = slot::parameters, .piece = {0, all.values[rank]}, .sample_count = 1};
                },
            .watch = {}};
  }

  replicas begin() const { return {std::vector<at::Tensor>(workers, initial), std::vector<std::uint64_t>(workers, 0)}; }

  std::vector<at::Tensor> finished(replicas& all, const exchange_pump& pump) const {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      if (pump.last(rank).defined()) all.values[rank] = pump.last(rank).clone();
      train(all, rank, steps);
    }
    return all.values;
  }

  /// Returns the parameters of all workers after the run.
  std::vector<at::Tensor> trained(std::uint64_t seed = 1) const {
    auto all = begin();
    exchange_pump pump{pumped(all)};
    pump.run(seed);
    return finished(all, pump);
  }
};

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b[i])) return false;
  return a.size() == b.size();
}

std::vector<std::uint64_t> stamps_of(const streaming& how, std::uint64_t every, std::uint64_t steps) {
  return *how.due(make_cadence(every, true), steps).stamps;
}

}  // namespace

TEST_CASE("streaming DiLoCo is that of the specification") {
  diloco one{.how = {.fragments = 2, .delay = 1, .mix = 0.5},
             .steps = 7,
             .workers = 2,
             .outer = {.rule = outer_rule::momentum, .lr = 1, .momentum = 0},
             .layout = two_elements(),
             .initial = at::full({32}, 8.0)};
  one.gradient = [](std::uint32_t rank, std::uint64_t) { return at::full({32}, rank == 0 ? 1.0 : 3.0); };
  const auto found = one.trained();
  CHECK(found[0][0].item<float>() == -1.25F);
  CHECK(found[0][16].item<float>() == -0.5F);
  CHECK(found[1][0].item<float>() == -6.75F);
  CHECK(found[1][16].item<float>() == -9.5F);
}

TEST_CASE("fragments are sent at different times, and their means are used later") {
  CHECK(stamps_of({.fragments = 2, .delay = 1}, 4, 9) == std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(stamps_of({.fragments = 2, .delay = 2}, 8, 16) == std::vector<std::uint64_t>{4, 6, 8, 10, 12, 14, 16});
  CHECK(stamps_of({.fragments = 3}, 8, 16) == std::vector<std::uint64_t>{2, 5, 8, 10, 13, 16});
  CHECK(stamps_of({}, 4, 9) == std::vector<std::uint64_t>{4, 8});
}

TEST_CASE("fragments have nearly equal sizes and whole parameters") {
  const auto layout = three_parameters();  // 48 + 16 + 112
  CHECK((fragments_of(layout, 1) == std::vector<range>{{0, 176}}));
  CHECK((fragments_of(layout, 2) == std::vector<range>{{0, 64}, {64, 112}}));
  CHECK((fragments_of(layout, 3) == std::vector<range>{{0, 48}, {48, 16}, {64, 112}}));
  CHECK((fragments_of(layout, 9) == fragments_of(layout, 3)));
}

TEST_CASE("one fragment without delay and mix is DiLoCo, bit for bit") {
  for (const auto* encoding : {"float32", "int8", "top_k"}) {
    CAPTURE(encoding);
    const diloco one{.encoding = encoding};
    CHECK(same(one.trained(), diloco{.streams = false, .encoding = encoding}.trained()));
  }
}

TEST_CASE("with a mix of 1, there is no exchange, bit for bit") {
  const diloco one{.how = {.fragments = 3, .delay = 1, .mix = 1}};
  auto alone = one.begin();
  for (std::uint32_t rank = 0; rank < one.workers; ++rank) one.train(alone, rank, one.steps);
  CHECK(same(one.trained(), alone.values));
}

TEST_CASE("the order of messages does not matter") {
  for (const auto* encoding : {"float32", "int4", "random_k"})
    for (const streaming& how :
         {streaming{.fragments = 3}, streaming{.fragments = 2, .delay = 3, .mix = 0.25}, streaming{.delay = 2}}) {
      const diloco one{.how = how, .encoding = encoding};
      const auto expected = one.trained();
      CHECK_FALSE(expected[0].equal(one.initial));
      for (std::uint64_t seed = 2; seed < 10; ++seed) CHECK(same(one.trained(seed), expected));
    }
}

TEST_CASE("streaming goes on from its state at every step, bit for bit") {
  for (const auto* encoding : {"float32", "int8", "top_k"}) {
    CAPTURE(encoding);
    const diloco whole{.how = {.fragments = 2, .delay = 3, .mix = 0.25}, .steps = 20, .encoding = encoding};
    const auto expected = whole.trained();
    for (std::uint64_t stop = 1; stop < 12; ++stop) {
      CAPTURE(stop);
      auto one = whole;
      one.steps = stop;
      auto all = one.begin();
      std::vector<std::shared_ptr<const state_dict>> states;
      {
        auto options = one.pumped(all);
        std::vector<member*> made;
        options.make = [&](rank_id rank) {
          auto result = one.made(rank, 0, {});
          made.push_back(result.get());
          return result;
        };
        exchange_pump pump{options};
        pump.run(stop);
        one.finished(all, pump);
        for (auto* each : made) states.push_back(std::make_shared<const state_dict>(each->state()));
      }
      one.steps = whole.steps;
      auto options = one.pumped(all);
      auto rest = *options.due.stamps;
      std::erase_if(rest, [&](auto stamp) { return stamp <= stop; });
      options.due.stamps = std::make_shared<const std::vector<std::uint64_t>>(rest);
      options.make = [&](rank_id rank) { return one.made(rank, stop, states[static_cast<std::size_t>(rank)]); };
      exchange_pump pump{options};
      pump.run(3);
      CHECK(same(one.finished(all, pump), expected));
    }
  }
}

TEST_CASE("parts of other steps are refused") {
  const diloco one{.how = {.fragments = 2}, .workers = 2};
  auto made = one.made(rank_id{0}, 0, {});
  part piece{.origin = {.sender = rank_id{1}, .step = 5},
             .what = slot::parameters,
             .piece = {64, at::zeros({64})},
             .total = 176,
             .sample_count = 1};
  CHECK(code_of(*made, piece) == errc::mismatch);  // the second fragment is sent in steps 4, 8 and so on
  piece.origin.step = 12;
  CHECK(code_of(*made, piece) == errc::mismatch);
  piece.piece = {0, at::zeros({32})};
  piece.origin.step = 2;
  CHECK(code_of(*made, piece) == errc::failed);
  piece.piece.first = 48;  // across both
  CHECK(code_of(*made, piece) == errc::mismatch);
}

}  // namespace streaming_test

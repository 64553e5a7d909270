// Codecs that a program adds: one of fixed size, and one of variable size with feedback.
#include "troupe/algorithms/exchange/around/codec.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"
#include "tests/support/fixed_point.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <memory>

namespace codec_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// Sends only values of 1 or more, as pairs of index and value.
class large_values final : public codec {
 public:
  std::string name() const override { return "large_values"; }
  codec_nature nature() const override { return {.block = 0}; }
  at::ScalarType payload_type() const override { return at::kFloat; }
  std::int64_t max_bytes(std::int64_t elements) const override { return 8 * elements + 4; }
  bool may_have(std::int64_t bytes, std::int64_t /*elements*/) const override { return bytes % 8 == 4; }

  at::Tensor encode(const at::Tensor& values, const encoding_task& /*task*/) const override {
    std::vector<float> pairs{0};  // a payload is never empty
    for (std::int64_t i = 0; i < values.numel(); ++i)
      if (const auto value = values[i].item<float>(); std::abs(value) >= 1)
        pairs.insert(pairs.end(), {static_cast<float>(i), value});
    auto payload = at::zeros({static_cast<std::int64_t>(pairs.size())});
    std::copy(pairs.begin(), pairs.end(), payload.data_ptr<float>());
    return payload;
  }

  void decode(const at::Tensor& payload, at::Tensor& values) const override {
    values.zero_();
    for (std::int64_t at = 1; at < payload.numel(); at += 2) {
      const auto index = payload[at].item<float>();
      if (!(index >= 0 && index < static_cast<float>(values.numel())))
        throw exchange_error(errc::mismatch, "an index is out of range");
      values[static_cast<std::int64_t>(index)] = payload[at + 1];
    }
  }
};

encoding fixed() {
  static const auto made = register_codec(std::make_unique<tests::fixed_point>());
  return made;
}

encoding large() {
  static const auto made = register_codec(std::make_unique<large_values>());
  return made;
}

/// Four workers whose contributions are 0.3 in every element. Appends their members to `made`, if given.
exchange_pump::options pumped(const std::string& kind, const setting_values& settings, encoding how,
                              std::uint64_t steps, std::vector<member*>* made = nullptr,
                              std::shared_ptr<const state_dict> restored = {}) {
  const auto* found = find_exchange(kind);
  const auto same = nature_of(*found, settings).same_for_all;
  return {.workers = 4,
          .servers = 0,
          .steps = steps,
          .make =
              [=](rank_id rank) {
                member_options own{.among = {.rank = rank, .world_size = 4},
                                   .layout = three_parameters(),
                                   .settings = settings,
                                   .when = {.steps = steps}};
                own.restored = restored;
                const auto feedback = codec_of(how).nature().block == 0;
                auto member = make_encoded_member(own, {.how = how, .same_for_all = same, .feedback = feedback},
                                                  found->make_member);
                if (made) made->push_back(member.get());
                return member;
              },
          .bring = equal_gradients(0.3F),
          .watch = {}};
}

const std::vector<std::pair<std::string, setting_values>> whole_contributions{
    {"star", {{"send", std::string{"whole"}}}}, {"all_reduce", {{"route", std::string{"all_gather"}}}}};

}  // namespace

TEST_CASE("codecs are found by name, and a name is taken once") {
  const auto made = fixed();
  CHECK(encoding_named("fixed_point") == made);
  CHECK(codec_of(made).name() == "fixed_point");
  CHECK(encoding_names().front() == "float32");
  CHECK_THROWS_AS(register_codec(std::make_unique<tests::fixed_point>()), std::invalid_argument);
  CHECK_THROWS_AS(encoding_named("fp7"), std::invalid_argument);
}

TEST_CASE("a registered codec changes the bytes of every route, and replicas stay equal") {
  for (const auto* route : {"direct", "all_gather", "chain", "ring"}) {
    CAPTURE(route);
    const setting_values settings{{"route", std::string{route}}};
    exchange_pump plain{pumped("all_reduce", settings, encoding::bfloat16, 3)};
    exchange_pump small{pumped("all_reduce", settings, fixed(), 3)};
    plain.run(1);
    small.run(2);
    for (const auto& [ends, bytes] : plain.bytes()) CHECK(small.bytes().at(ends) * 2 == bytes);
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(small.last(rank).equal(small.last(0)));
    CHECK(small.last(0)[5].item<float>() == doctest::Approx(0.296875));  // 19/64
  }
}

TEST_CASE("with feedback, what is not sent at first is sent later") {
  for (const auto& [kind, settings] : whole_contributions) {
    CAPTURE(kind);
    for (const auto& [steps, value] : {std::pair{3, 0.0}, std::pair{4, 1.2}, std::pair{5, 0.0}}) {
      CAPTURE(steps);
      exchange_pump pump{pumped(kind, settings, large(), static_cast<std::uint64_t>(steps))};
      pump.run(7);
      for (std::uint32_t rank = 0; rank < 4; ++rank)
        CHECK(at::allclose(pump.last(rank).narrow(0, 0, 40), at::full({40}, value)));
    }
  }
}

TEST_CASE("what has not been sent is part of the state") {
  for (const auto& [kind, settings] : whole_contributions) {
    CAPTURE(kind);
    std::vector<member*> members;
    exchange_pump before{pumped(kind, settings, large(), 3, &members)};
    before.run(1);
    const auto saved = std::make_shared<const state_dict>(members.at(0)->state());
    CHECK(at::allclose(saved->tensor("codec/error", 176).narrow(0, 0, 40), at::full({40}, 0.9)));
    exchange_pump after{pumped(kind, settings, large(), 1, nullptr, saved)};
    after.run(1);
    CHECK(at::allclose(after.last(2).narrow(0, 0, 40),
                       at::full({40}, 1.2)));  // all members continue with the error of the first
  }
}

}  // namespace codec_test

// The state of a replica: a replica that is restored from it continues like one that was not interrupted.
#include "tests/support/doctest.hpp"
#include "tests/support/stage_for_one.hpp"

#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/training/replica.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstdint>

namespace replica_state_test {

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a replica that continues from a state takes the same steps, with augmentation and dropout") {
  const replica::bucket_sink nobody = [](part, double) {};
  for (const auto* name : {"sgd", "adamw"}) {
    for (const auto* model : {"convnet", "resnet20"}) {
      CAPTURE(name);
      CAPTURE(model);
      stage_for_one here{{.model = model, .optimizer = {.name = name, .lr = 0.01, .momentum = 0.9}}};
      here.options.augment = {.crop_padding = 1, .flip = 0.5};
      here.options.sampling.samples = 24;  // three steps an epoch
      here.options.sampling.shuffle = true;
      const auto run = [&](replica& one, const snapshot& from, std::uint32_t times) {
        advance asked{.verbs = {verb::gradient, verb::apply}, .times = times, .from = from};
        return one.run(asked, here.cancelled, nobody);
      };
      replica uninterrupted{here.options};
      CHECK(uninterrupted.state().empty());
      const auto then = run(uninterrupted, {{}, here.initial}, 4);
      const auto saved = uninterrupted.state();
      const auto expected = run(uninterrupted, then.now, 4);
      replica resumed{here.options}, forgetful{here.options};
      resumed.restore(saved);
      const auto found = run(resumed, then.now, 4);
      CHECK(found.now.values.equal(expected.now.values));
      CHECK(found.loss_sum == expected.loss_sum);
      CHECK_FALSE(run(forgetful, then.now, 4).now.values.equal(expected.now.values));
    }
  }
}

TEST_CASE("the state of a replica holds a factor of the learning rate that waits for its step") {
  stage_for_one here{{.optimizer = {.lr = 0.5}}};
  const auto end = here.options.layout.parameter_end;
  const outcome answer{.what = slot::gradient, .pieces = {{0, at::full({end}, 2.0F)}}, .lr_scale = 0.25};
  const replica::bucket_sink nobody = [](part, double) {};
  replica one{here.options}, other{here.options};
  const auto computed = one.run(here.request({verb::gradient}), here.cancelled, nobody);
  const auto settled =
      one.run({.from = computed.now, .gradient = computed.gradient, .with = {answer}}, here.cancelled, nobody);
  CHECK(one.state().number("lr_scale") == 0.25);
  other.restore(one.state());
  const auto stepped =
      other.run({.verbs = {verb::apply}, .from = settled.now, .gradient = settled.gradient}, here.cancelled, nobody);
  CHECK(stepped.now.values.narrow(0, 0, end).allclose(here.initial.narrow(0, 0, end) - 0.25F));
  CHECK(other.state().empty());
}

TEST_CASE("a state that does not fit a replica is refused") {
  stage_for_one here{{.optimizer = {.lr = 0.1, .momentum = 0.9}}};
  const auto end = here.options.layout.parameter_end;
  const auto refuses = [&](const char* name, const at::Tensor& values) {
    CAPTURE(name);
    state_dict saved;
    saved.put(name, values);
    CHECK_THROWS_AS(replica{here.options}.restore(saved), state_error);
  };
  refuses("optimizer/momentum_buffer", at::zeros({end + 1}));
  refuses("optimizer/exp_avg", at::zeros({end}));
  refuses("lr_scale", at::zeros({1}));
  refuses("payload_bytes", at::zeros({1}));
  refuses("momentum_buffer", at::zeros({end}));
  state_dict saved;
  saved.put("optimizer/momentum_buffer", at::zeros({end}));
  saved.put_count("payload_bytes", 12);
  replica one{here.options};
  one.restore(saved);
  CHECK(one.state().count("payload_bytes") == 12);
  one.restore({});
  CHECK(one.state().empty());
}

}  // namespace replica_state_test

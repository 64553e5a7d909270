// Replicas that the wiring keeps equal are compared every run.verify_every steps.
#include "tests/support/doctest.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <caf/all.hpp>

namespace verify_test {

namespace {

using namespace troupe;

/// A device that changes one bit of the parameters each time they are copied to the host, from the fourth time on.
class broken_device final : public testing::fake_accelerator {
 public:
  broken_device(std::int64_t elements, std::int64_t changed) : fake_accelerator(7), elements_(elements), at_(changed) {}

  at::Tensor download(const at::Tensor& values) override {
    auto copy = fake_accelerator::download(values);
    if (copy.numel() == elements_ && ++copies_ >= 4) copy.view(at::kInt)[at_].bitwise_xor_(1);
    return copy;
  }

 private:
  std::int64_t elements_, at_;
  int copies_{0};
};

}  // namespace

TEST_CASE("comparing replicas changes neither the result nor a line of the metrics") {
  int compared = 0;
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(tests::name_of(wiring));
    auto plan = tests::tiny_plan(wiring);
    const auto agree = plan.workers > 1 && plan.replicas_agree();
    const auto run = [&](std::uint64_t every) {
      plan.when.verify_every = agree ? every : 0;
      models::buffer_pool pool;
      auto journal = std::make_shared<tests::remembered>();
      const auto end = simulate(plan, tests::tiny_data(wiring.samples), initial_weights(plan, pool), pool, journal, {});
      REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
      return journal;
    };
    compared += agree;
    const auto without = run(0);
    for (const std::uint64_t every : {1, 2, 3}) {
      const auto with = run(every);
      CHECK(with->result.equal(without->result));
      REQUIRE(with->lines.size() == without->lines.size());
      for (std::size_t i = 0; i < with->lines.size(); ++i) {
        CHECK(with->lines[i].event == without->lines[i].event);
        CHECK(with->lines[i].step == without->lines[i].step);
        CHECK(with->lines[i].train_loss == without->lines[i].train_loss);
        CHECK(with->lines[i].val_loss == without->lines[i].val_loss);
        CHECK(with->lines[i].bytes_sent == without->lines[i].bytes_sent);
      }
    }
  }
  CHECK(compared > 3);
}

TEST_CASE("a replica that has become different ends the run, which names its worker, step and tensor") {
  auto plan = tests::tiny_plan({.workers = 3, .steps = 20, .evaluate_every = 20});
  plan.when.verify_every = 3;
  const auto& bias = plan.layout.parameters.at(1);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    simulation_options options{.seed = seed};
    options.open_device = [&](std::uint32_t rank, c10::Device) -> std::shared_ptr<device::accelerator> {
      if (rank != 2) return std::make_shared<testing::fake_accelerator>(rank);
      return std::make_shared<broken_device>(plan.layout.total, bias.first);
    };
    models::buffer_pool pool;
    const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool,
                              std::make_shared<tests::remembered>(), options);
    REQUIRE(end.failure);
    CAPTURE(*end.failure);
    CHECK(end.failure->find("coordinator: the parameters of worker 2 differ from those of workers 0, 1 after step ") ==
          0);
    CHECK(end.failure->find("first in " + bias.name) != std::string::npos);
    const auto step = std::stoull(end.failure->substr(end.failure->find("after step ") + 11));
    CHECK(step > 0);
    CHECK(step % plan.when.verify_every == 0);
  }
}

}  // namespace verify_test

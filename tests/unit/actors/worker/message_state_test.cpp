#include "troupe/algorithms/messages/message_state.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/worker/worker_progress.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

namespace message_state_test {

namespace {

using namespace troupe;

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class Message>
Message again(const Message& one) {
  Message made{};
  restore(made, state_of(one));
  return made;
}

}  // namespace

TEST_CASE("a restored message equals the saved one, but for its run; its tensor is the same memory") {
  const auto values = at::full({4}, 3.0);
  const snapshot shown{.origin = {.run = run_id{9}, .sender = rank_id{2}, .generation = 1, .step = 5, .version = 7},
                       .values = values,
                       .taken = snapshot_time::before_mixing};
  const auto x = again(shown);
  CHECK((x.origin.run == run_id{} && x.origin.sender == rank_id{2}));
  CHECK(x.origin.generation == 1);
  CHECK(x.origin.step == 5);
  CHECK(x.origin.version == 7);
  CHECK(x.taken == snapshot_time::before_mixing);
  CHECK(x.values.is_same(values));

  const part gradient{.origin = shown.origin,
                      .which = {.place = 1, .part = 2},
                      .what = slot::parameters,
                      .at = stage::partial,
                      .piece = {8, values},
                      .total = 12,
                      .sample_count = -1,
                      .mass = 0.25};
  const auto g = again(gradient);
  CHECK((g.which.place == 1 && g.which.part == 2 && g.what == slot::parameters && g.at == stage::partial));
  CHECK((g.piece.first == 8 && g.total == 12 && g.sample_count == -1 && g.mass == 0.25));
  CHECK(g.piece.values.is_same(values));
}

TEST_CASE("numbers keep their bits, missing ones stay missing") {
  const milestone reached{.rank = rank_id{3},
                          .step = 8,
                          .loss_sum = 0.1,
                          .sample_count = 6,
                          .correct = 5,
                          .classified = 6,
                          .bytes_sent = 4096,
                          .data_wait = 0.5,
                          .busy = 2,
                          .cpu = 1.5,
                          .loading_cpu = 0.75,
                          .exchange_wait = 0.125};
  const auto m = again(reached);
  CHECK((m.rank == rank_id{3} && m.step == 8 && m.loss_sum == 0.1 && m.sample_count == 6 && m.correct == 5));
  CHECK((m.classified == 6 && m.bytes_sent == 4096 && m.data_wait == 0.5 && m.busy == 2));
  CHECK((m.cpu == 1.5 && m.loading_cpu == 0.75 && m.exchange_wait == 0.125));

  record line;
  line.epoch = 1;
  line.step = 2;
  line.updates = 3;
  line.bytes_sent = 4;
  line.seconds = 5;
  line.train_seconds = 6;
  line.val_loss = not_a_number;
  line.consensus_distance_max = 7;
  line.val_accuracy_workers = {0.5, not_a_number};
  line.train_loss_workers = {1, 2, 3};
  const auto l = again(line);
  CHECK((l.epoch == 1 && l.step == 2 && l.updates == 3 && l.bytes_sent == 4 && l.seconds == 5 && l.train_seconds == 6));
  CHECK(std::isnan(l.val_loss.value()));
  CHECK(l.consensus_distance_max == 7);
  CHECK_FALSE(l.train_loss);
  CHECK((l.val_accuracy_workers.size() == 2 && std::isnan(l.val_accuracy_workers[1])));
  CHECK(l.train_loss_workers == line.train_loss_workers);

  const auto e = again(evaluation{.step = 2, .loss = 0.3, .accuracy = 0.9, .sample_count = 60});
  CHECK((e.step == 2 && e.loss == 0.3 && e.accuracy == 0.9 && !e.top_k_accuracy && e.sample_count == 60));
  const auto s = again(staleness_tally{.counts = {1, 2}, .applied = 3, .sum = 2, .most = 1});
  CHECK((s.counts == std::vector<std::uint64_t>{1, 2} && s.applied == 3 && s.sum == 2 && s.most == 1));
}

TEST_CASE("a report keeps its result and its place in the schedule, and is evaluated again") {
  rules::report one;
  one.line.step = 4;
  one.epoch_ends = true;
  one.result = snapshot{{.step = 4}, at::full({2}, 1.0)};
  one.found = evaluation{.step = 4};
  one.epoch_seconds = 2;
  one.epoch_train_loss = 0.25;
  const auto r = again(one);
  CHECK((r.line.step == 4 && r.epoch_ends && !r.evaluated && r.epoch_seconds == 2 && r.epoch_train_loss == 0.25));
  REQUIRE(r.result);
  CHECK(r.result->values.is_same(one.result->values));
  CHECK_FALSE(r.found);
  CHECK_FALSE(again(rules::report{}).result);
}

TEST_CASE("lists keep their order, beyond nine entries too") {
  std::vector<milestone> all(12);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].step = i;
  state_dict state;
  put_list(state, "all", all);
  const auto found = list_of<milestone>(state, "all");
  REQUIRE(found.size() == 12);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(found[i].step == i);
}

TEST_CASE("a worker's progress is restored for the run that continues, and refused by another model") {
  worker_progress before;
  before.now = {{.run = run_id{1}, .sender = rank_id{2}, .step = 6, .version = 6}, at::full({4}, 2.0)};
  before.completed = 6;
  before.tally = {.loss_sum = 1.5, .sample_count = 3};
  before.payload_bytes = {10, 0};
  before.reported = 4;
  before.contributed = snapshot{{.step = 5}, at::full({4}, 1.0), {}, snapshot_time::before_mixing};
  before.mixed = outcome{.what = slot::change, .pieces = {{1, at::full({2}, 0.5)}}};
  before.reports.assigned = {{.first_step = 4, .first_batch = 11, .count = 3}, {.first_step = 7, .count = 2}};
  worker_progress after;
  after.now.values = at::zeros({4});
  after.payload_bytes = {0, 0};
  after.restore(before.state(), run_id{8});
  CHECK((after.now.origin.run == run_id{8} && after.now.origin.step == 6));
  CHECK(after.now.values.is_same(before.now.values));
  CHECK((after.completed == 6 && after.tally.loss_sum == 1.5 && after.tally.sample_count == 3));
  CHECK(after.payload_bytes == before.payload_bytes);
  CHECK((after.reported == 4 && !after.shown && !after.gradient));
  REQUIRE(after.contributed);
  CHECK((after.contributed->origin.run == run_id{8}));
  REQUIRE(after.after_mixing());
  CHECK(after.after_mixing()->taken == snapshot_time::after_mixing);
  CHECK(after.after_mixing()->values.equal(at::tensor({1.0F, 1.5F, 1.5F, 1.0F})));
  REQUIRE(after.reports.assigned.size() == 2);
  CHECK((after.reports.assigned[0].first_batch == 11 && after.reports.assigned[1].end() == 9));

  worker_progress other;
  other.now.values = at::zeros({5});
  other.payload_bytes = {0, 0};
  CHECK_THROWS_AS(other.restore(before.state(), run_id{8}), state_error);
}

}  // namespace message_state_test

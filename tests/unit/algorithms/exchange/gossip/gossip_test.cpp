// Gossip as state machines driven by hand: the results have the bits of W in any order of arrival, and parts that do
// not fit are rejected.
#include "troupe/algorithms/exchange/gossip/gossip.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/gossip_wirings.hpp"
#include "tests/support/one_peer.hpp"

#include "troupe/algorithms/exchange/gossip/gossip_graph.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gossip_test {

namespace {

using namespace troupe;
using namespace troupe::tests;
using ranks = std::vector<rank_id>;

constexpr std::int64_t elements = 176;

models::flat_layout layout() {
  return {.parameters = {{"a", {40}, 0, 40}, {"b", {7}, 48, 7}, {"c", {100}, 64, 100}},
          .buffers = {},
          .parameter_end = elements,
          .total = elements,
          .parameter_count = 147};
}

std::unique_ptr<member> make_member(const setting_values& settings, std::uint32_t rank, std::uint32_t n,
                                    std::int64_t chunk_elements = 0) {
  return gossip_kind().make_member({.among = {.rank = rank_id{rank}, .world_size = n},
                                    .layout = layout(),
                                    .settings = settings,
                                    .chunk_elements = chunk_elements});
}

at::Tensor values_of(std::uint32_t rank, std::uint64_t step) {
  data::random_stream random{data::keyed(3, data::purpose::digits, rank, step)};
  auto values = at::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
  return values;
}

part contribution_of(std::uint32_t rank, std::uint64_t step) {
  return {.origin = {.sender = rank_id{rank}, .step = step},
          .what = slot::parameters,
          .piece = {0, values_of(rank, step)},
          .total = elements,
          .sample_count = 32};
}

/// Computes the promised result in the simplest way.
at::Tensor plain_mixture(const std::vector<rules::neighbour>& row, std::uint64_t step) {
  auto result = at::empty({elements});
  std::vector<at::Tensor> all;
  for (const auto& each : row) all.push_back(values_of(each.index, step));
  for (std::int64_t i = 0; i < elements; ++i) {
    float sum = static_cast<float>(row[0].weight) * all[0].data_ptr<float>()[i];
    for (std::size_t k = 1; k < row.size(); ++k)
      sum = sum + static_cast<float>(row[k].weight) * all[k].data_ptr<float>()[i];
    result.data_ptr<float>()[i] = sum;
  }
  return result;
}

using ends = std::pair<std::uint32_t, std::uint32_t>;

/// All members and the messages between them, delivered in an order drawn from a seed.
class gossip_by_hand {
 public:
  gossip_by_hand(const setting_values& settings, std::uint32_t n, std::int64_t chunk_elements, std::uint64_t seed)
      : random_(seed), answers_(n), next_(n, 0) {
    for (std::uint32_t rank = 0; rank < n; ++rank) members_.push_back(make_member(settings, rank, n, chunk_elements));
  }

  /// Every member contributes as soon as its last answer is complete. `eager`: contributions precede deliveries.
  void run(std::uint64_t steps, bool eager = false) {
    for (;;) {
      std::vector<std::uint32_t> ready;
      for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
        if (next_[rank] < steps && (next_[rank] == 0 || complete(rank, next_[rank] - 1))) ready.push_back(rank);
      const auto choices = ready.size() + (eager && !ready.empty() ? 0 : in_flight_.size());
      if (choices == 0) return;
      const auto pick = random_.below(choices);
      if (pick < ready.size()) {
        const auto rank = ready[pick];
        const auto step = next_[rank]++;
        if (step > 0) members_[rank]->forget_before(step);
        box out{*this, rank};
        members_[rank]->contribute(contribution_of(rank, step), out);
      } else {
        const auto index = static_cast<std::ptrdiff_t>(pick - ready.size());
        const auto [to, piece] = in_flight_[static_cast<std::size_t>(index)];
        in_flight_.erase(in_flight_.begin() + index);
        const auto under_way = next_[to] == 0 ? 0 : next_[to] - (complete(to, next_[to] - 1) ? 0 : 1);
        CHECK(piece.origin.step <= under_way + *members_[to]->steps_ahead());
        ahead = std::max(ahead, piece.origin.step - std::min(piece.origin.step, under_way));
        box out{*this, to};
        members_[to]->receive(piece, out);
      }
    }
  }

  bool complete(std::uint32_t rank, std::uint64_t step) const {
    std::int64_t came = 0;
    if (const auto found = answers_[rank].find(step); found != answers_[rank].end())
      for (const auto& [first, piece] : found->second) came += piece.piece.values.numel();
    return came == elements;
  }

  at::Tensor answer(std::uint32_t rank, std::uint64_t step) const {
    std::vector<at::Tensor> values;
    for (const auto& [first, piece] : answers_[rank].at(step)) values.push_back(piece.piece.values);
    return at::cat(values);
  }

  const std::map<std::int64_t, part>& pieces(std::uint32_t rank, std::uint64_t step) const {
    return answers_[rank].at(step);
  }

  std::map<ends, std::uint64_t> messages, bytes;
  std::uint64_t ahead{0};  ///< Largest number of steps by which a part was ahead of its receiver.

 private:
  struct box final : outbox {
    box(gossip_by_hand& owner, std::uint32_t rank) : all(owner), me(rank) {}
    gossip_by_hand& all;
    std::uint32_t me;
    void send(rank_id to, part piece) override {
      const ends between{me, static_cast<std::uint32_t>(to)};
      all.messages[between] += 1;
      all.bytes[between] += static_cast<std::uint64_t>(piece.piece.values.nbytes());
      all.in_flight_.emplace_back(static_cast<std::uint32_t>(to), std::move(piece));
    }
    void answer(const part& piece) override {
      CHECK(all.answers_[me][piece.origin.step].emplace(piece.piece.first, piece).second);
    }
  };

  data::random_stream random_;
  std::vector<std::unique_ptr<member>> members_;
  std::vector<std::pair<std::uint32_t, part>> in_flight_;
  std::vector<std::map<std::uint64_t, std::map<std::int64_t, part>>> answers_;  ///< rank, step, first element
  std::vector<std::uint64_t> next_;
};

struct silent final : outbox {
  void send(rank_id, part) override {}
  void answer(const part&) override {}
};

}  // namespace

TEST_CASE("every order of messages and every chunk size gives each member its row of W, bit for bit") {
  register_graph(one_peer());
  auto all = wirings();
  for (const std::uint32_t n : {2U, 5U, 8U}) all.emplace_back(n, setting_values{{"graph", std::string{"one_peer"}}});
  for (const auto& [n, settings] : all) {
    CAPTURE(n);
    const auto mixing = mixing_of(names(n), settings);
    for (const std::int64_t chunk_elements : {0, 16, 48, 4096}) {
      for (std::uint64_t seed = 1; seed < 5; ++seed) {
        gossip_by_hand exchange{settings, n, chunk_elements, seed};
        exchange.run(4);
        for (std::uint32_t rank = 0; rank < n; ++rank) {
          for (std::uint64_t step = 0; step < 4; ++step) {
            REQUIRE(exchange.complete(rank, step));
            CHECK(exchange.answer(rank, step).equal(plain_mixture(mixing.row(rank, step), step)));
            for (const auto& [first, piece] : exchange.pieces(rank, step)) {
              CHECK(piece.what == slot::parameters);
              CHECK(piece.at == stage::result);
              CHECK(piece.origin.sender == rank_id{rank});
              CHECK(piece.sample_count == 1);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the plan knows what gossip sends") {
  for (const auto& [n, settings] : wirings()) {
    CAPTURE(n);
    for (const std::int64_t chunk_elements : {0, 48}) {
      gossip_by_hand exchange{settings, n, chunk_elements, 1};
      exchange.run(1);
      std::map<ends, std::uint64_t> messages, bytes;
      for (const auto& edge : gossip_kind().edges(n, layout(), settings)) {
        messages[{edge.from, edge.to}] += edge.messages;
        bytes[{edge.from, edge.to}] += edge.bytes;
      }
      CHECK(exchange.bytes == bytes);
      if (chunk_elements == 0) CHECK(exchange.messages == messages);
    }
  }
}

TEST_CASE("gossip mixes by hand: a line of three") {
  // w1 hears both: (1 + 2 + 4)/3. w0 keeps 2/3 of its own: (2·1 + 2)/3.
  struct keeping final : outbox {
    std::vector<part> answers;
    void send(rank_id, part) override {}
    void answer(const part& piece) override { answers.push_back(piece); }
  } out;
  const auto constant = [](std::uint32_t rank, float value) {
    auto piece = contribution_of(rank, 0);
    piece.piece.values = at::full({elements}, value);
    return piece;
  };
  const auto middle = make_member(named("line"), 1, 3);
  middle->receive(constant(2, 4), out);
  middle->contribute(constant(1, 2), out);
  CHECK(out.answers.empty());
  middle->receive(constant(0, 1), out);
  REQUIRE(out.answers.size() == 1);
  CHECK(out.answers[0].piece.values.allclose(at::full({elements}, 7.0F / 3)));
  const auto end = make_member(named("line"), 0, 3);
  end->receive(constant(1, 2), out);
  end->contribute(constant(0, 1), out);
  REQUIRE(out.answers.size() == 2);
  CHECK(out.answers[1].piece.values.allclose(at::full({elements}, 4.0F / 3)));
}

TEST_CASE("what a member sends is its own memory, and one member alone gets that back") {
  struct looking final : outbox {
    std::vector<const void*> seen;
    void send(rank_id, part piece) override { seen.push_back(piece.piece.values.data_ptr()); }
    void answer(const part& piece) override { seen.push_back(piece.piece.values.data_ptr()); }
  } out;
  const auto own = contribution_of(0, 0);
  make_member(named("ring"), 0, 4)->contribute(own, out);
  make_member(named("ring"), 0, 1)->contribute(own, out);
  CHECK(out.seen == std::vector<const void*>(3, own.piece.values.data_ptr()));
}

TEST_CASE("a chunk is mixed as soon as all have sent it") {
  struct counting final : outbox {
    std::size_t answers{0};
    void send(rank_id, part) override {}
    void answer(const part&) override { ++answers; }
  } out;
  const auto one = make_member(named("ring"), 0, 2, 48);  // 48 + 48 + 48 + 32
  one->contribute(contribution_of(0, 0), out);
  auto piece = contribution_of(1, 0);
  piece.which.part = 2;
  piece.piece = {96, piece.piece.values.narrow(0, 96, 48)};
  one->receive(piece, out);
  CHECK(out.answers == 1);
}

TEST_CASE("where arrows go one way a peer can be more than one step ahead, and a member knows by how much") {
  CHECK(make_member(named("ring"), 0, 8)->steps_ahead() == 1);
  // 0 hears 7, 6 and 4. Its own values reach 7 in three hops, 6 in two and 4 in one.
  CHECK(make_member(named("exponential"), 0, 8)->steps_ahead() == 3);
  CHECK(make_member(circle, 0, 3)->steps_ahead() == 2);
  std::uint64_t most = 0;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    gossip_by_hand exchange{circle, 3, 0, seed};
    exchange.run(8, true);
    most = std::max(most, exchange.ahead);
  }
  CHECK(most == 2);
}

TEST_CASE("a member of a gossip waits for itself and its neighbours until all their chunks have come") {
  silent out;
  const auto one = make_member(named("ring"), 1, 4, 96);
  CHECK((one->waiting_for(0) == ranks{rank_id{0}, rank_id{1}, rank_id{2}}));
  one->contribute(contribution_of(1, 0), out);
  CHECK((one->waiting_for(0) == ranks{rank_id{0}, rank_id{2}}));
  const auto chunk = [](std::uint32_t rank, std::uint32_t index) {
    auto piece = contribution_of(rank, 0);
    piece.which.part = index;
    piece.piece = {96 * index, piece.piece.values.narrow(0, 96 * index, index == 0 ? 96 : 80)};
    return piece;
  };
  one->receive(chunk(2, 0), out);
  CHECK((one->waiting_for(0) == ranks{rank_id{0}, rank_id{2}}));
  one->receive(chunk(2, 1), out);
  CHECK((one->waiting_for(0) == ranks{rank_id{0}}));
  CHECK(one->largest_fold() == 3 * 96);

  const auto alone = make_member(circle, 1, 3);  // hears only 0, not itself
  CHECK((alone->waiting_for(0) == ranks{rank_id{0}, rank_id{1}}));
}

TEST_CASE("what comes twice is stale, and what comes from no neighbour, or is no contribution, a mismatch") {
  silent out;
  const auto code_of = [&](member& one, const part& piece, bool own = false) {
    try {
      own ? one.contribute(piece, out) : one.receive(piece, out);
    } catch (const exchange_error& problem) {
      return problem.code;
    }
    return errc{};
  };
  const auto one = make_member(named("ring"), 0, 4);
  one->contribute(contribution_of(0, 0), out);
  CHECK(code_of(*one, contribution_of(0, 0), true) == errc::stale);
  one->receive(contribution_of(1, 0), out);
  CHECK(code_of(*one, contribution_of(1, 0)) == errc::stale);
  CHECK(code_of(*one, contribution_of(2, 0)) == errc::mismatch);  // across the ring
  CHECK(code_of(*one, contribution_of(0, 0)) == errc::mismatch);  // itself
  auto wrong = contribution_of(3, 0);
  wrong.at = stage::result;
  CHECK(code_of(*one, wrong) == errc::mismatch);
  wrong = contribution_of(3, 0);
  wrong.what = slot::gradient;
  CHECK(code_of(*one, wrong) == errc::mismatch);
  wrong = contribution_of(3, 0);
  wrong.which.part = 1;
  CHECK(code_of(*one, wrong) == errc::mismatch);
  one->receive(contribution_of(3, 0), out);  // complete now
  CHECK(code_of(*one, contribution_of(3, 0)) == errc::stale);
  CHECK(code_of(*make_member(circle, 1, 3), contribution_of(2, 0)) == errc::mismatch);  // against the edge's direction
}

TEST_CASE("a step of a gossip that is forgotten holds no contribution") {
  silent out;
  const auto one = make_member(named("ring"), 0, 4);
  const auto piece = contribution_of(1, 0);
  one->receive(piece, out);
  CHECK(piece.piece.values.use_count() == 2);
  one->forget_before(1);
  CHECK(piece.piece.values.use_count() == 1);
}

}  // namespace gossip_test

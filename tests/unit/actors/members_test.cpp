// The exchanges as state machines: any order of messages gives the same answer, and a stall names who is missing.
#include "tests/support/doctest.hpp"

#include "troupe/actors/exchange/all_reduce.hpp"
#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/exchange/star.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/data/random.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>

namespace {

using namespace troupe;

/// Three parameters of 40, 7 and 100 elements, on 64-byte boundaries: 48 + 16 + 112.
models::flat_layout layout() {
  return {.parameters = {{"a", {40}, 0, 40}, {"b", {7}, 48, 7}, {"c", {100}, 64, 100}},
          .buffers = {},
          .parameter_end = 176,
          .total = 176,
          .parameter_count = 147};
}

struct wiring {
  std::string label;
  std::string kind;
  setting_values settings;
};

const std::vector<wiring> wirings{{"star whole", "star", {{"send", std::string{"whole"}}}},
                                  {"star parameter", "star", {{"send", std::string{"parameter"}}}},
                                  {"all_reduce direct", "all_reduce", {{"route", std::string{"direct"}}}},
                                  {"all_reduce ring", "all_reduce", {{"route", std::string{"ring"}}}}};

at::Tensor contribution(std::uint32_t rank, std::uint64_t step) {
  data::random_stream random{data::keyed(3, data::purpose::digits, rank, step)};
  auto values = at::empty({176});
  for (std::int64_t i = 0; i < 176; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
  return values;
}

/// All members of one exchange and the messages between them, delivered in an order drawn from a seed.
class exchange_by_hand {
 public:
  exchange_by_hand(const wiring& wired, std::uint32_t world_size, std::uint64_t seed)
      : random_(seed), answers_(world_size) {
    const auto* kind = find_exchange(wired.kind);
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
      members_.push_back(kind->make_member(
          {.rank = rank_id{rank}, .world_size = world_size, .layout = layout(), .settings = wired.settings}));
  }

  /// Runs steps in which every member contributes as soon as its last answer is complete.
  void run(std::uint64_t steps) {
    std::vector<std::uint64_t> next(members_.size(), 0);
    for (;;) {
      std::vector<std::uint32_t> ready;
      for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
        if (next[rank] < steps && (next[rank] == 0 || complete(rank, next[rank] - 1))) ready.push_back(rank);
      const auto choices = ready.size() + in_flight_.size();
      if (choices == 0) return;
      const auto pick = random_.below(choices);
      if (pick < ready.size()) {
        const auto rank = ready[pick];
        const auto step = next[rank]++;
        if (step > 0) members_[rank]->forget_before(step);
        box out{*this, rank};
        members_[rank]->contribute({.origin = {.sender = rank_id{rank}, .step = step},
                                    .piece = {0, contribution(rank, step)},
                                    .total = 176,
                                    .sample_count = 1 + rank},
                                   out);
      } else {
        const auto index = static_cast<std::ptrdiff_t>(pick - ready.size());
        const auto [to, piece] = in_flight_[static_cast<std::size_t>(index)];
        in_flight_.erase(in_flight_.begin() + index);
        box out{*this, to};
        members_[to]->receive(piece, out);
      }
    }
  }

  bool complete(std::uint32_t rank, std::uint64_t step) const {
    std::int64_t elements = 0;
    if (const auto found = answers_[rank].find(step); found != answers_[rank].end())
      for (const auto& [first, values] : found->second) elements += values.numel();
    return elements == 176;
  }

  at::Tensor answer(std::uint32_t rank, std::uint64_t step) const {
    std::vector<at::Tensor> pieces;
    for (const auto& [first, values] : answers_[rank].at(step)) pieces.push_back(values);
    return at::cat(pieces);
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t messages() const { return messages_; }

 private:
  struct box final : outbox {
    box(exchange_by_hand& owner, std::uint32_t rank) : all(owner), me(rank) {}
    exchange_by_hand& all;
    std::uint32_t me;
    void send(rank_id to, part piece) override {
      CHECK(static_cast<std::uint32_t>(to) != me);
      all.bytes_ += static_cast<std::uint64_t>(piece.piece.values.nbytes());
      all.messages_ += 1;
      all.in_flight_.emplace_back(static_cast<std::uint32_t>(to), std::move(piece));
    }
    void answer(const part& piece) override {
      CHECK(all.answers_[me][piece.origin.step].emplace(piece.piece.first, piece.piece.values).second);
    }
  };

  data::random_stream random_;
  std::vector<std::unique_ptr<member>> members_;
  std::deque<std::pair<std::uint32_t, part>> in_flight_;
  std::vector<std::map<std::uint64_t, std::map<std::int64_t, at::Tensor>>> answers_;  ///< rank, step, first element
  std::uint64_t bytes_{0}, messages_{0};
};

at::Tensor expected(std::uint32_t world_size, std::uint64_t step) {
  models::buffer_pool pool;
  std::vector<rules::weighted> summands;
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    summands.push_back({contribution(rank, step), static_cast<double>(1 + rank)});
  return rules::mean_in_order(summands, pool);
}

}  // namespace

TEST_CASE("every order of messages gives every member the same mean, in rank order but for the ring") {
  for (const auto& wired : wirings) {
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U, 16U}) {
      CAPTURE(wired.label);
      CAPTURE(n);
      exchange_by_hand first{wired, n, 1};
      first.run(3);
      for (std::uint64_t seed = 2; seed < 12; ++seed) {
        exchange_by_hand other{wired, n, seed};
        other.run(3);
        for (std::uint64_t step = 0; step < 3; ++step)
          for (std::uint32_t rank = 0; rank < n; ++rank) {
            REQUIRE(other.complete(rank, step));
            CHECK(other.answer(rank, step).equal(first.answer(0, step)));
          }
      }
      const auto mean = expected(n, 2);
      if (wired.label == "all_reduce ring")
        CHECK(at::allclose(first.answer(0, 2), mean, 1e-5, 1e-6));
      else
        CHECK(first.answer(0, 2).equal(mean));
    }
  }
}

TEST_CASE("the plan knows how many messages and bytes a step sends") {
  for (const auto& wired : wirings) {
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U}) {
      CAPTURE(wired.label);
      CAPTURE(n);
      exchange_by_hand exchange{wired, n, 1};
      exchange.run(1);
      std::uint64_t messages = 0;
      std::uint64_t bytes = 0;
      for (const auto& edge : find_exchange(wired.kind)->edges(n, layout(), wired.settings)) {
        messages += edge.messages;
        bytes += edge.bytes;
      }
      CHECK(exchange.messages() == messages);
      CHECK(exchange.bytes() == bytes);
    }
  }
}

TEST_CASE("a ring and a direct all-reduce send 2(n-1)/n of the gradient for each worker") {
  for (const auto* route : {"ring", "direct"}) {
    std::uint64_t bytes = 0;
    models::flat_layout even = layout();
    even.parameter_end = 4 * 64;
    for (const auto& edge : find_exchange("all_reduce")->edges(4, even, {{"route", std::string{route}}}))
      bytes += edge.bytes;
    CHECK(bytes == 4 * (2 * 3 * 64 * sizeof(float)));
  }
}

TEST_CASE("a member says whom it waits for") {
  const port_options base{.rank = rank_id{0}, .world_size = 3, .layout = layout(), .settings = wirings[0].settings};
  struct silent final : outbox {
    void send(rank_id, part) override {}
    void answer(const part&) override {}
  } out;
  const auto from = [](std::uint32_t rank) {
    return part{
        .origin = {.sender = rank_id{rank}}, .piece = {0, contribution(rank, 0)}, .total = 176, .sample_count = 1};
  };
  SUBCASE("the master of a star for those who have not contributed") {
    const auto master = find_exchange("star")->make_member(base);
    master->contribute(from(0), out);
    master->receive(from(2), out);
    CHECK((master->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
  }
  SUBCASE("another member of a star for the master") {
    auto other = base;
    other.rank = rank_id{2};
    const auto point = find_exchange("star")->make_member(other);
    point->contribute(from(2), out);
    CHECK((point->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
  }
  SUBCASE("a member of a direct all-reduce for every shard that is missing") {
    auto direct = base;
    direct.settings = wirings[2].settings;
    const auto one = find_exchange("all_reduce")->make_member(direct);
    one->contribute(from(0), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
  }
}

TEST_CASE("a part that does not fit is refused") {
  struct silent final : outbox {
    void send(rank_id, part) override {}
    void answer(const part&) override {}
  } out;
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    const auto one =
        find_exchange(wired.kind)
            ->make_member({.rank = rank_id{0}, .world_size = 3, .layout = layout(), .settings = wired.settings});
    part odd{.origin = {.sender = rank_id{1}}, .piece = {0, at::ones({5})}, .total = 176, .sample_count = 1};
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
    odd.which.part = 1'000'000;
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
  }
}

// The exchanges as state machines: any order of messages gives the same answer, and a stall names who is missing.
#include "tests/support/doctest.hpp"

#include "troupe/actors/exchange/buckets.hpp"
#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/data/random.hpp"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
  std::int64_t chunk_elements{0};
  std::vector<range> buckets{};  ///< In the order of leaving.
};

wiring all_reduce(const std::string& route, std::int64_t chunk_elements = 0) {
  return {"all_reduce " + route + ", chunks of " + std::to_string(chunk_elements),
          "all_reduce",
          {{"route", route}},
          chunk_elements,
          {}};
}

const std::vector<std::string> routes{"auto", "direct", "chain", "ring"};

const std::vector<range> by_parameter{{64, 112}, {48, 16}, {0, 48}};

/// 176 elements are a small gradient, for which "auto" has a member of its own.
std::vector<wiring> every_wiring() {
  std::vector<wiring> result{{"star", "star", {}, 0, {}}, {"star by parameter", "star", {}, 0, by_parameter}};
  for (const auto& route : routes) {
    for (const std::int64_t chunk_elements : {0, 16, 48, 4096}) result.push_back(all_reduce(route, chunk_elements));
    result.push_back(all_reduce(route, 32));
    result.back().label += ", in two buckets";
    result.back().buckets = {{64, 112}, {0, 64}};
  }
  return result;
}

const std::vector<wiring> wirings = every_wiring();

at::Tensor contribution(std::uint32_t rank, std::uint64_t step) {
  data::random_stream random{data::keyed(3, data::purpose::digits, rank, step)};
  auto values = at::empty({176});
  for (std::int64_t i = 0; i < 176; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
  return values;
}

std::unique_ptr<member> make_member(const wiring& wired, std::uint32_t rank, std::uint32_t world_size) {
  const member_options own{.among = {.rank = rank_id{rank}, .world_size = world_size},
                           .layout = layout(),
                           .settings = wired.settings,
                           .chunk_elements = wired.chunk_elements,
                           .buckets = wired.buckets};
  const auto& make = find_exchange(wired.kind)->make_member;
  return wired.buckets.empty() ? make(own) : make_bucketed_member(own, make);
}

/// What the plan says of a wiring's traffic, bucket by bucket.
std::vector<planned_edge> edges_of(const wiring& wired, std::uint32_t world_size) {
  std::vector<planned_edge> all;
  for (const auto& bucket : wired.buckets.empty() ? std::vector<range>{{0, 176}} : wired.buckets)
    for (const auto& edge :
         find_exchange(wired.kind)->edges(world_size, layout_of_bucket(layout(), bucket), wired.settings))
      all.push_back(edge);
  return all;
}

part contribution_of(std::uint32_t rank, std::uint64_t step) {
  return {.origin = {.sender = rank_id{rank}, .step = step},
          .piece = {0, contribution(rank, step)},
          .total = 176,
          .sample_count = 1 + rank};
}

/// What a member was given: its own contribution, or a part from a peer.
struct delivery {
  std::uint32_t to{0};
  bool own{false};
  part piece;
};

void give(member& one, const delivery& given, outbox& out) {
  if (given.own)
    one.contribute(given.piece, out);
  else
    one.receive(given.piece, out);
}

struct silent final : outbox {
  void send(rank_id, part) override {}
  void answer(const part&) override {}
};

using ends = std::pair<std::uint32_t, std::uint32_t>;

/// All members of one exchange and the messages between them, delivered in an order drawn from a seed.
class exchange_by_hand {
 public:
  exchange_by_hand(const wiring& wired, std::uint32_t world_size, std::uint64_t seed)
      : buckets_(wired.buckets), random_(seed), answers_(world_size) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) members_.push_back(make_member(wired, rank, world_size));
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
        if (buckets_.empty()) deliver({rank, true, contribution_of(rank, step)});
        for (const auto& bucket : buckets_) {  // they come in any order
          auto piece = contribution_of(rank, step);
          piece.piece = {bucket.first, piece.piece.values.narrow(0, bucket.first, bucket.count)};
          in_flight_.push_back({rank, true, std::move(piece)});
        }
      } else {
        const auto index = static_cast<std::ptrdiff_t>(pick - ready.size());
        const auto given = in_flight_[static_cast<std::size_t>(index)];
        in_flight_.erase(in_flight_.begin() + index);
        if (!given.own && next[given.to] <= given.piece.origin.step) ++early_;
        deliver(given);
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
    std::int64_t end = 0;
    for (const auto& [first, values] : answers_[rank].at(step)) {
      CHECK(first == end);
      end += values.numel();
      pieces.push_back(values);
    }
    return at::cat(pieces);
  }

  void forget_before(std::uint64_t step) {
    for (const auto& one : members_) one->forget_before(step);
  }

  void forget_answers(std::uint32_t rank) { answers_[rank].clear(); }

  /// All that was delivered, in order.
  const std::vector<delivery>& log() const { return log_; }
  void clear_log() { log_.clear(); }

  const std::map<ends, std::uint64_t>& bytes() const { return bytes_; }
  const std::map<ends, std::uint64_t>& messages() const { return messages_; }

  /// Messages that came before their receiver had contributed to the step.
  std::uint64_t early() const { return early_; }

 private:
  struct box final : outbox {
    box(exchange_by_hand& owner, std::uint32_t rank) : all(owner), me(rank) {}
    exchange_by_hand& all;
    std::uint32_t me;
    void send(rank_id to, part piece) override {
      CHECK(static_cast<std::uint32_t>(to) != me);
      const ends between{me, static_cast<std::uint32_t>(to)};
      all.bytes_[between] += static_cast<std::uint64_t>(piece.piece.values.nbytes());
      all.messages_[between] += 1;
      all.in_flight_.push_back({static_cast<std::uint32_t>(to), false, std::move(piece)});
    }
    void answer(const part& piece) override {
      CHECK(all.answers_[me][piece.origin.step].emplace(piece.piece.first, piece.piece.values).second);
    }
  };

  void deliver(const delivery& given) {
    log_.push_back(given);
    box out{*this, given.to};
    give(*members_[given.to], given, out);
  }

  std::vector<range> buckets_;
  data::random_stream random_;
  std::vector<std::unique_ptr<member>> members_;
  std::deque<delivery> in_flight_;
  std::vector<delivery> log_;
  std::vector<std::map<std::uint64_t, std::map<std::int64_t, at::Tensor>>> answers_;  ///< rank, step, first element
  std::map<ends, std::uint64_t> bytes_, messages_;
  std::uint64_t early_{0};
};

/// The mean whose fold begins at rank `first` and goes round.
at::Tensor mean_from(std::uint32_t first, std::uint32_t world_size, std::uint64_t step) {
  models::buffer_pool pool;
  std::vector<rules::weighted> summands;
  for (std::uint32_t i = 0; i < world_size; ++i) {
    const auto rank = (first + i) % world_size;
    summands.push_back({contribution(rank, step), static_cast<double>(1 + rank)});
  }
  return rules::mean_in_order(summands, pool);
}

/// The fold in rank order, but for the ring: there segment j is folded from rank j on.
at::Tensor expected(const wiring& wired, std::uint32_t world_size, std::uint64_t step) {
  const auto route = wired.settings.find("route");
  if (route == wired.settings.end() || std::get<std::string>(route->second) != "ring")
    return mean_from(0, world_size, step);
  auto result = at::empty({176});
  for (const auto& bucket : wired.buckets.empty() ? std::vector<range>{{0, 176}} : wired.buckets) {
    std::uint32_t first = 0;
    for (const auto& segment : rules::even_ranges(bucket.count, world_size)) {
      const auto mean = mean_from(first++, world_size, step);
      const auto begin = bucket.first + segment.first;
      result.narrow(0, begin, segment.count).copy_(mean.narrow(0, begin, segment.count));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("every order of messages and every chunk size gives every member the fold in rank order, or the ring's own") {
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U, 16U}) {
      CAPTURE(n);
      std::uint64_t early = 0;
      for (std::uint64_t seed = 1; seed < 6; ++seed) {
        exchange_by_hand exchange{wired, n, seed};
        exchange.run(3);
        early += exchange.early();
        for (std::uint64_t step = 0; step < 3; ++step) {
          const auto mean = expected(wired, n, step);
          for (std::uint32_t rank = 0; rank < n; ++rank) {
            REQUIRE(exchange.complete(rank, step));
            CHECK(exchange.answer(rank, step).equal(mean));
          }
        }
      }
      if (n > 2) CHECK(early > 0);  // steps do interleave
    }
  }
}

TEST_CASE("the plan knows how many bytes go from whom to whom, and how many messages, uncut") {
  for (const auto& wired : wirings) {
    for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U, 16U}) {
      CAPTURE(wired.label);
      CAPTURE(n);
      exchange_by_hand exchange{wired, n, 1};
      exchange.run(1);
      std::map<ends, std::uint64_t> messages, bytes;
      for (const auto& edge : edges_of(wired, n)) {
        messages[{edge.from, edge.to}] += edge.messages;
        bytes[{edge.from, edge.to}] += edge.bytes;
      }
      CHECK(exchange.bytes() == bytes);
      if (wired.chunk_elements == 0) CHECK(exchange.messages() == messages);
    }
  }
}

TEST_CASE("what travels is no larger than a chunk") {
  for (const auto* route : {"direct", "chain", "ring"}) {
    exchange_by_hand exchange{all_reduce(route, 48), 2, 1};
    exchange.run(1);
    for (const auto& given : exchange.log())
      if (!given.own) CHECK(given.piece.piece.values.numel() <= 48);
  }
}

TEST_CASE("a direct all-reduce gives every owner work at once, from the next rank on") {
  struct listing final : outbox {
    std::vector<std::pair<std::uint32_t, std::int64_t>> sent;  // to whom, first element
    void send(rank_id to, part piece) override { sent.emplace_back(static_cast<std::uint32_t>(to), piece.piece.first); }
    void answer(const part&) override {}
  } out;
  make_member(all_reduce("direct", 32), 1, 3)->contribute(contribution_of(1, 0), out);
  // Shards 0, 64 and 128, of 64, 64 and 48 elements; each two chunks.
  CHECK(out.sent == std::vector<std::pair<std::uint32_t, std::int64_t>>{{2, 128}, {0, 0}, {2, 160}, {0, 32}});
}

TEST_CASE("auto sends a small gradient whole in one hop, a larger one as direct does") {
  // 16 Ki elements between 4 workers: 4 · 3 messages; one 64-byte line more: 2 · 4 · 3.
  for (const auto& [elements, messages] : {std::pair{16 * 1024, 12U}, std::pair{16 * 1024 + 16, 24U}}) {
    auto large = layout();
    large.parameter_end = elements;
    std::uint64_t planned = 0;
    for (const auto& edge : find_exchange("all_reduce")->edges(4, large, {{"route", std::string{"auto"}}}))
      planned += edge.messages;
    CHECK(planned == messages);
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
  silent out;
  const auto from = [](std::uint32_t rank) { return contribution_of(rank, 0); };
  SUBCASE("the master of a star for those who have not contributed") {
    const auto master = make_member(wirings[0], 0, 3);
    master->contribute(from(0), out);
    master->receive(from(2), out);
    CHECK((master->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
  }
  SUBCASE("another member of a star for the master") {
    const auto point = make_member(wirings[0], 2, 3);
    point->contribute(from(2), out);
    CHECK((point->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
  }
  SUBCASE("a member of a direct all-reduce for every contribution and every mean that is missing") {
    // Chunks of 64 elements, each rank's shard: 64 + 64 + 48.
    const auto one = make_member(all_reduce("direct"), 0, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{1}, rank_id{2}}));
    one->contribute(from(0), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
    auto shard = from(1);
    shard.piece.values = shard.piece.values.narrow(0, 0, 64);
    one->receive(shard, out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}, rank_id{2}}));
    shard.at = stage::result;
    shard.which.part = 1;
    shard.piece.first = 64;
    one->receive(shard, out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
  }
  SUBCASE("a member of a direct all-reduce that owns nothing for itself") {
    const auto one = make_member(all_reduce("direct"), 15, 16);  // 176 elements are 11 shards of 64 bytes
    CHECK(one->waiting_for(0).size() == 12);
    CHECK((one->waiting_for(0).back() == rank_id{15}));
  }
  SUBCASE("a member of a small all-reduce for those who have not contributed") {
    const auto one = make_member(all_reduce("auto"), 1, 3);
    one->receive(from(2), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{1}}));
  }
  SUBCASE("a member of a chain for the left while sums are missing, for the right while means are") {
    // Four chunks: 48 + 48 + 48 + 32.
    const auto one = make_member(all_reduce("chain", 48), 1, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{1}}));
    one->contribute(from(1), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
    const auto chunk = [](std::uint32_t index, std::uint32_t sender, stage at) {
      auto piece = contribution_of(sender, 0);
      piece.which.part = index;
      piece.at = at;
      piece.piece = {48 * index, piece.piece.values.narrow(0, 48 * index, index == 3 ? 32 : 48)};
      return piece;
    };
    one->receive(chunk(0, 0, stage::partial), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{2}}));
    for (const std::uint32_t index : {1U, 2U, 3U}) one->receive(chunk(index, 0, stage::partial), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
    for (const std::uint32_t index : {0U, 1U, 2U, 3U}) one->receive(chunk(index, 2, stage::result), out);
    CHECK(one->waiting_for(0).empty());
  }
  SUBCASE("a member of a ring for the left") {
    const auto one = make_member(all_reduce("ring"), 0, 3);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
    one->contribute(from(0), out);
    CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
  }
  SUBCASE("nobody for anything that is complete") {
    for (const auto& route : routes) {
      exchange_by_hand exchange{all_reduce(route, 16), 4, 1};
      exchange.run(1);
      const auto one = make_member(all_reduce(route, 16), 2, 4);
      for (const auto& given : exchange.log())
        if (given.to == 2) give(*one, given, out);
      CHECK(one->waiting_for(0).empty());
    }
  }
}

TEST_CASE("a part that does not fit is refused") {
  silent out;
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    const auto one = make_member(wired, 0, 3);
    part odd{.origin = {.sender = rank_id{1}}, .piece = {0, at::ones({5})}, .total = 176, .sample_count = 1};
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
    odd.which.part = 1'000'000;
    CHECK_THROWS_AS(one->receive(odd, out), exchange_error);
  }
}

TEST_CASE("an all-reduce refuses what comes twice, at another stage, as another chunk or from another rank") {
  silent out;
  constexpr std::uint32_t n = 4;
  for (const auto& route : routes) {
    const auto wired = all_reduce(route, 32);
    CAPTURE(wired.label);
    exchange_by_hand exchange{wired, n, 5};
    exchange.run(1);
    for (std::size_t i = 0; i < exchange.log().size(); ++i) {
      const auto& given = exchange.log()[i];
      // The same member as far as it was before this delivery, once for each way in which it may be wrong.
      const auto refuses = [&](const delivery& wrong, bool after = false) {
        const auto one = make_member(wired, wrong.to, n);
        for (std::size_t j = 0; j < i + (after ? 1 : 0); ++j)
          if (exchange.log()[j].to == wrong.to) give(*one, exchange.log()[j], out);
        CHECK_THROWS_AS(give(*one, wrong, out), exchange_error);
      };
      refuses(given, true);
      if (given.own) continue;
      auto wrong = given;
      for (const auto at : {stage::contribution, stage::partial, stage::result}) {
        wrong.piece.at = at;
        if (at != given.piece.at) refuses(wrong);
      }
      wrong = given;
      wrong.piece.which.part += 1;
      refuses(wrong);
      wrong = given;
      wrong.piece.origin.sender = rank_id{given.to};
      refuses(wrong);
      if (given.piece.at != stage::contribution) {
        for (std::uint32_t other = 0; other < n; ++other) {
          wrong.piece.origin.sender = rank_id{other};
          if (wrong.piece.origin.sender != given.piece.origin.sender) refuses(wrong);
        }
      } else if (route == "direct") {
        wrong = given;
        wrong.to = static_cast<std::uint32_t>(given.piece.origin.sender) == (given.to + 1) % n ? (given.to + 2) % n
                                                                                               : (given.to + 1) % n;
        refuses(wrong);  // another rank's chunk
      }
    }
  }
}

TEST_CASE("a mean that comes before its contributions is refused") {
  silent out;
  for (const auto* route : {"direct", "chain", "ring"}) {
    exchange_by_hand exchange{all_reduce(route), 3, 1};
    exchange.run(1);
    for (const auto& given : exchange.log())
      if (given.piece.at == stage::result)
        CHECK_THROWS_AS(make_member(all_reduce(route), given.to, 3)->receive(given.piece, out), exchange_error);
  }
}

TEST_CASE("a step that is forgotten holds no contribution and no buffer") {
  for (const auto& route : routes) {
    CAPTURE(route);
    exchange_by_hand exchange{all_reduce(route, 16), 4, 7};
    exchange.run(1);
    std::map<const void*, at::Tensor> seen;  // each tensor that travelled, once
    for (const auto& given : exchange.log())
      seen.emplace(given.piece.piece.values.unsafeGetTensorImpl(), given.piece.piece.values);
    exchange.clear_log();
    for (std::uint32_t rank = 0; rank < 4; ++rank) exchange.forget_answers(rank);
    exchange.forget_before(1);
    std::map<const void*, std::size_t> views;  // of each buffer
    for (const auto& [tensor, values] : seen) ++views[values.storage().data()];
    for (const auto& [tensor, values] : seen) CHECK(values.storage().use_count() == views[values.storage().data()]);
  }
}

// Stars and all-reduces in every wiring, and the messages between their members, delivered in an order drawn from a
// seed and logged. No actor, no thread.
#pragma once

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/cat.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// An exchange of three_parameters().
struct wiring {
  std::string label;
  std::string kind;
  setting_values settings;
  std::int64_t chunk_elements{0};
  std::vector<range> buckets{};  ///< In the order in which they leave.
};

inline wiring all_reduce(const std::string& route, std::int64_t chunk_elements = 0) {
  return {"all_reduce " + route + ", chunks of " + std::to_string(chunk_elements),
          "all_reduce",
          {{"route", route}},
          chunk_elements,
          {}};
}

inline const std::vector<std::string> routes{"auto", "direct", "chain", "all_gather", "ring"};

inline const std::vector<range> by_parameter{{64, 112}, {48, 16}, {0, 48}};

/// Returns every wiring. 176 elements are a small gradient, for which "auto" is "all_gather".
inline std::vector<wiring> every_wiring() {
  std::vector<wiring> result{{"star", "star", {}, 0, {}}, {"star by parameter", "star", {}, 0, by_parameter}};
  for (const auto& route : routes) {
    for (const std::int64_t chunk_elements : {0, 16, 48, 4096}) result.push_back(all_reduce(route, chunk_elements));
    result.push_back(all_reduce(route, 32));
    result.back().label += ", in two buckets";
    result.back().buckets = {{64, 112}, {0, 64}};
  }
  return result;
}

inline const std::vector<wiring> wirings = every_wiring();

/// The gradient of `rank` at `step`.
inline at::Tensor contribution(std::uint32_t rank, std::uint64_t step) {
  return noise(176, rank, step);
}

inline std::unique_ptr<member> make_member(const wiring& wired, std::uint32_t rank, std::uint32_t world_size) {
  const member_options own{.among = {.rank = rank_id{rank}, .world_size = world_size},
                           .layout = three_parameters(),
                           .settings = wired.settings,
                           .chunk_elements = wired.chunk_elements,
                           .buckets = wired.buckets};
  const auto& make = find_exchange(wired.kind)->make_member;
  return wired.buckets.empty() ? make(own) : make_bucketed_member(own, make);
}

inline part contribution_of(std::uint32_t rank, std::uint64_t step) {
  return {.origin = {.sender = rank_id{rank}, .step = step},
          .piece = {0, contribution(rank, step)},
          .total = 176,
          .sample_count = 1 + rank};
}

/// The input of a member: its own contribution, or a part from a peer.
struct delivery {
  std::uint32_t to{0};
  bool own{false};
  part piece;
};

inline void give(member& one, const delivery& given, outbox& out) {
  if (given.own)
    one.contribute(given.piece, out);
  else
    one.receive(given.piece, out);
}

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
        for (const auto& bucket : buckets_) {  // the buckets arrive in any order
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

  /// Returns all deliveries, in order.
  const std::vector<delivery>& log() const { return log_; }
  void clear_log() { log_.clear(); }

  const std::map<ends, std::uint64_t>& bytes() const { return bytes_; }
  const std::map<ends, std::uint64_t>& messages() const { return messages_; }

  /// Returns the number of messages that arrived before their receiver had contributed to the step.
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

}  // namespace troupe::testing

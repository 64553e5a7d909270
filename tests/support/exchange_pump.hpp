// The members and servers of one exchange and the messages between them, delivered one at a time: by hand, or in an
// order drawn from a seed. No actor, no thread.
#pragma once

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::testing {

/// Three parameters of 40, 7 and 100 elements, on 64-byte boundaries: 48 + 16 + 112.
inline models::flat_layout three_parameters() {
  return {.parameters = {{"a", {40}, 0, 40}, {"b", {7}, 48, 7}, {"c", {100}, 64, 100}},
          .buffers = {},
          .parameter_end = 176,
          .total = 176,
          .parameter_count = 147};
}

/// One parameter of 16 elements, for values that can be worked out by hand.
inline models::flat_layout one_parameter() {
  return {.parameters = {{"a", {16}, 0, 16}}, .buffers = {}, .parameter_end = 16, .total = 16, .parameter_count = 16};
}

/// Returns values in [-1, 1), a function of the arguments.
inline at::Tensor noise(std::int64_t count, std::uint64_t a, std::uint64_t b) {
  data::random_stream random{data::keyed(3, data::purpose::digits, a, b)};
  auto values = at::empty({count});
  for (std::int64_t i = 0; i < count; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
  return values;
}

/// Returns `values`, laid out like this, with zeros in the padding behind parameters, where every flat tensor has them.
inline at::Tensor without_padding(const models::flat_layout& layout, const at::Tensor& values) {
  auto result = at::zeros_like(values);
  for (const auto& entry : layout.parameters)
    result.narrow(0, entry.first, entry.count).copy_(values.narrow(0, entry.first, entry.count));
  return result;
}

/// Returns whether all elements are `value`.
inline bool all_are(const at::Tensor& values, float value) {
  return values.equal(at::full_like(values, value));
}

/// What all workers of a pump contribute to each step: a gradient with this value in every element.
inline std::function<part(std::uint32_t, std::uint64_t, const at::Tensor&)> equal_gradients(float value) {
  return [value](std::uint32_t, std::uint64_t, const at::Tensor&) {
    return part{.what = slot::gradient, .piece = {0, at::full({176}, value)}, .sample_count = 1};
  };
}

using ends = std::pair<std::uint32_t, std::uint32_t>;          ///< From, to.
using sendings = std::vector<std::pair<std::uint32_t, part>>;  ///< Receiver, part.

/// Keeps the messages and answers of a member that is driven by hand.
struct kept final : outbox {
  std::vector<std::pair<rank_id, part>> sent;
  std::vector<part> answers;
  void send(rank_id to, part piece) override { sent.emplace_back(to, std::move(piece)); }
  void answer(const part& piece) override { answers.push_back(piece); }
};

/// Returns why `one` refuses `piece`, or errc::failed if it does not.
inline errc code_of(member& one, const part& piece) {
  kept out;
  try {
    one.receive(piece, out);
  } catch (const exchange_error& problem) {
    return problem.code;
  }
  return errc::failed;
}

class exchange_pump {
 public:
  struct options {
    std::uint32_t workers{1};
    std::uint32_t servers{0};
    cadence due{};
    std::uint64_t steps{1};  ///< Steps of the loop.
    std::int64_t elements{176};
    std::function<std::unique_ptr<member>(rank_id)> make{};
    /// Makes a contribution: values, slot and samples. `last` is the worker's last answer, undefined at first.
    std::function<part(std::uint32_t rank, std::uint64_t step, const at::Tensor& last)> bring{};
    /// Called after each delivery to a member, with the messages that the member sent in response.
    std::function<void(std::uint32_t to, const part&, const sendings&)> watch{};
  };

  explicit exchange_pump(options made) : options_(std::move(made)) {
    for (std::uint32_t i = 0; i < options_.workers + options_.servers; ++i)
      members_.push_back(options_.make(rank_id{i}));
    next_.assign(options_.workers, options_.due.next_due(0));
    last_.resize(options_.workers);
    answers_.resize(options_.workers);
    idle_.assign(options_.workers, true);
  }

  member& at(std::uint32_t index) { return *members_.at(index); }
  holding held(std::uint32_t index, std::uint64_t step) { return at(index).held(step).value(); }

  /// Returns the number of loop steps that `rank` has completed so far, if its local work takes no time.
  std::uint64_t completed(std::uint32_t rank) const {
    return std::min(options_.steps, next_[rank] - options_.due.lead);
  }

  std::uint64_t completed_by_all() const {
    std::uint64_t least = options_.steps;
    for (std::uint32_t rank = 0; rank < options_.workers; ++rank) least = std::min(least, completed(rank));
    return least;
  }

  /// Returns whether `rank` is about to contribute.
  bool ready(std::uint32_t rank) const { return idle_[rank] && next_[rank] - options_.due.lead < options_.steps; }

  void contribute(std::uint32_t rank) {
    const auto step = next_[rank];
    if (step > 0) members_[rank]->forget_before(step);
    auto own = options_.bring(rank, step, last_[rank]);
    own.origin.sender = rank_id{rank};
    own.origin.step = step;
    own.piece.first = 0;
    own.total = options_.elements;
    idle_[rank] = false;
    box out{*this, rank};
    members_[rank]->contribute(own, out);
    post(rank, std::move(out.sent));
  }

  /// Delivers the oldest message between two members.
  void deliver(std::uint32_t from, std::uint32_t to) {
    const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const auto& each) {
      return each.between == ends{from, to};
    });
    REQUIRE(found != in_flight_.end());
    deliver(found - in_flight_.begin());
  }

  /// Executes all steps in an order drawn from the seed; calls `after` after each event.
  void run(std::uint64_t seed, const std::function<void(data::random_stream&)>& after = {}) {
    data::random_stream random{seed};
    for (;;) {
      std::vector<std::uint32_t> able;
      for (std::uint32_t rank = 0; rank < options_.workers; ++rank)
        if (ready(rank)) able.push_back(rank);
      const auto choices = able.size() + in_flight_.size();
      if (choices == 0) return;
      const auto pick = random.below(choices);
      if (pick < able.size())
        contribute(able[pick]);
      else
        deliver(static_cast<std::ptrdiff_t>(pick - able.size()));
      if (after) after(random);
    }
  }

  /// Executes all steps as run() does, but delays all events of worker `starved` while any other event is possible,
  /// except one time in sixteen.
  void run_starving(std::uint32_t starved, std::uint64_t seed, const std::function<void()>& after) {
    data::random_stream random{seed};
    for (;;) {
      std::vector<std::function<void()>> others, its;
      for (std::uint32_t rank = 0; rank < options_.workers; ++rank)
        if (ready(rank)) (rank == starved ? its : others).push_back([this, rank] { contribute(rank); });
      for (std::size_t i = 0; i < in_flight_.size(); ++i) {
        const auto& [from, to] = in_flight_[i].between;
        const auto concerned = from == starved || to == starved;
        (concerned ? its : others).push_back([this, i] { deliver(static_cast<std::ptrdiff_t>(i)); });
      }
      if (its.empty() && others.empty()) return;
      const auto& choices = others.empty() || (!its.empty() && random.below(16) == 0) ? its : others;
      choices[random.below(choices.size())]();
      after();
    }
  }

  /// Makes every member again from its own state, and lets the run have more steps. No step may be under way.
  using remaker = std::function<std::unique_ptr<member>(rank_id, std::shared_ptr<const state_dict>)>;
  void remake(const remaker& make, std::uint64_t steps) {
    REQUIRE(in_flight_.empty());
    for (std::uint32_t i = 0; i < members_.size(); ++i)
      members_[i] = make(rank_id{i}, std::make_shared<const state_dict>(members_[i]->state()));
    extend(steps);
  }
  void extend(std::uint64_t steps) { options_.steps = steps; }

  /// Returns the last complete answer that `rank` received.
  const at::Tensor& last(std::uint32_t rank) const { return last_[rank]; }
  slot last_slot() const { return last_slot_; }

  const std::map<ends, std::uint64_t>& bytes() const { return bytes_; }
  const std::map<ends, std::uint64_t>& messages() const { return messages_; }
  bool in_flight() const { return !in_flight_.empty(); }

 private:
  struct message {
    ends between;
    part piece;
  };

  struct box final : outbox {
    box(exchange_pump& owner, std::uint32_t index) : all(owner), me(index) {}
    exchange_pump& all;
    std::uint32_t me;
    sendings sent;

    void send(rank_id to, part piece) override {
      CHECK(static_cast<std::uint32_t>(to) != me);
      CHECK(piece.origin.sender == rank_id{me});
      sent.emplace_back(static_cast<std::uint32_t>(to), std::move(piece));
    }

    void answer(const part& piece) override {
      REQUIRE(me < all.options_.workers);
      CHECK_FALSE(all.idle_[me]);
      CHECK(piece.origin.step == all.next_[me]);
      auto& pieces = all.answers_[me];
      CHECK(pieces.emplace(piece.piece.first, piece.piece.values).second);
      all.last_slot_ = piece.what;
      std::int64_t elements = 0;
      std::vector<at::Tensor> values;
      for (const auto& [first, one] : pieces) {
        elements += one.numel();
        values.push_back(one);
      }
      if (elements < all.options_.elements) return;
      all.last_[me] = at::cat(values);
      pieces.clear();
      all.idle_[me] = true;
      all.next_[me] = all.options_.due.next_due(all.next_[me] + 1);
    }
  };

  void post(std::uint32_t from, sendings sent) {
    for (auto& [to, piece] : sent) {
      bytes_[{from, to}] += static_cast<std::uint64_t>(piece.piece.values.nbytes());
      messages_[{from, to}] += 1;
      in_flight_.push_back({{from, to}, std::move(piece)});
    }
  }

  void deliver(std::ptrdiff_t index) {
    const auto given = in_flight_[static_cast<std::size_t>(index)];
    in_flight_.erase(in_flight_.begin() + index);
    const auto to = given.between.second;
    box out{*this, to};
    members_.at(to)->receive(given.piece, out);
    if (options_.watch) options_.watch(to, given.piece, out.sent);
    post(to, std::move(out.sent));
  }

  options options_;
  std::vector<std::unique_ptr<member>> members_;
  std::vector<std::uint64_t> next_;  ///< By worker: stamp of the contribution under way, or of the next one.
  std::vector<at::Tensor> last_;
  std::vector<std::map<std::int64_t, at::Tensor>> answers_;  ///< By worker: the pieces that have arrived.
  std::vector<bool> idle_;
  slot last_slot_{slot::gradient};
  std::deque<message> in_flight_;
  std::map<ends, std::uint64_t> bytes_, messages_;
};

/// Checks that the traffic of `pump` in one exchange equals the traffic that the kind plans.
inline void check_traffic(const exchange_pump& pump, const std::vector<planned_edge>& planned) {
  std::map<ends, std::uint64_t> messages, bytes;
  for (const auto& edge : planned) {
    messages[{edge.from, edge.to}] += edge.messages;
    bytes[{edge.from, edge.to}] += edge.bytes;
  }
  CHECK((pump.messages() == messages));
  CHECK((pump.bytes() == bytes));
}

}  // namespace troupe::testing

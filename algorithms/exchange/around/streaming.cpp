#include "troupe/algorithms/exchange/around/streaming.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// A fragment, and its exchange if one is under way.
struct fragment {
  range where{};
  cadence sends{};
  std::unique_ptr<member> average{};
  std::uint64_t next{0};  ///< When it is sent, or was sent if an exchange is under way.
  bool is_under_way{false};
  part sent{};             ///< What was sent.
  state_dict before{};     ///< State of `average` before that.
  at::Tensor mean{};       ///< Its answer, as far as it is known.
  std::int64_t known{0};   ///< Number of elements that are known.
  std::uint64_t bytes{0};  ///< Size of what was sent for it.
};

class streaming_member final : public member {
 public:
  streaming_member(const member_options& own, const streaming& how, const cadence& whole,
                   const member_maker& make_inner)
      : how_(how), me_(own.among.rank), total_(own.layout.parameter_end), pool_(own.pool) {
    for (const auto& where : fragments_of(own.layout, how.fragments)) {
      auto& made = fragments_.emplace_back(fragment{.where = where, .sends = how.sends(whole, fragments_.size())});
      auto inner = own;
      inner.layout = layout_of_bucket(own.layout, where);
      inner.first_element += where.first;
      inner.due = made.sends;
      if (own.initial.defined()) inner.initial = own.initial.narrow(0, where.first, where.count);
      made.next = made.sends.next_due(own.first_step + own.due.lead);
      if (own.restored) {
        const auto saved = own.restored->all(name_of(fragments_.size() - 1));
        inner.restored = std::make_shared<const state_dict>(saved.all(member_name));
        if (saved.has(sent_name)) restore(made, saved, own.first_step + own.due.lead);
      }
      made.average = make_inner(inner);
    }
  }

  void contribute(const part& own, outbox& out) override {
    send_again(own, out);
    own_ = own;
    own_.receipt.reset();
    for (auto& each : fragments_) {
      if (!each.sends.due(own.origin.step)) continue;
      each.next = own.origin.step;
      each.is_under_way = true;
      each.sent = within(each.where, own);
      each.sent.piece.values = own.piece.values.narrow(0, each.where.first, each.where.count).clone();
      send(each, out);
    }
    answer_if_complete(out);
  }

  void receive(const part& piece, outbox& out) override {
    const auto first = piece.piece.first;
    const auto found = std::find_if(fragments_.begin(), fragments_.end(), [&](const auto& each) {
      return first >= each.where.first && first + elements_of(piece) <= each.where.first + each.where.count;
    });
    if (found == fragments_.end()) throw exchange_error(errc::mismatch, "a part does not fit this model");
    const auto step = piece.origin.step;
    if (step < found->next) throw exchange_error(errc::stale, "received a part of a fragment that was averaged before");
    if (!found->sends.due(step) || step > found->next + found->sends.every)
      throw exchange_error(errc::mismatch, "received a part of a fragment that is not sent in its step");
    of_fragment through{*this, *found, out};
    found->average->receive(within(found->where, piece), through);
    answer_if_complete(out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t /*step*/) const override {
    if (!own_.piece.values.defined()) return {me_};
    std::set<rank_id> missing;
    for (const auto& each : fragments_) {
      if (!is_awaited(each)) continue;
      const auto ranks = each.average->waiting_for(each.next);
      missing.insert(ranks.begin(), ranks.end());
    }
    return {missing.begin(), missing.end()};
  }

  std::int64_t largest_fold() const override {
    std::int64_t most = 0;
    for (const auto& each : fragments_) most = std::max(most, each.average->largest_fold());
    return most;
  }

  void forget_before(std::uint64_t /*step*/) override {}  // a fragment is forgotten when its mean is used

  /// Parts of a fragment arrive after steps in which nothing else is awaited, so the fragments check their steps.
  std::optional<std::uint64_t> steps_ahead() const override { return std::nullopt; }

  std::uint64_t bytes_under_way() const {
    std::uint64_t bytes = 0;
    for (const auto& each : fragments_) bytes += each.bytes;
    return bytes;
  }

  state_dict state() const override {
    state_dict result;
    for (std::size_t i = 0; i < fragments_.size(); ++i) {
      const auto& each = fragments_[i];
      state_dict own;
      own.put_all(member_name, each.is_under_way ? each.before : each.average->state());
      if (each.is_under_way) {
        own.put_count(sent_name, each.next);
        own.put_count(samples_name, static_cast<std::uint64_t>(each.sent.sample_count));
        own.put(values_name, each.sent.piece.values.clone());
      }
      result.put_all(name_of(i), own);
    }
    return result;
  }

 private:
  /// Keeps the answers of a fragment, and places its parts in the whole.
  class of_fragment final : public outbox {
   public:
    of_fragment(streaming_member& one, fragment& each, outbox& out) : one_(one), each_(each), out_(out) {}

    void send(rank_id to, part piece) override {
      each_.bytes += static_cast<std::uint64_t>(piece.piece.values.nbytes());
      piece.piece.first += each_.where.first;
      piece.total = one_.total_;
      out_.send(to, std::move(piece));
    }

    void answer(const part& piece) override {
      if (!each_.mean.defined()) each_.mean = one_.pool_.take(each_.where.count);
      each_.mean.narrow(0, piece.piece.first, piece.piece.values.numel()).copy_(piece.piece.values);
      each_.known += piece.piece.values.numel();
    }

   private:
    streaming_member& one_;
    fragment& each_;
    outbox& out_;
  };

  static constexpr auto* sent_name = "sent";
  static constexpr auto* values_name = "values";
  static constexpr auto* samples_name = "samples";
  static constexpr auto* member_name = "member";

  static std::string name_of(std::size_t index) { return "fragment " + std::to_string(index); }

  /// Returns a part with its position in a fragment.
  static part within(const range& where, part piece) {
    piece.piece.first = std::max<std::int64_t>(piece.piece.first - where.first, 0);
    piece.total = where.count;
    return piece;
  }

  /// Restores an exchange that was under way, unless other intervals than before would never end it.
  void restore(fragment& made, const state_dict& saved, std::uint64_t next_stamp) {
    const auto sent = saved.count(sent_name);
    if (!made.sends.due(sent) || sent + how_.delay < next_stamp) return;
    made.next = sent;
    made.sent.sample_count = static_cast<std::int64_t>(saved.count(samples_name));
    made.sent.piece.values = saved.tensor(values_name, made.where.count).clone();
    if (made.sent.sample_count <= 0)
      throw state_error("the fragment at element " + std::to_string(made.where.first) + " has no samples");
    made.is_under_way = is_restored_ = true;
  }

  /// Sends what a checkpoint holds of the exchanges that were under way.
  void send_again(const part& own, outbox& out) {
    if (!std::exchange(is_restored_, false)) return;
    for (auto& each : fragments_) {
      if (!each.is_under_way) continue;
      auto sent = within(each.where, own);
      sent.origin.step = each.next;
      sent.sample_count = each.sent.sample_count;
      sent.piece.values = each.sent.piece.values;
      each.sent = std::move(sent);
      send(each, out);
    }
  }

  void send(fragment& each, outbox& out) {
    each.before = each.average->state();
    of_fragment through{*this, each, out};
    each.average->contribute(each.sent, through);
  }

  bool is_awaited(const fragment& each) const {
    return each.is_under_way && each.next + how_.delay == own_.origin.step;
  }

  /// Answers the worker once the means that it needs are known.
  void answer_if_complete(outbox& out) {
    if (!own_.piece.values.defined()) return;
    for (const auto& each : fragments_)
      if (is_awaited(each) && each.known < each.where.count) return;
    auto answer = own_;
    answer.at = stage::result;
    answer.piece.values = pool_.take(total_);
    answer.piece.values.copy_(own_.piece.values);
    for (auto& each : fragments_)
      if (is_awaited(each)) use(each, answer);
    own_ = {};
    out.answer(answer);
  }

  /// Writes the mean of a fragment to an answer, and ends its exchange.
  void use(fragment& each, part& answer) {
    auto values = answer.piece.values.narrow(0, each.where.first, each.where.count);
    if (how_.mix == 0)
      values.copy_(each.mean);
    else if (how_.mix < 1)
      values.mul_(how_.mix).add_(each.mean, 1 - how_.mix);
    each.average->forget_before(each.next + 1);
    each.next = each.sends.next_due(each.next + 1);
    each.is_under_way = false;
    each.sent = {};
    each.before = {};
    each.mean.reset();
    each.known = 0;
    each.bytes = 0;
  }

  streaming how_;
  rank_id me_;
  std::int64_t total_;
  models::buffer_pool pool_;
  std::vector<fragment> fragments_;
  bool is_restored_{false};  ///< Whether exchanges were under way at the checkpoint and are not sent again yet.
  part own_{};               ///< The worker's parameters; without values unless it waits for the answer.
};

template <class Value>
Value value_of(const setting_values& settings, const std::string& key, Value otherwise) {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : std::get<Value>(found->second);
}

}  // namespace

cadence streaming::sends(const cadence& whole, std::uint64_t index) const {
  auto result = whole;
  result.first = whole.first - whole.every + (index + 1) * whole.every / fragments;
  return result;
}

cadence streaming::due(const cadence& whole, std::uint64_t steps) const {
  std::vector<std::uint64_t> stamps;
  const auto end = steps + whole.lead;
  for (std::uint64_t index = 0; index < fragments; ++index) {
    const auto sent = sends(whole, index);
    for (auto stamp = sent.next_due(0); stamp < end; stamp = sent.next_due(stamp + 1)) {
      stamps.push_back(stamp);
      if (delay > 0 && stamp + delay < end) stamps.push_back(stamp + delay);
    }
  }
  std::sort(stamps.begin(), stamps.end());
  stamps.erase(std::unique(stamps.begin(), stamps.end()), stamps.end());
  auto result = whole;
  result.stamps = std::make_shared<const std::vector<std::uint64_t>>(std::move(stamps));
  return result;
}

double streaming::per_step(const cadence& due, std::uint64_t steps) const {
  if (!is_used()) return due.per_step(steps);
  auto whole = due;
  whole.stamps.reset();
  return whole.per_step(steps);
}

std::vector<setting> with_streaming_settings(std::vector<setting> settings) {
  settings.push_back({.name = "fragments",
                      .type = setting_type::integer,
                      .default_text = "1",
                      .explanation =
                          "Number of parts into which the parameters are divided, each averaged once in `every` steps, "
                          "at different times, so that links are busy more evenly (streaming DiLoCo). A part consists "
                          "of whole parameters. Used only when sends = \"parameters\".",
                      .minimum = 1,
                      .maximum = 1e6});
  settings.push_back({.name = "delay",
                      .type = setting_type::integer,
                      .default_text = "0",
                      .explanation = "Number of steps that a worker trains on between sending its parameters and using "
                                     "their mean, so that no step waits for the exchange unless it takes longer than "
                                     "that; less than `every`. Used only when sends = \"parameters\".",
                      .minimum = 0,
                      .maximum = 1e9});
  settings.push_back({.name = "mix",
                      .type = setting_type::real,
                      .default_text = "0.0",
                      .explanation = "Weight of a worker's own parameters when it uses the mean; that of the mean is "
                                     "1 - mix. With 0, it forgets its steps during the delay. Used only when sends = "
                                     "\"parameters\".",
                      .minimum = 0,
                      .maximum = 1});
  return settings;
}

streaming streaming_of(const setting_values& settings) {
  return {.fragments = static_cast<std::uint64_t>(value_of<std::int64_t>(settings, "fragments", 1)),
          .delay = static_cast<std::uint64_t>(value_of<std::int64_t>(settings, "delay", 0)),
          .mix = value_of<double>(settings, "mix", 0)};
}

setting_values without_idle_streaming(setting_values settings) {
  if (!streaming_of(settings).is_used())
    for (const auto* key : {"fragments", "delay", "mix"}) settings.erase(key);
  return settings;
}

std::vector<range> fragments_of(const models::flat_layout& layout, std::uint64_t count) {
  const auto& entries = layout.parameters;
  const auto fragments =
      std::min<std::size_t>(std::max<std::uint64_t>(count, 1), std::max<std::size_t>(entries.size(), 1));
  std::vector<range> result;
  std::int64_t first = 0;
  std::size_t next = 1;  // the first parameter at which the next fragment can begin
  for (std::size_t i = 1; i < fragments; ++i) {
    const auto wanted = layout.parameter_end * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(fragments);
    const auto last = entries.size() - (fragments - i);
    while (next < last && entries[next + 1].first - wanted <= wanted - entries[next].first) ++next;
    result.push_back({first, entries[next].first - first});
    first = entries[next++].first;
  }
  result.push_back({first, layout.parameter_end - first});
  return result;
}

std::uint64_t bytes_under_way(const member& one) {
  const auto* streams = dynamic_cast<const streaming_member*>(&one);
  return streams == nullptr ? 0 : streams->bytes_under_way();
}

std::unique_ptr<member> make_streaming_member(const member_options& own, const streaming& how, const cadence& whole,
                                              const member_maker& make_inner) {
  return std::make_unique<streaming_member>(own, how, whole, make_inner);
}

}  // namespace troupe

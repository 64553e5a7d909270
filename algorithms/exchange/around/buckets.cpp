#include "troupe/algorithms/exchange/around/buckets.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Translates the output of a bucket's member from positions in the bucket to positions in the whole tensor.
class placed final : public outbox {
 public:
  placed(const range& bucket, std::int64_t total, outbox& out) : bucket_(bucket), total_(total), out_(out) {}

  void send(rank_id to, part piece) override { out_.send(to, in_place(std::move(piece))); }
  void answer(const part& piece) override { out_.answer(in_place(piece)); }

 private:
  part in_place(part piece) const {
    piece.piece.first += bucket_.first;
    piece.total = total_;
    return piece;
  }

  const range& bucket_;
  std::int64_t total_;
  outbox& out_;
};

/// Keys of parts are relative to a bucket. The bucket is identified by the part's first element.
class bucketed_member final : public member {
 public:
  bucketed_member(const member_options& own, const member_maker& make_inner)
      : me_(own.among.rank), total_(own.layout.parameter_end) {
    for (const auto& bucket : own.buckets) {
      auto inner = own;
      inner.buckets.clear();
      if (own.settings_by_bucket) inner.settings = own.settings_by_bucket->at(inner_.size());
      inner.settings_by_bucket.reset();
      inner.layout = layout_of_bucket(own.layout, bucket);
      inner.first_element += bucket.first;
      if (own.restored) inner.restored = std::make_shared<const state_dict>(own.restored->all(name_of(inner_.size())));
      inner_.push_back({bucket, make_inner(inner)});
    }
    for (std::size_t i = 0; i < inner_.size(); ++i) by_first_.emplace_back(inner_[i].where.first, i);
    std::sort(by_first_.begin(), by_first_.end());
  }

  void contribute(const part& own, outbox& out) override {
    const auto end = own.piece.first + own.piece.values.numel();
    for (auto& [where, algorithm] : inner_) {
      if (where.first < own.piece.first || where.first + where.count > end) continue;
      auto piece = within(where, own);
      piece.which.part = 0;
      piece.piece.values = own.piece.values.narrow(0, where.first - own.piece.first, where.count);
      piece.piece.first = 0;
      placed through{where, total_, out};
      algorithm->contribute(piece, through);
    }
  }

  void receive(const part& piece, outbox& out) override {
    auto& [where, algorithm] = bucket_of(piece);
    placed through{where, total_, out};
    algorithm->receive(within(where, piece), through);
  }

  /// Returns the ranks that delay the buckets to which this rank has contributed or, if there are none, the ranks that
  /// delay any bucket.
  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    std::set<rank_id> missing, missing_here;
    for (const auto& inner : inner_) {
      const auto ranks = inner.algorithm->waiting_for(step);
      missing.insert(ranks.begin(), ranks.end());
      if (std::find(ranks.begin(), ranks.end(), me_) == ranks.end()) missing_here.insert(ranks.begin(), ranks.end());
    }
    const auto& named = missing_here.empty() ? missing : missing_here;
    return {named.begin(), named.end()};
  }

  std::int64_t largest_fold() const override {
    std::int64_t most = 0;
    for (const auto& inner : inner_) most = std::max(most, inner.algorithm->largest_fold());
    return most;
  }

  void forget_before(std::uint64_t step) override {
    for (auto& inner : inner_) inner.algorithm->forget_before(step);
  }

  std::optional<std::uint64_t> steps_ahead() const override { return inner_.front().algorithm->steps_ahead(); }

  state_dict state() const override {
    state_dict state;
    for (std::size_t i = 0; i < inner_.size(); ++i) state.put_all(name_of(i), inner_[i].algorithm->state());
    return state;
  }

 private:
  static std::string name_of(std::size_t bucket) { return "bucket " + std::to_string(bucket); }

  struct bucket {
    range where;
    std::unique_ptr<member> algorithm;
  };

  bucket& bucket_of(const part& piece) {
    const auto first = piece.piece.first;
    auto after = std::upper_bound(by_first_.begin(), by_first_.end(), std::pair{first, inner_.size()});
    if (first < 0 || after == by_first_.begin() || first + elements_of(piece) > total_)
      throw exchange_error(errc::mismatch, "a part does not fit this model");
    return inner_[std::prev(after)->second];
  }

  /// Returns `piece` with its position in the bucket. The bucket's member checks the piece.
  static part within(const range& where, part piece) {
    piece.piece.first -= where.first;
    piece.total = where.count;
    return piece;
  }

  rank_id me_;
  std::int64_t total_;
  std::vector<bucket> inner_;                                   ///< In the order in which buckets leave.
  std::vector<std::pair<std::int64_t, std::size_t>> by_first_;  ///< First elements and indices of the buckets, sorted.
};

}  // namespace

std::vector<setting> with_send_settings(std::vector<setting> settings) {
  settings.push_back(
      {.name = "send",
       .type = setting_type::choice,
       .default_text = "\"whole\"",
       .explanation = "How a gradient is sent: \"whole\" sends one piece after the backward pass; \"parameter\" and "
                      "\"bucket\" send pieces during it, namely each parameter by itself, or buckets of bucket_mb as "
                      "DDP does.",
       .choices = {"whole", "parameter", "bucket"}});
  settings.push_back({.name = "bucket_mb",
                      .type = setting_type::real,
                      .default_text = "25.0",
                      .explanation = "Size of a bucket in MiB. A bucket holds whole parameters; the first one counts "
                                     "as full at 1 MiB. Used only when send = \"bucket\".",
                      .minimum = 0,
                      .maximum = 1e5,
                      .minimum_excluded = true});
  return settings;
}

setting_values without_idle_send_settings(setting_values settings) {
  const auto found = settings.find("send");
  if (found != settings.end() && found->second != setting_value{std::string("bucket")}) settings.erase("bucket_mb");
  return settings;
}

bool sends_buckets(const setting_values& settings) {
  const auto found = settings.find("send");
  return found != settings.end() && std::get<std::string>(found->second) != "whole";
}

std::vector<range> buckets_of(const setting_values& settings, const models::flat_layout& layout,
                              const std::vector<std::size_t>& order) {
  if (std::get<std::string>(settings.at("send")) == "parameter") return cut_in_buckets(layout, order, 1, 1);
  constexpr double mebibyte = 1024 * 1024;
  const auto capacity = mebibyte * std::get<double>(settings.at("bucket_mb"));
  return cut_in_buckets(layout, order, static_cast<std::int64_t>(std::min(mebibyte, capacity)),
                        static_cast<std::int64_t>(capacity));
}

models::flat_layout layout_of_bucket(const models::flat_layout& layout, const range& bucket) {
  models::flat_layout inner{.parameters = {},
                            .buffers = {},
                            .parameter_end = bucket.count,
                            .total = bucket.count,
                            .cut_multiple = layout.cut_multiple};
  for (const auto& entry : layout.parameters) {
    if (entry.first < bucket.first || entry.first >= bucket.first + bucket.count) continue;
    inner.parameters.push_back(entry);
    inner.parameters.back().first -= bucket.first;
    inner.parameter_count += entry.count;
  }
  return inner;
}

std::unique_ptr<member> make_bucketed_member(const member_options& own, const member_maker& make_inner) {
  TROUPE_ASSERT(!own.among.is_server() && !own.buckets.empty(),
                "only workers exchange buckets, and at least one is required");
  return std::make_unique<bucketed_member>(own, make_inner);
}

std::vector<range> cut_in_buckets(const models::flat_layout& layout, const std::vector<std::size_t>& order,
                                  std::int64_t first_capacity, std::int64_t capacity) {
  const auto& entries = layout.parameters;
  TROUPE_ASSERT(order.size() == entries.size(), "every parameter must have a place in the order");
  const auto end_of = [&](std::size_t index) {
    return index + 1 < entries.size() ? entries[index + 1].first : layout.parameter_end;
  };
  std::vector<range> buckets;
  std::vector<std::size_t> open;  // parameters of the bucket that is being filled
  std::int64_t bytes = 0;
  const auto close = [&] {
    std::sort(open.begin(), open.end(), std::greater<>{});  // the usual order in which gradients arrive
    for (std::size_t i = 0; i < open.size(); ++i) {
      const range parameter{entries[open[i]].first, end_of(open[i]) - entries[open[i]].first};
      if (i > 0 && open[i] + 1 == open[i - 1]) {
        buckets.back() = {parameter.first, buckets.back().count + parameter.count};
      } else {
        buckets.push_back(parameter);
      }
    }
    open.clear();
    bytes = 0;
  };
  auto full = first_capacity;
  for (const auto index : order) {
    open.push_back(index);
    bytes += entries[index].count * static_cast<std::int64_t>(sizeof(float));
    if (bytes < full) continue;
    close();
    full = capacity;
  }
  close();
  return buckets;
}

}  // namespace troupe

#include "troupe/algorithms/exchange/around/power_sgd.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/low_rank.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <string>
#include <utility>

namespace troupe {

namespace {

const float* read(const at::Tensor& values, std::int64_t first) {
  return values.const_data_ptr<float>() + first;
}

float* write(at::Tensor& values, std::int64_t first) {
  return values.mutable_data_ptr<float>() + first;
}

/// Returns the options of a member that averages the tensors of both rounds as two buckets.
member_options of_rounds(const member_options& own, const low_rank::rounds& rounds) {
  auto inner = own;
  const auto total = rounds.lefts + rounds.rights;
  inner.layout = {.parameters = {},
                  .buffers = {},
                  .parameter_end = total,
                  .total = total,
                  .parameter_count = total,
                  .cut_multiple = own.layout.cut_multiple};
  inner.buckets = {{0, rounds.lefts}};
  if (rounds.rights > 0) inner.buckets.push_back({rounds.lefts, rounds.rights});
  inner.settings_by_bucket.reset();
  inner.restored.reset();  // members that average keep nothing
  return inner;
}

class power_sgd_member final : public member {
 public:
  power_sgd_member(const member_options& own, encoding_options options, const member_maker& make_inner)
      : options_(std::move(options)),
        rounds_(low_rank::rounds_of(own.layout, options_.rank)),
        averaged_(make_bucketed_member(of_rounds(own, rounds_), make_inner)),
        total_(own.layout.parameter_end),
        lead_(own.due.lead),
        seed_(own.seed),
        place_(own.place),
        pool_(own.pool) {
    if (options_.after > 0) exact_ = make_inner(own);
    const auto saved = own.restored ? own.restored->all(options_.state_name) : state_dict{};
    query_ = saved.has(query_name) ? saved.tensor(query_name, rounds_.rights).clone() : first_query();
    if (!options_.feedback) return;
    error_ = saved.has(error_name) ? saved.tensor(error_name, total_).clone() : at::zeros({total_});
  }

  void contribute(const part& own, outbox& out) override {
    if (is_exact(own.origin.step)) return exact_->contribute(own, out);
    begin(own);
    of_round through{*this, out};
    averaged_->contribute(of_inner(own_, {0, rounds_.lefts}, lefts_), through);
    go_on(through);
  }

  void receive(const part& piece, outbox& out) override {
    if (is_exact(piece.origin.step)) return exact_->receive(piece, out);
    auto inner = piece;
    inner.total = rounds_.lefts + rounds_.rights;
    of_round through{*this, out};
    averaged_->receive(inner, through);
    go_on(through);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return of(step).waiting_for(step); }
  std::int64_t largest_fold() const override { return averaged_->largest_fold(); }
  std::optional<std::uint64_t> steps_ahead() const override { return averaged_->steps_ahead(); }

  void forget_before(std::uint64_t step) override {
    averaged_->forget_before(step);
    if (exact_) exact_->forget_before(step);
  }

  state_dict state() const override {
    state_dict own, result;
    if (query_.numel() > 0) own.put(query_name, query_.clone());
    if (error_.defined()) own.put(error_name, error_.clone());
    result.put_all(options_.state_name, own);
    return result;
  }

 private:
  static constexpr auto* error_name = "error";
  static constexpr auto* query_name = "query";

  /// Collects the means of a round, and sends its parts as parts of the whole tensor.
  class of_round final : public outbox {
   public:
    of_round(power_sgd_member& one, outbox& out) : one_(one), out_(out) {}

    void send(rank_id to, part piece) override {
      piece.total = one_.total_;
      out_.send(to, std::move(piece));
    }

    void answer(const part& piece) override {
      one_.means_.narrow(0, piece.piece.first, piece.piece.values.numel()).copy_(piece.piece.values);
      one_.averaged_elements_ += piece.piece.values.numel();
      one_.last_ = piece;
    }

    void answer_whole(part answer) { out_.answer(answer); }

   private:
    power_sgd_member& one_;
    outbox& out_;
  };

  bool is_exact(std::uint64_t step) const { return step - lead_ < options_.after; }
  const member& of(std::uint64_t step) const { return is_exact(step) ? *exact_ : *averaged_; }

  part of_inner(part own, const range& where, const at::Tensor& values) const {
    own.total = rounds_.lefts + rounds_.rights;
    own.piece.first = where.first;
    own.piece.values = values;
    return own;
  }

  /// Returns Q before the first exchange.
  at::Tensor first_query() const {
    auto query = at::empty({rounds_.rights});
    for (const auto& each : rounds_.matrices) {
      data::random_stream random{data::keyed(seed_, data::purpose::query, place_, each.index)};
      auto* values = write(query, each.right);
      for (std::int64_t i = 0; i < each.columns * each.rank; ++i) values[i] = static_cast<float>(random.between(-1, 1));
    }
    return query;
  }

  /// Computes M of a step, and what is averaged first.
  void begin(const part& own) {
    own_ = own;
    own_.receipt.reset();
    values_ = own.piece.values;
    if (error_.defined()) {
      error_.add_(values_);  // until the end of the exchange, this is M
      values_ = error_;
    }
    means_ = pool_.take(rounds_.lefts + rounds_.rights);
    averaged_elements_ = 0;
    lefts_ = pool_.take(rounds_.lefts);
    for (const auto& each : rounds_.matrices)
      low_rank::multiply(each, read(values_, each.first), read(query_, each.right), write(lefts_, each.left));
    for (const auto& each : rounds_.rest)
      lefts_.narrow(0, each.place, each.count).copy_(values_.narrow(0, each.first, each.count));
  }

  /// Contributes to the second round, or answers, if a round is complete.
  void go_on(of_round& out) {
    if (!own_.piece.values.defined()) return;
    if (!rights_.defined() && rounds_.rights > 0 && averaged_elements_ == rounds_.lefts) {
      rights_ = pool_.take(rounds_.rights);
      for (const auto& each : rounds_.matrices) {
        auto* left = write(means_, each.left);
        low_rank::make_orthonormal(each, left);
        low_rank::multiply_transposed(each, read(values_, each.first), left, write(rights_, each.right));
      }
      averaged_->contribute(of_inner(own_, {rounds_.lefts, rounds_.rights}, rights_), out);
    }
    if (averaged_elements_ < rounds_.lefts + rounds_.rights) return;
    auto answer = finish();
    own_ = {};
    values_.reset();
    rights_.reset();
    out.answer_whole(std::move(answer));
  }

  /// Returns the answer of a step, and keeps Q and E for the next one.
  part finish() {
    auto answer = std::exchange(last_, {});
    answer.total = total_;
    answer.piece.first = 0;
    answer.piece.values = pool_.take(total_);
    answer.piece.values.zero_();
    for (const auto& each : rounds_.matrices)
      low_rank::expand(each, read(means_, each.left), read(means_, rounds_.lefts + each.right),
                       write(answer.piece.values, each.first));
    for (const auto& each : rounds_.rest)
      answer.piece.values.narrow(0, each.first, each.count).copy_(means_.narrow(0, each.place, each.count));
    keep_error();
    keep_query();
    if (!at::isfinite(query_).all().item<bool>()) {
      query_ = first_query();
      if (error_.defined()) error_.zero_();
    }
    return answer;
  }

  /// Keeps the mean of Q. A column that has become zero would stay zero, so its last value is kept instead.
  void keep_query() {
    auto next = means_.narrow(0, rounds_.lefts, rounds_.rights).clone();
    for (const auto& each : rounds_.matrices)
      for (std::int64_t k = 0; k < each.rank; ++k) {
        const auto first = each.right + k * each.columns;
        auto column = next.narrow(0, first, each.columns);
        if (column.count_nonzero().item<std::int64_t>() == 0) column.copy_(query_.narrow(0, first, each.columns));
      }
    query_ = next;
  }

  void keep_error() {
    if (!error_.defined()) return;
    for (const auto& each : rounds_.rest) error_.narrow(0, each.first, each.count).zero_();
    for (const auto& each : rounds_.matrices) {
      auto sent = pool_.take(each.rows * each.columns);
      low_rank::expand(each, read(means_, each.left), read(rights_, each.right), write(sent, 0));
      error_.narrow(0, each.first, sent.numel()).sub_(sent);
    }
  }

  encoding_options options_;
  low_rank::rounds rounds_;
  std::unique_ptr<member> averaged_;  ///< Averages the tensors of both rounds.
  std::unique_ptr<member> exact_;     ///< Averages gradients as they are, before encoding begins; else null.
  std::int64_t total_;
  std::uint64_t lead_, seed_, place_;
  models::buffer_pool pool_;
  at::Tensor query_;  ///< Q of all matrices.
  at::Tensor error_;  ///< [P]: E; undefined without feedback. During an exchange, M.

  // The exchange under way:
  part own_{};                         ///< The member's contribution; without values if there is none.
  at::Tensor values_;                  ///< [P]: M.
  at::Tensor lefts_, rights_;          ///< What the member contributes to the rounds.
  at::Tensor means_;                   ///< The means of both rounds, P made orthonormal.
  std::int64_t averaged_elements_{0};  ///< Number of elements of `means_` that are known.
  part last_{};                        ///< The last answer of the inner member.
};

}  // namespace

std::unique_ptr<member> make_power_sgd_member(const member_options& own, const encoding_options& options,
                                              const member_maker& make_inner) {
  return std::make_unique<power_sgd_member>(own, options, make_inner);
}

}  // namespace troupe

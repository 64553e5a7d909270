#include "troupe/algorithms/exchange/around/encoded.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Encodes each piece once and keeps the codec's memory of it.
class encoder {
 public:
  encoder(encoding how, models::buffer_pool pool) : how_(how), pool_(std::move(pool)) {}

  /// Returns `piece` as it travels. `is_new`: whether its values have not been rounded yet.
  part encode(const part& piece, bool is_new) {
    if (piece.how != encoding::float32) return piece;  // already encoded, by the exchange between groups
    for (const auto& sent : sent_)
      if (sent.at == piece.at && is_same(sent.values, piece.piece.values)) return encoded(piece, how_, sent.payload);
    at::Tensor none;
    const auto payload = codec_of(how_).encode(piece.piece.values, is_new ? memory_of(piece) : none);
    remember(piece, payload);
    return encoded(piece, how_, payload);
  }

  /// Returns `piece`, whose values have not been rounded yet, as a peer receives it.
  part round(const part& piece) {
    const auto travelling = encode(piece, true);
    auto rounded = decoded(travelling, pool_);
    remember(rounded, travelling.piece.values);
    return rounded;
  }

  part decode(const part& piece) { return decoded(piece, pool_); }

  /// Forgets what was sent, not the codec's memory.
  void forget_sent() { sent_ = {}; }

  /// Returns the codec's memories.
  state_dict state() const {
    state_dict all;
    for (const auto& [name, memory] : memories_)
      if (memory.defined()) all.put(name, memory.clone());
    return all;
  }

  void restore(const state_dict& saved) {
    for (const auto& [name, memory] : saved.entries()) memories_[name] = memory.clone();
  }

 private:
  struct sent_values {
    stage at{};  ///< Distinguishes a contribution from a sum that a member has made of it in the same memory.
    at::Tensor values, payload;
  };

  static bool is_same(const at::Tensor& a, const at::Tensor& b) {
    return a.defined() && a.const_data_ptr() == b.const_data_ptr() && a.numel() == b.numel();
  }

  /// Keeps the last pieces, because a member sends its contribution and one result to many peers.
  void remember(const part& piece, const at::Tensor& payload) {
    sent_[next_] = {piece.at, piece.piece.values, payload};
    next_ = (next_ + 1) % sent_.size();
  }

  at::Tensor& memory_of(const part& piece) {
    return memories_[std::to_string(static_cast<int>(piece.at)) + "/" + std::to_string(piece.piece.first)];
  }

  encoding how_;
  models::buffer_pool pool_;
  std::map<std::string, at::Tensor> memories_;  ///< Keyed by stage and first element of a piece.
  std::array<sent_values, 4> sent_;
  std::size_t next_{0};
};

/// Encodes what the inner member sends, and rounds its answers if other members receive the same answers in messages.
class encoding_outbox final : public outbox {
 public:
  encoding_outbox(encoder& with, bool rounds_own, outbox& out) : with_(with), rounds_own_(rounds_own), out_(out) {}

  void send(rank_id to, part piece) override {
    const auto is_rounded = rounds_own_ && piece.at == stage::contribution;
    out_.send(to, with_.encode(piece, !is_rounded && piece.at != stage::partial));
  }

  void answer(const part& piece) override { out_.answer(rounds_own_ ? with_.round(piece) : piece); }

 private:
  encoder& with_;
  bool rounds_own_;
  outbox& out_;
};

class encoded_member final : public wrapping_member {
 public:
  encoded_member(std::unique_ptr<member> inner, encoder with, std::string state_name, bool rounds_own)
      : wrapping_member(std::move(inner)),
        with_(std::move(with)),
        state_name_(std::move(state_name)),
        rounds_own_(rounds_own) {}

  void contribute(const part& own, outbox& out) override {
    encoding_outbox through{with_, rounds_own_, out};
    inner().contribute(rounds_own_ ? with_.round(own) : own, through);
  }

  void receive(const part& piece, outbox& out) override {
    encoding_outbox through{with_, rounds_own_, out};
    inner().receive(with_.decode(piece), through);
  }

  void forget_before(std::uint64_t step) override {
    with_.forget_sent();
    wrapping_member::forget_before(step);
  }

  state_dict state() const override {
    auto result = wrapping_member::state();
    result.put_all(state_name_, with_.state());
    return result;
  }

 private:
  encoder with_;
  std::string state_name_;
  bool rounds_own_;  ///< Whether its contribution and its answer are rounded, as other members receive them.
};

}  // namespace

std::unique_ptr<member> make_encoded_member(const member_options& own, const encoding_options& options,
                                            const member_maker& make_inner) {
  encoder with{options.how, own.pool};
  if (own.restored) with.restore(own.restored->all(options.state_name));
  return std::make_unique<encoded_member>(make_inner(own), std::move(with), options.state_name,
                                          options.same_for_all && !own.among.is_server());
}

}  // namespace troupe

#include "troupe/algorithms/exchange/around/encoded.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Returns `piece` as a peer receives it.
part rounded(const part& piece, encoding how, models::buffer_pool& pool) {
  return decoded(encoded(piece, how), pool);
}

/// Encodes what the inner member sends, and rounds what it answers if others get the same by message.
class encoding_outbox final : public outbox {
 public:
  encoding_outbox(encoding how, bool rounds_answers, models::buffer_pool& pool, outbox& out)
      : how_(how), rounds_answers_(rounds_answers), pool_(pool), out_(out) {}

  void send(rank_id to, part piece) override { out_.send(to, encoded(piece, how_)); }

  void answer(const part& piece) override { out_.answer(rounds_answers_ ? rounded(piece, how_, pool_) : piece); }

 private:
  encoding how_;
  bool rounds_answers_;
  models::buffer_pool& pool_;
  outbox& out_;
};

class encoded_member final : public member {
 public:
  encoded_member(std::unique_ptr<member> inner, encoding how, bool rounds_own, models::buffer_pool pool)
      : inner_(std::move(inner)), how_(how), rounds_own_(rounds_own), pool_(std::move(pool)) {}

  void contribute(const part& own, outbox& out) override {
    encoding_outbox through{how_, rounds_own_, pool_, out};
    inner_->contribute(rounds_own_ ? rounded(own, how_, pool_) : own, through);
  }

  void receive(const part& piece, outbox& out) override {
    encoding_outbox through{how_, rounds_own_, pool_, out};
    inner_->receive(decoded(piece, pool_), through);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return inner_->waiting_for(step); }
  std::int64_t largest_fold() const override { return inner_->largest_fold(); }
  void forget_before(std::uint64_t step) override { inner_->forget_before(step); }
  std::optional<std::uint64_t> steps_ahead() const override { return inner_->steps_ahead(); }
  std::optional<std::uint64_t> open_step() const override { return inner_->open_step(); }
  std::optional<holding> held(std::uint64_t step) override { return inner_->held(step); }
  state_dict state() const override { return inner_->state(); }

 private:
  std::unique_ptr<member> inner_;
  encoding how_;
  bool rounds_own_;  ///< Whether its contribution and its answer are rounded, since others receive them rounded.
  models::buffer_pool pool_;
};

constexpr std::array all{encoding::float32, encoding::bfloat16};

}  // namespace

std::vector<std::string> encoding_names() {
  std::vector<std::string> names;
  for (const auto how : all) names.push_back(name_of(how));
  return names;
}

encoding encoding_named(const std::string& name) {
  for (const auto how : all)
    if (name_of(how) == name) return how;
  throw std::invalid_argument("unknown encoding \"" + name + "\"");
}

std::string name_of(encoding how) {
  return how == encoding::bfloat16 ? "bf16" : "float32";
}

at::ScalarType type_of(encoding how) {
  return how == encoding::bfloat16 ? at::kBFloat16 : at::kFloat;
}

std::int64_t encoded_bytes(encoding how, std::int64_t elements) {
  return elements * (how == encoding::bfloat16 ? 2 : 4);
}

part encoded(const part& piece, encoding how) {
  auto made = piece;
  made.how = how;
  if (how == encoding::bfloat16) made.piece.values = piece.piece.values.to(at::kBFloat16);
  return made;
}

part decoded(const part& piece, models::buffer_pool& pool) {
  if (piece.how == encoding::float32) return piece;
  auto made = piece;
  made.how = encoding::float32;
  made.piece.values = pool.take(piece.piece.values.numel());
  made.piece.values.copy_(piece.piece.values);
  return made;
}

std::unique_ptr<member> make_encoded_member(
    const member_options& own, encoding how, bool same_for_all,
    const std::function<std::unique_ptr<member>(const member_options&)>& make_inner) {
  return std::make_unique<encoded_member>(make_inner(own), how, same_for_all && !own.among.is_server(), own.pool);
}

}  // namespace troupe

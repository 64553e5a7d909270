#include "troupe/algorithms/exchange/around/encoded.hpp"

#include <string>
#include <utility>

namespace troupe {

namespace {

/// Encodes what the inner member sends and answers.
class encoding_outbox final : public outbox {
 public:
  encoding_outbox(encoder& with, outbox& out) : with_(with), out_(out) {}

  void send(rank_id to, part piece) override { out_.send(to, with_.sent(piece)); }
  void answer(const part& piece) override { out_.answer(with_.answer(piece)); }

 private:
  encoder& with_;
  outbox& out_;
};

class encoded_member final : public wrapping_member {
 public:
  encoded_member(std::unique_ptr<member> inner, encoder with, std::string state_name)
      : wrapping_member(std::move(inner)), with_(std::move(with)), state_name_(std::move(state_name)) {}

  void contribute(const part& own, outbox& out) override {
    encoding_outbox through{with_, out};
    inner().contribute(with_.contribution(own), through);
  }

  void receive(const part& piece, outbox& out) override {
    encoding_outbox through{with_, out};
    inner().receive(with_.received(piece), through);
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
};

}  // namespace

std::unique_ptr<member> make_encoded_member(const member_options& own, const encoding_options& options,
                                            const member_maker& make_inner) {
  const auto inner = with_cuts_of(own, options.how);
  return std::make_unique<encoded_member>(make_inner(inner), encoder{own, options}, options.state_name);
}

member_options with_cuts_of(const member_options& own, encoding how) {
  auto inner = own;
  if (codec_of(how).nature().block == 0) inner.chunk_elements = 0;
  return inner;
}

}  // namespace troupe

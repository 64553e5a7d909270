#include "tests/support/watched.hpp"

#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::tests {

namespace {

/// Forwards everything, and reports it to a witness.
class reported final : public outbox {
 public:
  reported(outbox& out, rank_id by, witness& who) : out_(out), by_(by), who_(who) {}

  void send(rank_id to, part piece) override {
    who_.sent(by_, to, piece);
    out_.send(to, std::move(piece));
  }
  void answer(const part& piece) override {
    who_.answered(by_, piece);
    out_.answer(piece);
  }

 private:
  outbox& out_;
  rank_id by_;
  witness& who_;
};

class watched_member final : public wrapping_member {
 public:
  watched_member(std::unique_ptr<member> inner, rank_id rank, std::shared_ptr<witness> who)
      : wrapping_member(std::move(inner)), rank_(rank), who_(std::move(who)) {}

  void contribute(const part& own, outbox& out) override {
    reported through{out, rank_, *who_};
    inner().contribute(own, through);
  }
  void receive(const part& piece, outbox& out) override {
    who_->taken(rank_, piece);
    reported through{out, rank_, *who_};
    inner().receive(piece, through);
  }
  state_dict state() const override {
    auto state = wrapping_member::state();
    who_->saved(rank_, state);
    return state;
  }

 private:
  rank_id rank_;
  std::shared_ptr<witness> who_;
};

class ordering_server final : public wrapping_member {
 public:
  ordering_server(std::unique_ptr<member> inner, std::vector<std::uint32_t> workers)
      : wrapping_member(std::move(inner)), order_(workers.begin(), workers.end()) {}

  void receive(const part& piece, outbox& out) override {
    early_.emplace(static_cast<std::uint32_t>(piece.origin.sender), piece);
    while (!order_.empty()) {
      const auto next = early_.find(order_.front());
      if (next == early_.end()) return;
      order_.pop_front();
      const auto taken = std::move(next->second);
      early_.erase(next);
      inner().receive(taken, out);
    }
    if (!early_.empty()) throw exchange_error(errc::mismatch, "a contribution came that the given order does not name");
  }

 private:
  std::deque<std::uint32_t> order_;
  std::multimap<std::uint32_t, part> early_;  ///< By worker, each worker's contributions in their order.
};

}  // namespace

exchange_kind watched(exchange_kind kind, std::shared_ptr<witness> who) {
  kind.make_member = [make = std::move(kind.make_member),
                      who = std::move(who)](const member_options& options) -> std::unique_ptr<member> {
    return std::make_unique<watched_member>(make(options), options.among.rank, who);
  };
  return kind;
}

exchange_kind in_order(exchange_kind kind, std::vector<std::uint32_t> workers) {
  kind.make_member = [make = std::move(kind.make_member),
                      workers = std::move(workers)](const member_options& options) -> std::unique_ptr<member> {
    if (!options.among.is_server()) return make(options);
    return std::make_unique<ordering_server>(make(options), workers);
  };
  return kind;
}

}  // namespace troupe::tests

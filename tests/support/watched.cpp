#include "tests/support/watched.hpp"

#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::tests {

namespace {

/// Passes everything on, and reports it to a witness.
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

class watched_member final : public member {
 public:
  watched_member(std::unique_ptr<member> inner, rank_id rank, std::shared_ptr<witness> who)
      : inner_(std::move(inner)), rank_(rank), who_(std::move(who)) {}

  void contribute(const part& own, outbox& out) override {
    reported through{out, rank_, *who_};
    inner_->contribute(own, through);
  }
  void receive(const part& piece, outbox& out) override {
    who_->taken(rank_, piece);
    reported through{out, rank_, *who_};
    inner_->receive(piece, through);
  }
  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return inner_->waiting_for(step); }
  std::int64_t largest_fold() const override { return inner_->largest_fold(); }
  void forget_before(std::uint64_t step) override { inner_->forget_before(step); }
  std::optional<std::uint64_t> steps_ahead() const override { return inner_->steps_ahead(); }
  state_dict state() const override {
    auto state = inner_->state();
    who_->saved(rank_, state);
    return state;
  }

 private:
  std::unique_ptr<member> inner_;
  rank_id rank_;
  std::shared_ptr<witness> who_;
};

/// A server in front of another.
class server_before : public server {
 public:
  explicit server_before(std::unique_ptr<member> inner) : inner_(std::move(inner)) {}
  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return inner_->waiting_for(step); }
  std::int64_t largest_fold() const override { return inner_->largest_fold(); }
  std::optional<std::uint64_t> open_step() const override { return inner_->open_step(); }
  std::optional<holding> held(std::uint64_t step) override { return inner_->held(step); }
  state_dict state() const override { return inner_->state(); }

 protected:
  member& inner() { return *inner_; }

 private:
  std::unique_ptr<member> inner_;
};

class watched_server final : public server_before {
 public:
  watched_server(std::unique_ptr<member> inner, rank_id rank, std::shared_ptr<witness> who)
      : server_before(std::move(inner)), rank_(rank), who_(std::move(who)) {}

  void receive(const part& piece, outbox& out) override {
    who_->taken(rank_, piece);
    reported through{out, rank_, *who_};
    inner().receive(piece, through);
  }
  state_dict state() const override {
    auto state = server_before::state();
    who_->saved(rank_, state);
    return state;
  }

 private:
  rank_id rank_;
  std::shared_ptr<witness> who_;
};

class ordering_server final : public server_before {
 public:
  ordering_server(std::unique_ptr<member> inner, std::vector<std::uint32_t> workers)
      : server_before(std::move(inner)), order_(workers.begin(), workers.end()) {}

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
  std::multimap<std::uint32_t, part> early_;  ///< By worker; a worker's own stay in their order.
};

}  // namespace

exchange_kind watched(exchange_kind kind, std::shared_ptr<witness> who) {
  kind.make_member = [make = std::move(kind.make_member),
                      who = std::move(who)](const member_options& options) -> std::unique_ptr<member> {
    if (options.among.is_server()) return std::make_unique<watched_server>(make(options), options.among.rank, who);
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

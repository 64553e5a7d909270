#include "troupe/actors/port/port_state.hpp"
#include "troupe/actors/replay/deliveries.hpp"

#include <caf/all.hpp>

#include <optional>
#include <utility>

namespace troupe {

namespace {

/// Once in this many deliveries of a server, the digest of what it sends covers all values instead of a sample.
constexpr std::uint64_t deliveries_per_whole_digest = 64;

/// Completes a delivery that was handed to the member. Ends the port if a replay differs.
bool settle(port_pointer self, const delivery& what, const delivery& recorded) {
  try {
    self->state.deliveries.settle(what, recorded);
    return true;
  } catch (const replay_difference& difference) {
    fail(self, make_error(errc::failed, self->state.options.name + ": " + difference.what()));
    return false;
  }
}

/// Adds the digest and the version of what the member has sent to a delivery.
void add_output(delivery& what, const collected_output& output, bool all) {
  for (const auto& [to, piece] : output.sent) what.given = digest_of_values(piece.piece.values, all, what.given);
  if (!output.sent.empty()) what.at = output.sent.front().second.origin.version;
}

}  // namespace

part as_member_sees(const port_state& my, const part& piece) {
  auto taken = piece;
  taken.receipt.reset();
  taken.origin.sender = *index_of(my.options, piece.origin.sender);
  return taken;
}

void deliver(port_pointer self, const part& piece) {
  const delivery arrival{.what = delivery::kind::part,
                         .from = static_cast<std::uint32_t>(piece.origin.sender),
                         .part = piece.which.part,
                         .step = piece.origin.step};
  self->state.deliveries.admit(arrival, [self, arrival, piece](const delivery& recorded) {
    auto& my = self->state;
    const auto covers_all = ++my.handed % deliveries_per_whole_digest == 0;
    with_member(
        self, {.what = task::kind::fold, .elements = piece.piece.values.numel()},
        [arrival, piece = as_member_sees(my, piece), covers_all, receipt = piece.receipt](member& algorithm) {
          std::pair<delivery, collected_output> done{arrival, {}};
          done.first.taken = digest_of_values(piece.piece.values, false);
          algorithm.receive(piece, done.second);
          add_output(done.first, done.second, covers_all);
          return done;
        },
        [self, recorded](std::pair<delivery, collected_output>&& done) {
          if (settle(self, done.first, recorded)) carry_out(self, std::move(done.second));
        });
  });
}

caf::result<holding> deliver_result(port_pointer self, std::uint64_t step) {
  auto promise = self->make_response_promise<holding>();
  const delivery request{.what = delivery::kind::result, .step = step};
  self->state.deliveries.admit(request, [self, request, step, promise](const delivery& recorded) {
    with_member(
        self, {.what = task::kind::state},
        [step](member& algorithm) {
          auto held = algorithm.held(step);
          if (!held) throw exchange_error(errc::mismatch, "a worker's port has no result");
          return std::move(*held);
        },
        [self, request, recorded, promise](holding held) mutable {
          auto done = request;
          done.at = held.version;
          if (self->state.deliveries.is_used()) done.given = digest_of_values(held.piece.values, false);
          if (settle(self, done, recorded)) promise.deliver(std::move(held));
        });
  });
  return promise;
}

caf::result<state_dict> deliver_state(port_pointer self) {
  auto promise = self->make_response_promise<state_dict>();
  const delivery request{.what = delivery::kind::state};
  self->state.deliveries.admit(request, [self, request, promise](const delivery& recorded) {
    with_member(
        self, {.what = task::kind::state}, [](member& algorithm) { return algorithm.state(); },
        [self, request, recorded, promise](const state_dict& of_member) mutable {
          if (settle(self, request, recorded)) promise.deliver(state_of(self->state, of_member));
        });
  });
  return promise;
}

}  // namespace troupe

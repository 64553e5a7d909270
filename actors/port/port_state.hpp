// The port's state, and the parts of its behaviour that are in files of their own. Only for port*.cpp.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/actors/port/port_text.hpp"
#include "troupe/algorithms/exchange/member.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

/// Output of a member for one part.
struct collected_output final : outbox {
  std::vector<std::pair<rank_id, part>> sent;
  std::vector<part> answered;
  std::uint64_t bytes_under_way{0};  ///< See bytes_under_way() in streaming.hpp.

  void send(rank_id to, part piece) override { sent.emplace_back(to, std::move(piece)); }
  void answer(const part& piece) override { answered.push_back(piece); }
};

/// Pieces of an answer, by first element.
struct partial_answer {
  std::map<std::int64_t, span> pieces;
  std::int64_t elements{0};
  slot what{slot::gradient};
  std::int64_t sample_count{0};
  std::uint64_t version{0};  ///< Highest version of a piece.
  bool given{false};
};

/// A request of the worker for an answer.
struct waiting_worker {
  stamp who;
  caf::typed_response_promise<outcome> promise;
  /// Deadline ticks since the wait began: ticks, not time, so that a process that was suspended misses at most one.
  int ticks{0};
};

/// What a port keeps so that its exchange can continue with other members.
struct reforming {
  bool paused{false};             ///< Between `pause` and `reform`: nothing is answered.
  std::vector<part> contributed;  ///< What the worker has contributed to the step under way.
  std::optional<outcome> last;    ///< The last answer, until the next one is complete.
  std::vector<part> early;        ///< Parts of the next generation, to which the port does not belong yet.
};

struct port_state {
  static inline const char* name = "port";
  port_options options;
  member_maker make;
  std::shared_ptr<member> algorithm;  ///< Used on the lane only, if there is one.
  std::unique_ptr<lane> where;
  std::vector<peer_port> peers;  ///< In the order of port_options::peers.
  /// The step that is answered next. PORT-1: a port takes parts of this exchange and of the next `steps_ahead()`
  /// exchanges and refuses all others, unless its member checks steps itself (`most_ahead` is empty). PORT-2: it never
  /// decreases, and no answer to an earlier step is kept.
  std::uint64_t step{0};
  std::optional<std::uint64_t> most_ahead{1};  ///< In steps: steps_ahead() times the interval of the exchange.
  int quiet_ticks{0};                          ///< Servers only: deadline ticks since the last part arrived.
  std::vector<range> wanted;  ///< Ranges that a worker awaits separately in each step: the whole, or the buckets.
  std::map<std::uint64_t, std::vector<partial_answer>> answers;  ///< By step and by `wanted`.
  std::map<std::uint32_t, waiting_worker> waiting;               ///< At `step`, by `wanted`.
  std::uint64_t payload_bytes{0};
  /// How many of these bytes are not counted yet, because when they are sent depends on others.
  std::uint64_t bytes_under_way{0};
  intake deliveries;                                               ///< Servers only; see port_options::deliveries.
  std::uint64_t handed{0};                                         ///< Number of deliveries handed to the member.
  std::map<std::pair<std::uint32_t, bool>, std::uint64_t> arrows;  ///< In a trace: parts to (true) or from each id.
  std::optional<reforming> reform;                                 ///< Empty unless port_options::can_reform.

  bool is_paused() const { return reform && reform->paused; }
};

/// Maximum number of parts that reforming::early holds: more are refused.
constexpr std::size_t most_early = 4096;

using port_pointer = port_actor::stateful_pointer<port_state>;

/// Ends the port and answers its worker with the error.
void fail(port_pointer self, const caf::error& why);

/// Runs `work(member)` where members run, then `next(result)` in the port's context. An exception ends the port.
template <class Work, class Next>
void with_member(port_pointer self, task what, Work work, Next next) {
  auto guarded = [algorithm = self->state.algorithm,
                  work = std::move(work)]() -> caf::expected<std::invoke_result_t<Work, member&>> {
    try {
      return work(*algorithm);
    } catch (const exchange_error& problem) {
      return make_error(problem.code, problem.what());
    }
  };
  auto then = [self, next = std::move(next)](auto result) mutable {
    if (result)
      next(std::move(*result));
    else
      fail(self, result.error());
  };
  if (self->state.where)
    then_on_lane(self, *self->state.where, what, std::move(guarded), std::move(then));
  else
    then(guarded());
}

// In port.cpp.

/// Takes a part from its own worker or from a peer. Every part enters here.
void take(port_pointer self, const part& piece);

/// Hands a part to the member and carries out what the member does with it.
void hand_to_member(port_pointer self, const part& piece);

/// Sends parts to the peers and stores answers for the worker.
void carry_out(port_pointer self, collected_output&& output);

/// Answers the requests of the worker that are complete.
void answer_worker(port_pointer self);

/// Returns the partial answers to `step`.
std::vector<partial_answer>& answers_of(port_state& my, std::uint64_t step);

// In port_checks.cpp.

/// Returns whether a part was contributed by the port's own worker.
bool is_own(const port_state& my, const part& piece);

/// Returns why a part cannot be accepted, or nothing.
std::optional<caf::error> refusal(const port_state& my, const part& piece);

// In port_deliveries.cpp, for servers whose result depends on the order of their input.

/// Returns the part as the member sees it: with the sender's index and without the receipt.
part as_member_sees(const port_state& my, const part& piece);

/// Hands a part to the member when it is due.
void deliver(port_pointer self, const part& piece);

/// Answers a request for the result after `step` steps when it is due.
caf::result<holding> deliver_result(port_pointer self, std::uint64_t step);

/// Answers a request for the state when it is due.
caf::result<state_dict> deliver_state(port_pointer self);

// In port_trace.cpp, for a run that is traced.

/// Takes a part and reports it to the trace.
void take_traced(port_pointer self, const part& piece);

/// Reports a part that is being sent to the member or server with this index.
void report_sent(port_pointer self, rank_id to, const part& piece);

// In port_membership.cpp.

/// Makes the member, which begins at member_options::first_step.
void make_member(port_state& my);

/// Returns the state of the port, given that of its member.
state_dict state_of(const port_state& my, const state_dict& of_member);

/// Rebuilds the member from a state. Throws state_error if it does not fit.
void restore(port_state& my, const state_dict& state);

/// See port_actor.
caf::result<exchange_standing> pause(port_pointer self);
caf::result<void> reform(port_pointer self, const reformation& now);

}  // namespace troupe

#include "troupe/actors/port.hpp"

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/port_text.hpp"
#include "troupe/actors/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace troupe {

namespace {

/// What a member said while it took one part.
struct said final : outbox {
  std::vector<std::pair<rank_id, part>> sent;
  std::vector<part> answered;

  void send(rank_id to, part piece) override { sent.emplace_back(to, std::move(piece)); }
  void answer(const part& piece) override { answered.push_back(piece); }
};

/// Pieces of an answer, by first element.
struct answer_so_far {
  std::map<std::int64_t, span> pieces;
  std::int64_t elements{0};
  slot what{slot::gradient};
  std::int64_t sample_count{0};
  bool given{false};
};

struct waiting_worker {
  stamp who;
  caf::typed_response_promise<outcome> promise;
  int ticks{0};  ///< Of the deadline, while it waits: a process that was stopped meanwhile loses one only.
};

struct port_state {
  static inline const char* name = "port";
  port_options options;
  std::shared_ptr<member> algorithm;  ///< Used on the lane only, where there is one.
  std::unique_ptr<lane> where;
  std::vector<peer_port> peers;
  /// The step that is answered next. PORT-1: parts of this exchange and the next ones, so far as a peer
  /// can be ahead (member::steps_ahead), are taken, no others.
  std::uint64_t step{0};
  std::optional<std::uint64_t> most_ahead{1};  ///< In steps; nothing if the member checks steps itself.
  int quiet_ticks{0};                          ///< Of a server: since a part came.
  std::vector<range> wanted;  ///< What a worker awaits by itself of each step: the whole, or the buckets.
  std::map<std::uint64_t, std::vector<answer_so_far>> answers;  ///< By step and by `wanted`.
  std::map<std::uint32_t, waiting_worker> waiting;              ///< At `step`, by `wanted`.
  std::uint64_t payload_bytes{0};
};

using port_pointer = port_actor::stateful_pointer<port_state>;

awaited awaited_by(const member& algorithm, std::uint64_t step) {
  return {algorithm.open_step().value_or(step), algorithm.waiting_for(step)};
}

void fail(port_pointer self, const caf::error& why) {
  for (auto& [which, one] : std::exchange(self->state.waiting, {})) one.promise.deliver(why);
  self->quit(why);
}

/// Runs `work(member)` where members run, then `next(result)` here. An exception ends the port.
template <class Work, class Next>
void with_member(port_pointer self, Work work, Next next) {
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
    then_on_lane(self, *self->state.where, std::move(guarded), std::move(then));
  else
    then(guarded());
}

/// The answers of `step`, as far as they have come.
std::vector<answer_so_far>& answers_of(port_state& my, std::uint64_t step) {
  return my.answers.try_emplace(step, my.wanted.size()).first->second;
}

/// Which of port_state::wanted an element belongs to.
std::uint32_t wanted_with(const port_state& my, std::int64_t element) {
  for (std::uint32_t which = 0; which < my.wanted.size(); ++which)
    if (element >= my.wanted[which].first && element < my.wanted[which].first + my.wanted[which].count) return which;
  throw std::logic_error("a piece of an answer lies outside every requested range");
}

/// Moves on to the next step.
void advance_step(port_pointer self) {
  auto& my = self->state;
  my.answers.erase(my.step);
  my.step += my.options.due.every;
  with_member(
      self,
      [step = my.step](member& algorithm) {
        algorithm.forget_before(step);
        return true;
      },
      [](bool) {});
}

void answer_worker(port_pointer self) {
  auto& my = self->state;
  auto& answers = answers_of(my, my.step);
  for (auto waits = my.waiting.begin(); waits != my.waiting.end();) {
    auto& [which, one] = *waits;
    auto& found = answers[which];
    if (found.elements < my.wanted[which].count) {
      ++waits;
      continue;
    }
    outcome answer{.origin = one.who, .what = found.what};
    for (auto& [first, piece] : found.pieces) answer.pieces.push_back(std::move(piece));
    answer.payload_bytes = my.payload_bytes;
    answer.sample_count = found.sample_count;
    one.promise.deliver(std::move(answer));
    found.given = true;
    waits = my.waiting.erase(waits);
  }
  if (std::all_of(answers.begin(), answers.end(), [](const auto& answer) { return answer.given; })) advance_step(self);
}

/// Executes the member's output: sends parts to the peers and stores answers for the worker.
void carry_out(port_pointer self, said&& words) {
  auto& my = self->state;
  for (auto& [to, piece] : words.sent) {
    my.payload_bytes += static_cast<std::uint64_t>(piece.piece.values.nbytes());
    piece.origin.sender = id_of(my.options, my.options.rank);
    self->send(my.peers.at(static_cast<std::size_t>(to)), part_atom_v, std::move(piece));
  }
  for (auto& piece : words.answered) {
    auto& answer = answers_of(my, piece.origin.step)[wanted_with(my, piece.piece.first)];
    answer.what = piece.what;
    answer.sample_count = piece.sample_count;
    answer.elements += piece.piece.values.numel();
    if (!answer.pieces.emplace(piece.piece.first, piece.piece).second)
      return fail(self, make_error(errc::stale, "a piece of the answer to step " +
                                                    std::to_string(piece.origin.step + 1) + " arrived twice"));
  }
  if (!my.waiting.empty()) answer_worker(self);
}

/// Returns why a part cannot be accepted, or nothing.
std::optional<caf::error> refusal(const port_state& my, const part& piece) {
  const auto known = index_of(my.options, piece.origin.sender);
  const auto from = " (from " +
                    (known ? list_of(my.options, {*known})
                           : "rank " + std::to_string(static_cast<std::uint32_t>(piece.origin.sender))) +
                    ", step " + std::to_string(my.options.passes.step_of(piece.origin.step - my.options.due.lead) + 1) +
                    ")";
  if (piece.origin.run != my.options.run)
    return make_error(errc::mismatch, "received a part that belongs to another run" + from);
  if (!known) return make_error(errc::mismatch, "received a part from an unknown rank" + from);
  if (piece.which.place != my.options.place)
    return make_error(errc::mismatch, "received a part that belongs to another exchange" + from);
  if (piece.total != my.options.layout.parameter_end)
    return make_error(errc::mismatch, "received a part that belongs to another model" + from);
  const auto due = piece.at == stage::result ? my.options.carries.answers : my.options.carries.sends;
  if (piece.what != due)
    return make_error(errc::mismatch, "received a part whose values are not of kind " + name_of(due) + from);
  if (piece.origin.generation != 0)
    return make_error(errc::mismatch, "received a part from another set of members" + from);
  if (!piece.piece.values.defined() || piece.piece.values.scalar_type() != at::kFloat || piece.sample_count <= 0)
    return make_error(errc::mismatch, "received a part without float32 values or without samples" + from);
  if (!my.options.due.due(piece.origin.step))
    return make_error(errc::mismatch, "received a part for a step without this exchange" + from);
  if (!my.most_ahead) return std::nullopt;
  if (piece.origin.step < my.step)
    return make_error(errc::stale, "received a part for a step that is already complete" + from);
  if (piece.origin.step > my.step + *my.most_ahead)
    return make_error(errc::mismatch, "received a part more than " + std::to_string(*my.most_ahead) +
                                          (*my.most_ahead == 1 ? " step" : " steps") +
                                          " ahead, the limit that member::steps_ahead() sets" + from);
  return std::nullopt;
}

/// Ends the port if a round has begun and nothing arrives any more. A server reports this before its workers do, which
/// know only that they are waiting for it.
void watch_round(port_pointer self) {
  auto& my = self->state;
  if (++my.quiet_ticks <= ticks_of_timeout) return;
  with_member(
      self, [](member& algorithm) { return awaited_by(algorithm, 0); },
      [self](const awaited& whom) {
        const auto& my = self->state;
        if (whom.missing.empty() || my.quiet_ticks <= ticks_of_timeout) return;
        fail(self, make_error(errc::timed_out, overdue(my.options, whom)));
      });
}

/// Returns the part as the member sees it: with the sender's index and without the receipt.
part as_member_sees(const port_state& my, const part& piece) {
  auto taken = piece;
  taken.receipt.reset();
  taken.origin.sender = *index_of(my.options, piece.origin.sender);
  return taken;
}

port_actor::behavior_type port(port_pointer self, port_options options, std::shared_ptr<member> algorithm,
                               std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  TROUPE_ASSERT(std::is_sorted(options.ids.begin(), options.ids.end()), "ids must ascend with the indices");
  self->state.step = options.due.first;
  self->state.wanted =
      options.answers_buckets ? options.buckets : std::vector<range>{{0, options.layout.parameter_end}};
  if (const auto exchanges = algorithm->steps_ahead())
    self->state.most_ahead = *exchanges * options.due.every;
  else
    self->state.most_ahead.reset();
  self->state.options = std::move(options);
  self->state.options.initial.reset();  // the member has taken what it needs
  self->state.algorithm = std::move(algorithm);
  self->state.where = std::move(*where);
  return {
      [self](part_atom, const part& piece) {
        auto& my = self->state;
        if (const auto why = refusal(my, piece)) return fail(self, *why);
        auto taken = as_member_sees(my, piece);
        const auto sender = taken.origin.sender;
        const auto own = sender == my.options.rank && piece.at == stage::contribution;
        // What a server sends is counted where it arrives, so that a worker's count is complete with its answer.
        if (static_cast<std::uint32_t>(sender) >= my.options.world_size)
          my.payload_bytes += static_cast<std::uint64_t>(piece.piece.values.nbytes());
        my.quiet_ticks = 0;
        with_member(
            self,
            [piece = std::move(taken), own](member& algorithm) {
              said words;
              if (own)
                algorithm.contribute(piece, words);
              else
                algorithm.receive(piece, words);
              return words;
            },
            [self](said&& words) { carry_out(self, std::move(words)); });
      },
      [self](await_atom, const stamp& who, const key& which) -> caf::result<outcome> {
        auto& my = self->state;
        const auto due = who.step == my.step && which.part < my.wanted.size() && !my.waiting.contains(which.part) &&
                         !answers_of(my, my.step)[which.part].given;
        if (!due)
          return make_error(errc::mismatch, "requested the answer to step " + std::to_string(who.step + 1) +
                                                " at step " + std::to_string(my.step + 1));
        auto promise = self->make_response_promise<outcome>();
        my.waiting.emplace(which.part, waiting_worker{who, promise});
        answer_worker(self);
        return promise;
      },
      [self](wire_atom, const std::vector<peer_port>& peers) {
        const auto& options = self->state.options;
        TROUPE_ASSERT(peers.size() == options.world_size + options.servers,
                      "a port must be wired to every member and server");
        self->state.peers = peers;
        self->delayed_send(self, self->state.options.timeout / ticks_of_timeout, tick_atom_v);
      },
      [self](lost_atom, const std::vector<rank_id>& lost) -> caf::result<std::string> {
        auto promise = self->make_response_promise<std::string>();
        with_member(
            self, [step = self->state.step](member& algorithm) { return awaited_by(algorithm, step); },
            [self, lost, promise](awaited whom) mutable {
              const auto& options = self->state.options;
              const auto alive = [&](rank_id index) {
                return std::find(lost.begin(), lost.end(), id_of(options, index)) == lost.end();
              };
              std::erase_if(whom.missing, alive);
              const auto text = whom.missing.empty() ? std::string{} : waits(options, whom);
              promise.deliver(text);
              if (!text.empty()) fail(self, make_error(errc::peer_lost, text));
            });
        return promise;
      },
      [self](result_atom, std::uint64_t step) -> caf::result<holding> {
        auto promise = self->make_response_promise<holding>();
        with_member(
            self,
            [step](member& algorithm) {
              auto now = algorithm.held(step);
              if (!now) throw exchange_error(errc::mismatch, "a worker's port has no result");
              return std::move(*now);
            },
            [promise](holding now) mutable { promise.deliver(std::move(now)); });
        return promise;
      },
      [self](state_atom) {
        state_dict made;
        made.put_count("step", self->state.step);
        made.put_count("payload_bytes", self->state.payload_bytes);
        return made;
      },
      [self](restore_atom, const state_dict& from) {
        self->state.step = from.count("step");
        self->state.payload_bytes = from.count("payload_bytes");
        self->state.algorithm->forget_before(self->state.step);
      },
      [self](tick_atom) {
        auto& my = self->state;
        self->delayed_send(self, my.options.timeout / ticks_of_timeout, tick_atom_v);
        if (my.options.is_server()) return watch_round(self);
        // A server knows better which ranks it is waiting for, and is given the time to report it.
        const auto patience = ticks_of_timeout + (my.options.servers > 0 ? 1 : 0);
        bool overdue_at_all = false;
        for (auto& [which, one] : my.waiting) overdue_at_all |= ++one.ticks > patience;
        if (!overdue_at_all) return;
        with_member(
            self, [step = my.step](member& algorithm) { return awaited_by(algorithm, step); },
            [self](const awaited& whom) {
              const auto& my = self->state;
              if (my.waiting.empty() || my.step != whom.step) return;
              fail(self, make_error(errc::timed_out, overdue(my.options, whom)));
            });
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

port_actor spawn_port(caf::actor_system& system, port_options options, std::unique_ptr<member> algorithm,
                      std::unique_ptr<lane> where) {
  return system.spawn(port, std::move(options), std::shared_ptr<member>(std::move(algorithm)),
                      std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe

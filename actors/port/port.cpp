#include "troupe/actors/port/port.hpp"

#include "troupe/actors/port/port_state.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

awaited awaited_by(const member& algorithm, std::uint64_t step) {
  return {algorithm.open_step().value_or(step), algorithm.waiting_for(step)};
}

/// Returns the index of the range in port_state::wanted that contains an element.
std::uint32_t wanted_with(const port_state& my, std::int64_t element) {
  for (std::uint32_t which = 0; which < my.wanted.size(); ++which)
    if (element >= my.wanted[which].first && element < my.wanted[which].first + my.wanted[which].count) return which;
  throw std::logic_error("a piece of an answer lies outside every requested range");
}

/// Moves on to the next step.
void advance_step(port_pointer self) {
  auto& my = self->state;
  my.answers.erase(my.step);
  if (my.reform) my.reform->contributed.clear();
  my.step = my.options.own.due.next_due(my.step + 1);
  TROUPE_ASSERT(my.answers.empty() || my.answers.begin()->first >= my.step, "PORT-2: answers of past steps are gone");
  with_member(
      self, {.what = task::kind::state},
      [step = my.step](member& algorithm) {
        algorithm.forget_before(step);
        return true;
      },
      [](bool) {});
}

/// Returns the port of the member or server with this index.
const peer_port& port_of(const port_state& my, rank_id index) {
  const auto& indices = my.options.peers;
  if (indices.empty()) return my.peers.at(static_cast<std::size_t>(index));
  const auto position = std::lower_bound(indices.begin(), indices.end(), index);
  if (position == indices.end() || *position != index)
    throw std::logic_error("a member sent a part to " + list_of(my.options, {index}) + ", which is not its peer");
  return my.peers.at(static_cast<std::size_t>(position - indices.begin()));
}

// Requests. ---------------------------------------------------------------------------------------------------------

caf::result<outcome> await_answer(port_pointer self, const stamp& who, const key& which) {
  auto& my = self->state;
  const auto due = who.step == my.step && which.part < my.wanted.size() && !my.waiting.contains(which.part) &&
                   !answers_of(my, my.step)[which.part].given;
  if (!due)
    return make_error(errc::mismatch, "requested the answer to step " + std::to_string(who.step + 1) + " at step " +
                                          std::to_string(my.step + 1));
  auto promise = self->make_response_promise<outcome>();
  my.waiting.emplace(which.part, waiting_worker{who, promise});
  answer_worker(self);
  return promise;
}

void wire(port_pointer self, const std::vector<peer_port>& peers) {
  auto& my = self->state;
  const auto& among = my.options.own.among;
  const std::size_t expected = my.options.peers.empty() ? among.world_size + among.servers : my.options.peers.size();
  TROUPE_ASSERT(peers.size() == expected, "a port must be wired to all of its peers");
  my.peers = peers;
  self->delayed_send(self, my.options.timeout / ticks_of_timeout, tick_atom_v);
}

caf::result<std::string> hear_of_lost(port_pointer self, const std::vector<rank_id>& lost) {
  auto promise = self->make_response_promise<std::string>();
  with_member(
      self, {.what = task::kind::state},
      [step = self->state.step](member& algorithm) { return awaited_by(algorithm, step); },
      [self, lost, promise](awaited whom) mutable {
        const auto& options = self->state.options;
        const auto alive = [&](rank_id index) {
          return std::find(lost.begin(), lost.end(), id_of(options, index)) == lost.end();
        };
        std::erase_if(whom.missing, alive);
        const auto text = whom.missing.empty() ? std::string{} : waits(options, whom);
        promise.deliver(text);
        if (!text.empty() && !self->state.is_paused()) fail(self, make_error(errc::peer_lost, text));
      });
  return promise;
}

// Deadlines. --------------------------------------------------------------------------------------------------------

/// Ends the port if a round has begun and nothing has arrived for too long. A server reports this before its workers
/// do, because they can only report that they wait for the server.
void watch_round(port_pointer self) {
  auto& my = self->state;
  if (++my.quiet_ticks <= ticks_of_timeout) return;
  with_member(
      self, {.what = task::kind::state}, [](member& algorithm) { return awaited_by(algorithm, 0); },
      [self](const awaited& whom) {
        const auto& my = self->state;
        if (whom.missing.empty() || my.quiet_ticks <= ticks_of_timeout) return;
        fail(self, make_error(errc::timed_out, overdue(my.options, whom)));
      });
}

/// Ends the port if its worker has waited for too long.
void watch_worker(port_pointer self) {
  auto& my = self->state;
  if (my.is_paused()) return;
  // A server can name the ranks that it is waiting for, so it gets the time to report them first.
  const auto patience = ticks_of_timeout + (my.options.own.among.servers > 0 ? 1 : 0);
  bool overdue_at_all = false;
  for (auto& [which, request] : my.waiting) overdue_at_all |= ++request.ticks > patience;
  if (!overdue_at_all) return;
  with_member(
      self, {.what = task::kind::state}, [step = my.step](member& algorithm) { return awaited_by(algorithm, step); },
      [self](const awaited& whom) {
        const auto& my = self->state;
        if (my.waiting.empty() || my.step != whom.step) return;
        fail(self, make_error(errc::timed_out, overdue(my.options, whom)));
      });
}

}  // namespace

void fail(port_pointer self, const caf::error& why) {
  for (auto& [which, request] : std::exchange(self->state.waiting, {})) request.promise.deliver(why);
  self->quit(why);
}

std::vector<partial_answer>& answers_of(port_state& my, std::uint64_t step) {
  return my.answers.try_emplace(step, my.wanted.size()).first->second;
}

void answer_worker(port_pointer self) {
  auto& my = self->state;
  if (my.is_paused()) return;  // what was reported to `pause` must stay true until `reform`
  auto& answers = answers_of(my, my.step);
  for (auto waits = my.waiting.begin(); waits != my.waiting.end();) {
    auto& [which, request] = *waits;
    auto& partial = answers[which];
    if (partial.elements < my.wanted[which].count) {
      ++waits;
      continue;
    }
    outcome answer{.origin = request.who, .what = partial.what};
    for (auto& [first, piece] : partial.pieces) answer.pieces.push_back(std::move(piece));
    answer.version = partial.version;
    answer.payload_bytes = my.payload_bytes - my.bytes_under_way;
    answer.sample_count = partial.sample_count;
    if (my.reform) my.reform->last = answer;
    request.promise.deliver(std::move(answer));
    partial.given = true;
    waits = my.waiting.erase(waits);
  }
  if (std::all_of(answers.begin(), answers.end(), [](const auto& answer) { return answer.given; })) advance_step(self);
}

void send_to(port_pointer self, rank_id to, part&& piece) {
  const auto& peer = port_of(self->state, to);
  const auto& departure = self->state.options.departure;
  const auto now = self->clock().now().time_since_epoch();
  const auto wait = departure && to != self->state.options.own.among.rank ? departure(to, piece, now) : now - now;
  if (wait.count() > 0)
    self->delayed_send(peer, wait, part_atom_v, std::move(piece));
  else
    self->send(peer, part_atom_v, std::move(piece));
}

void carry_out(port_pointer self, collected_output&& output) {
  auto& my = self->state;
  my.bytes_under_way = output.bytes_under_way;
  for (auto& [to, piece] : output.sent) {
    my.payload_bytes += static_cast<std::uint64_t>(piece.piece.values.nbytes());
    piece.origin.sender = id_of(my.options, my.options.own.among.rank);
    piece.origin.generation = my.options.own.among.generation;
    if (my.options.track) report_sent(self, to, piece);
    send_to(self, to, std::move(piece));
  }
  for (auto& piece : output.answered) {
    if (piece.origin.step < my.step)
      return fail(self, make_error(errc::stale, "step " + std::to_string(piece.origin.step + 1) +
                                                    " was answered after it was complete"));
    auto& answer = answers_of(my, piece.origin.step)[wanted_with(my, piece.piece.first)];
    answer.what = piece.what;
    answer.sample_count = piece.sample_count;
    answer.version = std::max(answer.version, piece.origin.version);
    answer.elements += piece.piece.values.numel();
    if (!answer.pieces.emplace(piece.piece.first, piece.piece).second)
      return fail(self, make_error(errc::stale, "a piece of the answer to step " +
                                                    std::to_string(piece.origin.step + 1) + " arrived twice"));
  }
  if (!my.waiting.empty()) answer_worker(self);
}

void hand_to_member(port_pointer self, const part& piece) {
  auto& my = self->state;
  const auto own = is_own(my, piece);
  with_member(
      self, {.what = task::kind::fold, .elements = piece.piece.values.numel()},
      // The receipt is held until the member has taken the part, so that credit also bounds what waits for a lane.
      [piece = as_member_sees(my, piece), own, receipt = piece.receipt](member& algorithm) {
        collected_output output;
        if (own)
          algorithm.contribute(piece, output);
        else
          algorithm.receive(piece, output);
        output.bytes_under_way = bytes_under_way(algorithm);
        return output;
      },
      [self](collected_output&& output) { carry_out(self, std::move(output)); });
}

void take(port_pointer self, const part& piece) {
  auto& my = self->state;
  const auto own = is_own(my, piece);
  if (my.reform && !own) {
    const auto generation = my.options.own.among.generation;
    if (piece.origin.generation == generation + 1 && piece.origin.run == my.options.run) {
      if (my.reform->early.size() < most_early) return my.reform->early.push_back(piece);
      return fail(self,
                  make_error(errc::mismatch, my.options.name + ": received more than " + std::to_string(most_early) +
                                                 " parts of the next generation before it was re-formed"));
    }
    if (piece.origin.generation < generation || my.reform->paused) return;
  }
  if (const auto why = refusal(my, piece)) return fail(self, *why);
  if (own && !my.most_ahead) my.step = std::max(my.step, piece.origin.step);  // the worker may leave out steps
  if (own && my.reform) {
    my.reform->contributed.push_back(piece);
    my.reform->contributed.back().receipt.reset();
    if (my.reform->paused) return;  // contributed when the exchange is re-formed
  }
  // What a server sends is counted where it arrives, so that a worker's count is complete with its answer.
  if (static_cast<std::uint32_t>(*index_of(my.options, piece.origin.sender)) >= my.options.own.among.world_size)
    my.payload_bytes += static_cast<std::uint64_t>(piece.piece.values.nbytes());
  my.quiet_ticks = 0;
  my.deliveries.is_used() ? deliver(self, piece) : hand_to_member(self, piece);
}

namespace {

port_actor::behavior_type port(port_pointer self, port_options options, member_maker make, const lane_for_fold& lanes) {
  report_exceptions(self);
  auto& my = self->state;
  const auto& own = options.own;
  TROUPE_ASSERT(std::is_sorted(own.among.ids.begin(), own.among.ids.end()), "ids must ascend with the indices");
  my.wanted = options.answers_buckets ? own.buckets : std::vector<range>{{0, own.layout.parameter_end}};
  my.step = own.due.next_due(own.first_step + own.due.lead);
  my.options = std::move(options);
  if (my.options.can_reform) my.reform.emplace();
  my.deliveries = intake{my.options.deliveries};
  my.make = std::move(make);
  make_member(my);
  if (lanes) my.where = lanes(my.algorithm->largest_fold());
  return {
      [self](part_atom, const part& piece) {
        self->state.options.track ? take_traced(self, piece) : take(self, piece);
      },
      [self](await_atom, const stamp& who, const key& which) { return await_answer(self, who, which); },
      [self](wire_atom, const std::vector<peer_port>& peers) { wire(self, peers); },
      [self](lost_atom, const std::vector<rank_id>& lost) { return hear_of_lost(self, lost); },
      [self](result_atom, std::uint64_t step) { return deliver_result(self, step); },
      [self](state_atom) { return deliver_state(self); },
      [self](restore_atom, const state_dict& state) -> caf::result<void> {
        try {
          restore(self->state, state);
        } catch (const state_error& problem) {
          return make_error(errc::mismatch, self->state.options.name + ": " + problem.what());
        }
        return caf::unit;
      },
      [self](pause_atom) { return pause(self); },
      [self](reform_atom, const reformation& next) { return reform(self, next); },
      [self](tick_atom) {
        const auto& options = self->state.options;
        self->delayed_send(self, options.timeout / ticks_of_timeout, tick_atom_v);
        self->state.deliveries.release();
        options.own.among.is_server() ? watch_round(self) : watch_worker(self);
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

port_actor spawn_port(caf::actor_system& system, port_options options, member_maker make, const lane_for_fold& lanes) {
  return system.spawn(port, std::move(options), std::move(make), lanes);
}

}  // namespace troupe

#include "troupe/actors/port/collective_port.hpp"

#include "troupe/actors/port/port_text.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::device {

namespace {

struct collective_state {
  static inline const char* name = "collective";
  port_options options;
  std::shared_ptr<collective> engine;
  std::unique_ptr<lane> where;
  std::vector<range> buckets;          ///< In the order of the calls.
  std::uint64_t step{0};               ///< The step that is answered next.
  std::map<std::int64_t, part> early;  ///< Parts held back, by first element.
  std::size_t issued{0};               ///< Number of buckets of the step whose call has been made.
  bool joined{false};
  std::vector<span> answered;  ///< Buckets of the step whose call has completed.
  std::optional<stamp> asked;
  caf::typed_response_promise<outcome> promise;
  int ticks{0};  ///< Deadline ticks since the last progress; counted while a call is under way or the worker waits.
  std::uint64_t payload_bytes{0};

  /// Aborts a call under way, which would otherwise block the lane's thread forever, because nothing else can end it.
  ~collective_state() {
    if (engine) engine->abort();
  }

  bool under_way() const { return !joined || issued > answered.size(); }
};

using collective_pointer = port_actor::stateful_pointer<collective_state>;

std::uint32_t number(rank_id rank) {
  return static_cast<std::uint32_t>(rank);
}

/// Returns all other members, because a collective does not report which of them is missing.
awaited all_others(const collective_state& my) {
  awaited others{.step = my.step, .missing = {}};
  for (std::uint32_t index = 0; index < my.options.own.among.world_size; ++index)
    if (rank_id{index} != my.options.own.among.rank) others.missing.push_back(rank_id{index});
  return others;
}

void fail(collective_pointer self, const caf::error& why) {
  auto& my = self->state;
  my.engine->abort();
  if (my.asked) my.promise.deliver(why);
  my.asked.reset();
  self->quit(why);
}

/// Returns the number of bytes that each member of a ring sends (Patarasuk and Yuan). NCCL chooses the actual route.
std::uint64_t bytes_of_a_call(const port_options& options, std::int64_t elements) {
  const auto n = static_cast<std::uint64_t>(options.own.among.world_size);
  return 2 * (n - 1) * static_cast<std::uint64_t>(elements) * sizeof(float) / n;
}

void answer_worker(collective_pointer self) {
  auto& my = self->state;
  if (!my.asked || my.answered.size() < my.buckets.size()) return;
  std::sort(my.answered.begin(), my.answered.end(), [](const span& a, const span& b) { return a.first < b.first; });
  my.promise.deliver(outcome{.origin = *my.asked,
                             .what = my.options.own.carries.answers,
                             .pieces = std::exchange(my.answered, {}),
                             .payload_bytes = my.payload_bytes});
  my.asked.reset();
  my.issued = 0;
  my.ticks = 0;
  my.step = my.options.own.due.next_due(my.step + 1);
}

/// Makes the calls whose turn it is (DEVICE-1).
void issue(collective_pointer self) {
  auto& my = self->state;
  while (my.issued < my.buckets.size()) {
    const auto next = my.early.find(my.buckets[my.issued].first);
    if (next == my.early.end()) return;
    const auto own = std::move(next->second);
    my.early.erase(next);
    if (my.issued == my.answered.size()) my.ticks = 0;
    my.issued += 1;
    my.payload_bytes += bytes_of_a_call(my.options, own.piece.values.numel());
    then_on_lane(
        self, *my.where, {.what = task::kind::fold, .elements = own.piece.values.numel()},
        [engine = my.engine, own] { return engine->weighted_mean(own.piece, own.sample_count); },
        [self](span&& mean) {
          auto& my = self->state;
          my.ticks = 0;
          my.answered.push_back(std::move(mean));
          answer_worker(self);
        });
  }
}

/// Takes the worker's own part: the whole, one bucket, or several adjacent buckets. Returns why the part cannot be
/// accepted, or nothing.
std::optional<std::string> take(collective_state& my, const part& own) {
  const auto from = " (step " + std::to_string(own.origin.step - my.options.own.due.lead + 1) + ")";
  if (own.origin.run != my.options.run) return "received a part that belongs to another run" + from;
  if (own.which.place != my.options.own.place) return "received a part that belongs to another exchange" + from;
  if (own.origin.sender != id_of(my.options, my.options.own.among.rank) || own.at != stage::contribution)
    return "received a part from another rank, but a collective accepts only parts from its own worker" + from;
  if (own.total != my.options.own.layout.parameter_end) return "received a part that belongs to another model" + from;
  if (own.what != my.options.own.carries.sends) return "received a part with values of the wrong kind" + from;
  if (!own.piece.values.defined() || own.piece.values.scalar_type() != at::kFloat || own.sample_count <= 0)
    return "received a part without float32 values or without samples" + from;
  if (own.origin.step != my.step) return "received a part for another step than " + std::to_string(my.step + 1) + from;
  const auto first = own.piece.first, end = first + own.piece.values.numel();
  std::int64_t taken = 0;
  for (std::size_t i = 0; i < my.buckets.size(); ++i) {
    const auto& bucket = my.buckets[i];
    if (bucket.first < first || bucket.first + bucket.count > end) continue;
    part slice = own;
    slice.receipt.reset();
    slice.piece.first = bucket.first;
    slice.piece.values = own.piece.values.narrow(0, bucket.first - first, bucket.count);
    if (i < my.issued || !my.early.emplace(bucket.first, std::move(slice)).second)
      return "received a part twice" + from;
    taken += bucket.count;
  }
  if (taken != own.piece.values.numel()) return "received a part that is not a bucket" + from;
  return std::nullopt;
}

/// Ends the port if it has waited too long (DEVICE-2).
void watch(collective_pointer self) {
  auto& my = self->state;
  const bool waiting = (my.joined && my.issued > my.answered.size()) || my.asked;
  if (!waiting || ++my.ticks <= ticks_of_timeout) return;
  fail(self, make_error(errc::timed_out, overdue(my.options, all_others(my))));
}

port_actor::behavior_type collective_port(collective_pointer self, port_options options,
                                          std::shared_ptr<collective> engine, std::string id,
                                          std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  auto& my = self->state;
  my.step = options.own.due.next_due(0);
  my.buckets = options.own.buckets;
  if (my.buckets.empty()) my.buckets = {{0, options.own.layout.parameter_end}};
  my.options = std::move(options);
  my.options.own.initial.reset();
  my.engine = std::move(engine);
  my.where = std::move(*where);
  return {
      [self](part_atom, const part& own) {
        if (const auto why = take(self->state, own)) return fail(self, make_error(errc::mismatch, *why));
        issue(self);
      },
      [self](await_atom, const stamp& who, const key&) -> caf::result<outcome> {
        auto& my = self->state;
        if (who.step != my.step || my.asked)
          return make_error(errc::mismatch, "requested the answer to step " + std::to_string(who.step + 1) +
                                                " at step " + std::to_string(my.step + 1));
        my.promise = self->make_response_promise<outcome>();
        my.asked = who;
        auto promise = my.promise;
        answer_worker(self);
        return promise;
      },
      [self, id = std::move(id)](wire_atom, const std::vector<peer_port>&) {
        auto& my = self->state;
        self->delayed_send(self, my.options.timeout / ticks_of_timeout, tick_atom_v);
        then_on_lane(
            self, *my.where, {.what = task::kind::state},
            [engine = my.engine, rank = number(my.options.own.among.rank), size = my.options.own.among.world_size, id] {
              engine->join(rank, size, id);
              return true;
            },
            [self](bool) { self->state.joined = true; });
      },
      [self](lost_atom, const std::vector<rank_id>& lost) -> caf::result<std::string> {
        auto& my = self->state;
        auto whom = all_others(my);
        std::erase_if(whom.missing, [&](rank_id index) {
          return std::find(lost.begin(), lost.end(), id_of(my.options, index)) == lost.end();
        });
        if (whom.missing.empty() || (!my.under_way() && !my.asked)) return std::string{};
        const auto text = waits(my.options, whom);
        fail(self, make_error(errc::peer_lost, text));
        return text;
      },
      [](result_atom, std::uint64_t) -> caf::result<holding> {
        return make_error(errc::mismatch, "a worker's port has no result");
      },
      [self](state_atom) {
        state_dict state;
        state.put_count("step", self->state.step);
        return state;
      },
      [self](restore_atom, const state_dict& state) -> caf::result<void> {
        try {
          self->state.step = state.count("step");
        } catch (const state_error& problem) {
          return make_error(errc::mismatch, problem.what());
        }
        return caf::unit;
      },
      [](pause_atom) -> caf::result<exchange_standing> {
        return make_error(errc::mismatch, "an exchange on devices cannot be re-formed");
      },
      [](reform_atom, const reformation&) -> caf::result<void> {
        return make_error(errc::mismatch, "an exchange on devices cannot be re-formed");
      },
      [self](tick_atom) {
        self->delayed_send(self, self->state.options.timeout / ticks_of_timeout, tick_atom_v);
        watch(self);
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

port_actor spawn_collective_port(caf::actor_system& system, port_options options, std::shared_ptr<collective> engine,
                                 std::string id, std::unique_ptr<lane> where) {
  return system.spawn(collective_port, std::move(options), std::move(engine), std::move(id),
                      std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe::device

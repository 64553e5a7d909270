#include "troupe/actors/worker.hpp"

#include "troupe/actors/support/assert.hpp"

#include <ATen/ops/cat.h>
#include <caf/all.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Steps that one request may cover where no exchange stands between them: few enough to stop soon, many enough that
/// the two thread wakes of a request cost nothing.
constexpr std::uint32_t most_steps_at_once = 16;

/// How often a worker tells of its progress: often enough for an eye.
constexpr std::chrono::milliseconds between_glances{100};

struct worker_state {
  static inline const char* name = "worker";
  worker_options options;
  worker_contacts contacts;

  snapshot now;                   ///< WORKER-1: frozen, of `completed` steps (or more, see walk()).
  std::optional<part> gradient;   ///< At `now`.
  std::optional<outcome> answer;  ///< What the last exchange answered, not yet applied.
  std::size_t word{0};            ///< Position in the loop.
  std::uint64_t completed{0};
  std::uint64_t begun{0};    ///< WORKER-2: steps that will be completed even if no further one is begun.
  std::uint64_t granted{0};  ///< WORKER-3: no step beyond it is begun.
  std::uint64_t last{0};     ///< The step the run ends at.
  bool busy{false};          ///< A request to compute or to a port is under way.
  bool halted{false};
  std::optional<std::uint64_t> reported;  ///< Step of the last milestone.
  std::optional<std::uint64_t> shown;     ///< Step of the last snapshot shown.
  caf::actor_clock::time_point last_glance;
  double loss_sum{0};
  std::int64_t sample_count{0};
  std::vector<std::uint64_t> payload_bytes;  ///< By exchange.
  caf::typed_response_promise<std::uint64_t> halt_promise;
};

using worker_pointer = worker_actor::stateful_pointer<worker_state>;

void walk(worker_pointer self);

void lose(worker_pointer self, const std::string& whom, const caf::error& why) {
  const auto silent = why == caf::sec::request_timeout;
  const auto timeout = std::to_string(self->state.options.timeout.count());
  self->quit(make_error(errc::peer_lost,
                        whom + ": " + (silent ? "no answer within " + timeout + " ms (run.timeout)" : describe(why))));
}

/// Tells the coordinator what it asked to hear of, once for each step, and shows what will be evaluated or saved.
void report(worker_pointer self) {
  auto& my = self->state;
  if (my.word != 0) return;
  const auto last = my.completed == my.last;
  if ((last || my.options.when.milestone_at(my.completed)) && my.reported != my.completed) {
    my.reported = my.completed;
    std::uint64_t bytes = 0;
    for (const auto of_one : my.payload_bytes) bytes += of_one;
    self->send(my.contacts.coordinator, reached_atom_v,
               milestone{my.options.rank, my.completed, my.loss_sum, my.sample_count, bytes});
    my.loss_sum = 0;
    my.sample_count = 0;
  }
  if ((last || my.options.when.evaluated_at(my.completed)) && my.shown != my.completed && my.contacts.results) {
    my.shown = my.completed;
    self->send(my.contacts.results, result_atom_v, my.now);
  }
}

void glance(worker_pointer self) {
  auto& my = self->state;
  const auto now = self->clock().now();
  if (now - my.last_glance < between_glances) return;
  my.last_glance = now;
  self->send(my.contacts.recorder, progress_atom_v, my.options.rank, my.completed);
}

/// What one request to compute covers.
struct stretch {
  advance request;
  std::size_t word_after{0};  ///< Where the loop stands then.
  std::uint64_t steps{0};     ///< Completed by it.
  std::uint64_t begins{0};    ///< Begun by it.
};

/// Local verbs from here to the next exchange. It runs over the end of the loop into the next step, so that `apply` and
/// the next `gradient` share a message, unless something is due between them.
stretch next_stretch(const worker_state& my) {
  stretch result{.request = {.verbs = {}, .times = 1, .from = my.now, .with = my.answer}, .word_after = my.word};
  const auto& loop = my.options.loop;
  const auto may_begin = [&](std::uint64_t completed) {
    return completed < my.granted && !my.options.when.milestone_at(completed) && completed != my.last;
  };
  while (std::holds_alternative<verb>(loop[result.word_after])) {
    if (result.word_after == 0) result.begins += 1;
    result.request.verbs.push_back(std::get<verb>(loop[result.word_after]));
    result.word_after = (result.word_after + 1) % loop.size();
    if (result.word_after != 0) continue;
    result.steps += 1;
    const auto local_loop = result.steps == 1 && my.word == 0;  // a whole loop without an exchange
    if (local_loop) {
      const auto until = std::min(my.granted, my.options.when.next_milestone(my.completed));
      result.request.times =
          static_cast<std::uint32_t>(std::clamp<std::uint64_t>(until - my.completed, 1, most_steps_at_once));
      result.steps = result.begins = result.request.times;
      return result;
    }
    if (!may_begin(my.completed + result.steps)) return result;
  }
  return result;
}

void compute(worker_pointer self) {
  auto& my = self->state;
  auto ahead = next_stretch(my);
  my.answer.reset();
  my.gradient.reset();
  my.busy = true;
  my.begun += ahead.begins;
  const auto local_steps = ahead.request.times > 1;
  self->request(my.contacts.compute, my.options.timeout * ahead.request.times, advance_atom_v, std::move(ahead.request))
      .then(
          [self, word = ahead.word_after, steps = ahead.steps, local_steps](advanced& done) {
            auto& my = self->state;
            my.busy = false;
            my.word = word;
            my.now = std::move(done.now);
            my.gradient = std::move(done.gradient);
            my.loss_sum += done.loss_sum;
            my.sample_count += done.sample_count;
            // A cancelled request of several steps does fewer than it was asked for.
            my.completed = local_steps ? my.now.origin.step : my.completed + steps;
            if (local_steps) my.begun = my.completed;
            if (my.halt_promise.pending()) my.halt_promise.deliver(my.begun);
            if (steps > 0) glance(self);
            report(self);
            walk(self);
          },
          [self](const caf::error& why) {
            lose(self, "compute " + std::to_string(static_cast<std::uint32_t>(self->state.options.rank)), why);
          });
}

/// What an exchange is given: the gradient that was computed, or what the exchange before it has made of that.
part contribution(worker_state& my) {
  if (my.gradient) return *std::exchange(my.gradient, std::nullopt);
  TROUPE_ASSERT(my.answer && my.answer->what == slot::gradient, "an exchange of gradients follows a gradient");
  std::vector<at::Tensor> pieces;
  for (const auto& piece : my.answer->pieces) pieces.push_back(piece.values);
  part mean{.origin = my.answer->origin, .piece = {0, pieces.size() == 1 ? pieces.front() : at::cat(pieces)}};
  mean.total = mean.piece.values.numel();
  mean.sample_count = 1;  // the means of all members weigh the same
  my.answer.reset();
  return mean;
}

void exchange(worker_pointer self, std::uint32_t index) {
  auto& my = self->state;
  my.busy = true;
  part own = contribution(my);
  own.which = {index, 0};
  const auto who = own.origin;
  self->send(my.contacts.ports[index], part_atom_v, std::move(own));
  // The port keeps the deadline, and knows who is missing; ours only guards against a port that says nothing.
  self->request(my.contacts.ports[index], 2 * my.options.timeout, await_atom_v, who, key{index, 0})
      .then(
          [self, index](outcome& answer) {
            auto& my = self->state;
            my.busy = false;
            my.payload_bytes[index] = answer.payload_bytes;
            my.answer = std::move(answer);
            my.word += 1;
            TROUPE_ASSERT(my.word < my.options.loop.size(), "what an exchange answers is applied");
            walk(self);
          },
          [self](const caf::error& why) { lose(self, "its exchange", why); });
}

/// Takes the next word of the loop, if nothing is under way and a step may be begun.
void walk(worker_pointer self) {
  auto& my = self->state;
  if (my.busy || (my.word == 0 && my.completed >= my.granted)) return;
  const auto& word = my.options.loop[my.word];
  if (const auto* index = std::get_if<std::uint32_t>(&word))
    exchange(self, *index);
  else
    compute(self);
}

worker_actor::behavior_type worker(worker_pointer self, worker_options options, worker_contacts contacts) {
  report_exceptions(self);
  TROUPE_ASSERT(!options.loop.empty() && std::holds_alternative<verb>(options.loop.front()),
                "a loop begins with a verb");
  auto& my = self->state;
  my.now = options.initial;
  my.last = options.when.steps;
  my.options = std::move(options);
  my.payload_bytes.resize(contacts.ports.size());
  my.contacts = std::move(contacts);
  return {
      [self](proceed_atom, std::uint64_t until) {
        auto& my = self->state;
        if (my.halted || until < my.granted) return;
        my.granted = until;
        report(self);
        walk(self);
      },
      [self](halt_atom) -> caf::result<std::uint64_t> {
        auto& my = self->state;
        my.halted = true;
        my.granted = my.begun;
        const auto in_local_steps = my.busy && my.contacts.ports.empty();
        if (!in_local_steps) return my.begun;
        self->send(my.contacts.compute, cancel_atom_v);
        my.halt_promise = self->make_response_promise<std::uint64_t>();
        return my.halt_promise;
      },
      [self](finish_atom, std::uint64_t step) {
        auto& my = self->state;
        if (step < my.begun) throw std::logic_error("told to finish at a step before one that has begun");
        my.halted = true;
        my.granted = my.last = step;
        report(self);
        walk(self);
      },
  };
}

}  // namespace

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts) {
  return system.spawn(worker, std::move(options), std::move(contacts));
}

}  // namespace troupe

#include "troupe/actors/worker.hpp"

#include "troupe/actors/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Interval of a worker's progress reports: often enough for a person.
constexpr std::chrono::milliseconds between_glances{100};

/// An exchange under way.
struct conversation {
  std::size_t word{0};  ///< Of the loop.
  std::optional<outcome> answer;
};

struct worker_state {
  static inline const char* name = "worker";
  worker_options options;
  worker_contacts contacts;

  snapshot now;                  ///< WORKER-1: x, frozen; stamped with the steps it has made, be they completed or not.
  std::optional<part> gradient;  ///< g, where it is still to be applied.
  std::vector<outcome> answers;  ///< What exchanges have answered and compute has still to take in.
  std::size_t word{0};           ///< Position in the loop.
  bool in_step{false};           ///< Beyond the loop's beginning: a step is under way.
  std::uint64_t completed{0};
  std::uint64_t begun{0};    ///< WORKER-2: steps that will be completed even if no further one is begun.
  std::uint64_t granted{0};  ///< WORKER-3: no step beyond it is begun.
  std::uint64_t last{0};     ///< The step the run ends at.
  bool computing{false};
  bool many_steps{false};  ///< Of `computing`: it covers several steps, of which a cancel may leave some out.
  std::optional<conversation> exchanging;
  bool x_on_host{true}, g_on_host{true};  ///< Where they are, if compute has a device of its own.
  bool departed{false};                   ///< The contribution to the next exchange has left, bucket by bucket.
  bool halted{false};
  std::optional<std::uint64_t> reported;  ///< Step of the last milestone.
  std::optional<std::uint64_t> shown;     ///< Step of the last snapshot shown.
  std::optional<snapshot> contributed;    ///< Parameters given to the last exchange since then.
  std::deque<assignment> assigned;        ///< Those that are not complete.
  std::vector<std::uint64_t> to_show;     ///< Steps of the snapshots that the coordinator has asked for.
  caf::actor_clock::time_point last_glance;
  double loss_sum{0}, data_wait{0}, busy{0};
  std::int64_t sample_count{0}, correct{0}, classified{0};
  std::vector<std::uint64_t> payload_bytes;  ///< By place of the exchange; the last are those of synchronised norms.
  caf::typed_response_promise<std::uint64_t> halt_promise;
};

using worker_pointer = worker_actor::stateful_pointer<worker_state>;

void walk(worker_pointer self);

void lose(worker_pointer self, const std::string& whom, const caf::error& why) {
  const auto silent = why == caf::sec::request_timeout;
  const auto timeout = std::to_string(self->state.options.timeout.count());
  const auto step = std::to_string(self->state.completed + 1);
  self->quit(make_error(errc::peer_lost, silent ? whom + " did not complete step " + step + " within " + timeout +
                                                      " ms (run.timeout); set a larger run.timeout"
                                                : whom + ": " + describe(why)));
}

/// Returns whether the worker reports a milestone after `completed` steps.
bool is_milestone(const worker_state& my, std::uint64_t completed) {
  if (completed == my.last) return true;
  if (!my.options.draws_from_queue) return my.options.when.milestone_at(completed);
  return !my.assigned.empty() && my.assigned.front().end() == completed;
}

/// Returns the first milestone after `completed`, as far as it is known.
std::uint64_t next_milestone(const worker_state& my, std::uint64_t completed) {
  if (!my.options.draws_from_queue) return my.options.when.next_milestone(completed);
  return my.assigned.empty() ? completed : my.assigned.front().end();
}

/// Returns whether the coordinator needs this worker's parameters after `completed` steps.
bool shown_at(const worker_state& my, std::uint64_t completed) {
  if (!my.contacts.results) return false;
  if (my.options.draws_from_queue) return !my.to_show.empty();
  return completed == my.last || my.options.when.evaluated_at(completed);
}

bool must_show(const worker_state& my) {
  return shown_at(my, my.completed) && (my.options.draws_from_queue || my.shown != my.completed);
}

/// Sends the parameters, once for each requested step.
void show(worker_pointer self) {
  auto& my = self->state;
  my.shown = my.completed;
  if (my.contributed) {
    my.contributed->origin.step = my.completed;
    self->send(my.contacts.results, result_atom_v, *std::exchange(my.contributed, std::nullopt));
  }
  auto replica = my.now;
  if (!my.options.draws_from_queue) return self->send(my.contacts.results, result_atom_v, replica);
  for (const auto step : std::exchange(my.to_show, {})) {
    replica.origin.step = step;
    self->send(my.contacts.results, result_atom_v, replica);
  }
}

/// Tells the coordinator what it asked to hear of, once for each step, and shows what will be evaluated or saved.
void report(worker_pointer self) {
  auto& my = self->state;
  if (is_milestone(my, my.completed) && my.reported != my.completed) {
    my.reported = my.completed;
    while (!my.assigned.empty() && my.assigned.front().end() <= my.completed) my.assigned.pop_front();
    std::uint64_t bytes = 0;
    for (const auto of_one : my.payload_bytes) bytes += of_one;
    self->send(my.contacts.coordinator, reached_atom_v,
               milestone{my.options.rank, my.completed, my.loss_sum, my.sample_count, my.correct, my.classified, bytes,
                         my.data_wait, my.busy});
    my.loss_sum = my.data_wait = my.busy = 0;
    my.sample_count = my.correct = my.classified = 0;
  }
  if (must_show(my)) show(self);
}

void glance(worker_pointer self) {
  auto& my = self->state;
  const auto now = self->clock().now();
  if (now - my.last_glance < between_glances) return;
  my.last_glance = now;
  self->send(my.contacts.recorder, progress_atom_v, my.options.rank, my.completed);
}

// Local work. ------------------------------------------------------------------------------------------------------

const exchange_word* due_at(const loop_word& word, std::uint64_t stamp) {
  const auto* exchange = std::get_if<exchange_word>(&word);
  return exchange && exchange->when.due(stamp) ? exchange : nullptr;
}

/// Finds an exchange that needs no more than what the gradient at `word` needs too, x: both can be under way at once.
/// Returns the size of the loop where there is none.
std::size_t beside(const std::vector<loop_word>& loop, std::size_t word, std::uint64_t stamp) {
  if (const auto* local = std::get_if<verb>(&loop[word]); !local || *local != verb::gradient) return loop.size();
  for (++word; word < loop.size() && !std::holds_alternative<verb>(loop[word]); ++word)
    if (const auto* exchange = due_at(loop[word], stamp))
      return exchange->sends == slot::parameters && !exchange->gradient_first ? word : loop.size();
  return loop.size();
}

/// The first step from `completed` on in which an exchange is due, counted like `completed`.
std::uint64_t local_until(const std::vector<loop_word>& loop, std::uint64_t completed) {
  auto until = ~std::uint64_t{0};
  for (const auto& word : loop)
    if (const auto* exchange = std::get_if<exchange_word>(&word))
      until = std::min(until, exchange->when.next_due(completed + exchange->when.lead) - exchange->when.lead);
  return until;
}

/// What one request to compute covers.
struct stretch {
  advance request{};
  std::size_t word_after{0};  ///< Where the loop stands then.
  std::uint64_t steps{0};     ///< Completed by it.
  std::uint64_t begins{0};    ///< Begun by it, besides the one under way.
};

/// Whole steps without an exchange, from the one under way on.
std::optional<stretch> local_steps(const worker_state& my) {
  if (my.word != 0) return std::nullopt;
  const auto until =
      std::min({my.granted, next_milestone(my, my.completed), local_until(my.options.loop, my.completed)});
  if (until <= my.completed) return std::nullopt;
  stretch result{.request = {.from = my.now, .gradient = my.gradient, .with = my.answers}};
  for (const auto& word : my.options.loop)
    if (const auto* local = std::get_if<verb>(&word)) result.request.verbs.push_back(*local);
  result.steps = std::min<std::uint64_t>(until - my.completed, my.options.steps_at_once);
  result.begins = result.steps - 1;
  result.request.times = static_cast<std::uint32_t>(result.steps);
  return result;
}

/// Local verbs from here to the next exchange. It runs over the end of the loop into the next step, so that `apply` and
/// the next `gradient` share a message, unless something is due between them.
stretch next_stretch(const worker_state& my) {
  if (auto whole = local_steps(my)) return std::move(*whole);
  stretch result{.request = {.from = my.now, .gradient = my.gradient, .with = my.answers}, .word_after = my.word};
  const auto& loop = my.options.loop;
  auto stamp = my.now.origin.step;
  for (;;) {
    const auto& word = loop[result.word_after];
    if (due_at(word, stamp)) return result;
    const auto* local = std::get_if<verb>(&word);
    if (local) {
      const auto first = result.request.verbs.empty();  // then what can leave beside it has left
      if (!first && beside(loop, result.word_after, stamp) < loop.size()) return result;
      result.request.verbs.push_back(*local);
      if (*local == verb::apply) stamp += 1;
    }
    if (result.word_after == 0 && result.steps > 0) result.begins += 1;
    result.word_after = (result.word_after + 1) % loop.size();
    if (result.word_after != 0) continue;
    result.steps += 1;
    const auto completed = my.completed + result.steps;
    if (completed >= my.granted || is_milestone(my, completed)) return result;
    if (local_until(loop, completed) > completed) return result;  // whole steps follow: local_steps()
  }
}

/// Where the gradient at the end of a stretch goes while it is computed: nowhere unless the exchange that takes it is
/// next.
departure departure_of(const worker_state& my, const stretch& ahead) {
  const auto& verbs = ahead.request.verbs;
  if (verbs.empty() || verbs.back() != verb::gradient) return {};
  const auto* exchange = std::get_if<exchange_word>(&my.options.loop[ahead.word_after]);
  if (!exchange || exchange->sends != slot::gradient || !exchange->buckets) return {};
  return {exchange->place, exchange->buckets, exchange->on_device};
}

/// Predicts what will leave the worker after `ahead`, so that nothing else has to be copied from the device. settle()
/// corrects a wrong guess.
void expect(const worker_state& my, stretch& ahead) {
  const auto& loop = my.options.loop;
  const auto completed = my.completed + ahead.steps;
  const auto shown = shown_at(my, completed);
  auto stamp = my.now.origin.step;
  for (const auto verb : ahead.request.verbs) stamp += verb == verb::apply ? ahead.request.times : 0;
  const auto after = ahead.word_after;
  const auto leaving = std::holds_alternative<exchange_word>(loop[after]) ? after : beside(loop, after, stamp);
  const auto* exchange = leaving < loop.size() ? due_at(loop[leaving], stamp) : nullptr;
  const auto sends = [&](slot what) { return exchange && !exchange->on_device && exchange->sends == what; };
  ahead.request.host_parameters = shown || sends(slot::parameters);
  ahead.request.host_gradient = sends(slot::gradient) && !ahead.request.leaving.buckets;
}

void compute(worker_pointer self, stretch ahead) {
  auto& my = self->state;
  ahead.request.leaving = departure_of(my, ahead);
  ahead.request.assigned = {my.assigned.begin(), my.assigned.end()};
  ahead.request.loss_sum = my.loss_sum;
  if (!ahead.request.verbs.empty()) expect(my, ahead);
  my.departed = ahead.request.leaving.buckets != nullptr;
  const auto port = my.departed ? my.contacts.ports[ahead.request.leaving.place] : port_actor{};
  my.answers.clear();
  my.gradient.reset();
  my.computing = true;
  my.begun += ahead.begins;
  my.many_steps = ahead.request.times > 1;
  constexpr std::uint32_t most_patience = 100'000;  // a sum that fits a clock
  const auto patience = std::min(ahead.request.times, most_patience) * (my.options.synchronised_norms ? 2 : 1);
  self->request(my.contacts.compute, my.options.timeout * patience, advance_atom_v, std::move(ahead.request),
                caf::actor_cast<caf::strong_actor_ptr>(port))
      .then(
          [self, word = ahead.word_after, steps = ahead.steps, begins = ahead.begins](advanced& done) {
            auto& my = self->state;
            my.computing = false;
            my.word = word;
            my.now = std::move(done.now);
            my.gradient = std::move(done.gradient);
            my.x_on_host = done.host_parameters;
            my.g_on_host = done.host_gradient;
            my.loss_sum = done.loss_sum;
            my.data_wait += done.data_wait;
            my.busy += done.busy;
            my.sample_count += done.sample_count;
            my.correct += done.correct;
            my.classified += done.classified;
            my.payload_bytes.back() = done.payload_bytes;
            my.completed = my.many_steps ? my.now.origin.step : my.completed + steps;
            if (my.many_steps) my.begun = my.completed;
            my.in_step = !my.many_steps && my.in_step && begins + 1 > steps;
            if (my.halt_promise.pending()) {
              my.granted = my.begun;
              my.halt_promise.deliver(my.begun);
            }
            if (steps > 0) glance(self);
            walk(self);
          },
          [self](const caf::error& why) {
            lose(self, "compute " + std::to_string(static_cast<std::uint32_t>(self->state.options.rank)), why);
          });
}

/// Has compute take in what exchanges have answered, so that x and g are whole, and bring them to the host.
void settle(worker_pointer self) {
  const auto& my = self->state;
  compute(self, {.request = {.from = my.now, .gradient = my.gradient, .with = my.answers}, .word_after = my.word});
}

// Exchanges. -------------------------------------------------------------------------------------------------------

/// Whether what the exchange takes is where it is taken from.
bool within_reach(const worker_state& my, const exchange_word& exchange) {
  if (exchange.on_device || my.departed) return true;
  return exchange.sends == slot::gradient ? my.g_on_host : my.x_on_host;
}

/// What the exchange is given: the gradient as it is by now, or the parameters.
part contribution(worker_state& my, const exchange_word& exchange) {
  if (exchange.sends == slot::gradient) {
    TROUPE_ASSERT(my.gradient, "an exchange of gradients must follow a gradient");
    auto own = *my.gradient;
    if (exchange.answers == slot::parameters) my.gradient.reset();  // it is applied there
    return own;
  }
  return {.origin = my.now.origin,
          .what = slot::parameters,
          .piece = {0, my.now.values.narrow(0, 0, exchange.elements), my.now.ready},
          .total = exchange.elements,
          .sample_count = 1};
}

void begin_exchange(worker_pointer self, std::size_t word) {
  auto& my = self->state;
  const auto& exchange = std::get<exchange_word>(my.options.loop[word]);
  const auto& port = my.contacts.ports[exchange.place];
  part own = contribution(my, exchange);
  if (my.options.shows_contributions && exchange.sends == slot::parameters && my.x_on_host) {
    my.contributed = my.now;
    my.contributed->before_exchange = true;
  }
  own.which = {exchange.place, 0};
  const auto who = own.origin;
  my.exchanging = conversation{.word = word, .answer = {}};
  if (!std::exchange(my.departed, false)) self->send(port, part_atom_v, std::move(own));
  // The port enforces the deadline and knows which ranks are missing; this timeout only guards against a port that does
  // not answer.
  self->request(port, 2 * my.options.timeout, await_atom_v, who, key{exchange.place, 0})
      .then(
          [self](outcome& answer) {
            self->state.exchanging->answer = std::move(answer);
            walk(self);
          },
          [self](const caf::error& why) { lose(self, "exchange", why); });
}

/// Keeps the answer for compute, which alone knows what it does to x or g.
void take_in(worker_state& my, const exchange_word& exchange, outcome answer) {
  my.payload_bytes[exchange.place] = answer.payload_bytes;
  if (exchange.sends == slot::gradient && answer.what != slot::gradient) {  // the exchange has made the step
    my.now.origin.step += 1;
    my.now.origin.version += 1;
  }
  my.answers.push_back(std::move(answer));
}

/// Completes the element of the loop, and with the last one the step.
void pass(worker_pointer self) {
  auto& my = self->state;
  my.word = (my.word + 1) % my.options.loop.size();
  if (my.word != 0) return;
  my.in_step = false;
  my.completed += 1;
  glance(self);
}

/// Goes through the loop as far as it can go without waiting. It begins a step only where one is granted, and reports
/// between two steps.
void walk(worker_pointer self) {
  auto& my = self->state;
  const auto& loop = my.options.loop;
  while (!my.computing) {
    if (!my.in_step) {
      if (must_show(my) && (!my.answers.empty() || !my.x_on_host)) return settle(self);
      report(self);
      if (my.completed >= my.granted) return;
      my.in_step = true;
      my.begun += 1;
    }
    const auto stamp = my.now.origin.step;
    const auto* exchange = std::get_if<exchange_word>(&loop[my.word]);
    const auto leaving = exchange ? my.word : beside(loop, my.word, stamp);
    const auto due = leaving < loop.size() && std::get<exchange_word>(loop[leaving]).when.due(stamp);
    if (due && !my.exchanging) {
      if (!my.answers.empty() || !within_reach(my, std::get<exchange_word>(loop[leaving]))) return settle(self);
      begin_exchange(self, leaving);
    }
    if (!exchange) return compute(self, next_stretch(my));
    if (due) {
      if (!my.exchanging->answer) return;
      take_in(my, *exchange, std::move(*std::exchange(my.exchanging, std::nullopt)->answer));
    }
    pass(self);
  }
}

worker_actor::behavior_type worker(worker_pointer self, worker_options options, worker_contacts contacts) {
  report_exceptions(self);
  TROUPE_ASSERT(!options.loop.empty(), "a loop must not be empty");
  auto& my = self->state;
  my.now = options.initial;
  my.last = options.draws_from_queue ? std::numeric_limits<std::uint64_t>::max() : options.when.steps;
  my.options = std::move(options);
  my.payload_bytes.resize(contacts.ports.size() + 1);
  my.contacts = std::move(contacts);
  return {
      [self](proceed_atom, std::uint64_t until) {
        auto& my = self->state;
        if (my.halted || until < my.granted) return;
        my.granted = until;
        walk(self);
      },
      [self](assign_atom, const assignment& more) {
        auto& my = self->state;
        if (my.halted) return;
        if (!my.options.draws_from_queue || more.first_step != my.granted)
          throw std::logic_error("received an assignment that does not follow the one before it");
        my.assigned.push_back(more);
        my.granted = more.end();
        walk(self);
      },
      [self](halt_atom) -> caf::result<std::uint64_t> {
        auto& my = self->state;
        my.halted = true;
        my.granted = my.begun;
        if (!my.computing || !my.many_steps) return my.begun;
        self->send(my.contacts.compute, cancel_atom_v);
        my.halt_promise = self->make_response_promise<std::uint64_t>();
        return my.halt_promise;
      },
      [self](finish_atom, std::uint64_t step) {
        auto& my = self->state;
        if (step < my.begun) throw std::logic_error("received a final step that precedes a step already begun");
        my.halted = true;
        my.granted = my.last = step;
        walk(self);
      },
      [self](show_atom, std::uint64_t step) {
        if (!self->state.contacts.results) return;
        self->state.to_show.push_back(step);
        walk(self);
      },
  };
}

}  // namespace

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts) {
  return system.spawn(worker, std::move(options), std::move(contacts));
}

}  // namespace troupe

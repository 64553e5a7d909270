#include "troupe/actors/worker.hpp"

#include "troupe/actors/support/assert.hpp"
#include "troupe/actors/worker_progress.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Interval between progress reports: short enough for a display.
constexpr std::chrono::milliseconds progress_interval{100};

/// An exchange under way.
struct open_exchange {
  std::size_t word{0};  ///< Its index in the loop.
  std::optional<outcome> answer;
};

struct worker_state : worker_progress {
  static inline const char* name = "worker";
  worker_options options;
  worker_contacts contacts;

  std::vector<outcome> answers;  ///< Answers of exchanges that compute still has to apply to x or g.
  std::size_t word{0};           ///< Position in the loop.
  bool in_step{false};           ///< A step has been started and is not completed.
  std::uint64_t begun{0};        ///< WORKER-2: steps that will be completed even if no further one is started.
  std::uint64_t granted{0};      ///< WORKER-3: no step beyond this many is started.
  bool computing{false};         ///< Waiting for compute.
  bool many_steps{false};        ///< The request to compute covers several steps; after a cancel it may make fewer.
  std::optional<open_exchange> exchanging;
  bool x_on_host{true}, g_on_host{true};  ///< Whether x and g are in host memory, if compute has a device of its own.
  bool departed{false};                   ///< The contribution to the next exchange has already left, bucket by bucket.
  bool halted{false};
  std::uint64_t verified{0};             ///< The last step whose parameters were compared with other workers'.
  std::optional<std::uint64_t> arrived;  ///< Step of the last checkpoint at which it has reported to wait.
  std::optional<std::uint64_t> wanted;   ///< Number of the request for its state that is to be answered.
  std::vector<std::uint64_t> to_show;    ///< Steps for which the coordinator has asked for a snapshot.
  caf::actor_clock::time_point last_progress;
  caf::typed_response_promise<std::uint64_t> halt_promise;

  rules::loop_position position() const { return {word, completed, now.origin.step}; }
  rules::loop_limits limits() const { return {granted, options.steps_at_once}; }
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

void lose_compute(worker_pointer self, const caf::error& why) {
  lose(self, "compute " + std::to_string(static_cast<std::uint32_t>(self->state.options.rank)), why);
}

/// Returns whether the coordinator needs this worker's parameters after `completed` steps.
bool shown_at(const worker_state& my, std::uint64_t completed) {
  if (!my.contacts.results) return false;
  if (my.options.draws_from_queue) return !my.to_show.empty();
  return completed == my.reports.last || my.options.when.evaluated_at(completed);
}

bool must_show(const worker_state& my) {
  return shown_at(my, my.completed) && (my.options.draws_from_queue || my.shown != my.completed);
}

bool must_verify(const worker_state& my) {
  return my.options.when.verified_at(my.completed) && my.verified != my.completed;
}

/// Sends digests of the parameters to the coordinator. They arrive before the milestone of the step, so no run ends
/// with replicas that were not compared.
void verify(worker_pointer self) {
  auto& my = self->state;
  my.verified = my.completed;
  my.computing = true;
  self->request(my.contacts.compute, my.options.timeout, verify_atom_v, my.now)
      .then(
          [self](const digest_list& digests) {
            auto& my = self->state;
            my.computing = false;
            self->send(my.contacts.coordinator, verify_atom_v, my.options.rank, my.completed, digests);
            walk(self);
          },
          [self](const caf::error& why) { lose_compute(self, why); });
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

/// Reports a milestone to the coordinator, once for each step, and sends the parameters that will be evaluated or
/// saved.
void report(worker_pointer self) {
  auto& my = self->state;
  if (my.reports.is_milestone(my.completed) && my.reported != my.completed) {
    my.reported = my.completed;
    auto& assigned = my.reports.assigned;
    while (!assigned.empty() && assigned.front().end() <= my.completed) assigned.pop_front();
    auto reached = std::exchange(my.tally, {});
    reached.rank = my.options.rank;
    reached.step = my.completed;
    reached.bytes_sent = std::accumulate(my.payload_bytes.begin(), my.payload_bytes.end(), std::uint64_t{0});
    self->send(my.contacts.coordinator, reached_atom_v, reached);
  }
  if (must_show(my)) show(self);
  if (my.options.draws_from_queue || my.arrived == my.completed) return;  // a queue is seen to be empty without this
  if (!my.options.when.checkpoint_at(my.completed)) return;
  my.arrived = my.completed;
  self->send(my.contacts.coordinator, checkpoint_atom_v, my.options.rank, my.completed);
}

void report_progress(worker_pointer self) {
  auto& my = self->state;
  const auto now = self->clock().now();
  if (now - my.last_progress < progress_interval) return;
  my.last_progress = now;
  self->send(my.contacts.recorder, progress_atom_v, my.options.rank, my.completed);
}

// Local work. ------------------------------------------------------------------------------------------------------

/// Turns `work` into a request to compute, which also applies the answers of exchanges that have arrived.
advance request_of(worker_state& my, const rules::local_work& work) {
  const auto& loop = my.options.loop;
  advance request{.verbs = work.verbs,
                  .times = work.times,
                  .from = my.now,
                  .gradient = std::exchange(my.gradient, std::nullopt),
                  .with = std::exchange(my.answers, {}),
                  .leaving = rules::gradient_destination(loop, work),
                  .assigned = {my.reports.assigned.begin(), my.reports.assigned.end()}};
  request.loss_sum = my.tally.loss_sum;
  if (work.verbs.empty()) return request;
  const auto needs = rules::needs_after(loop, work, my.now.origin.step, request.leaving.buckets != nullptr);
  const auto completed = my.completed + work.steps;
  request.host_parameters = needs.parameters || shown_at(my, completed) || my.options.when.verified_at(completed);
  request.host_gradient = needs.gradient;
  return request;
}

/// Adds what compute reports to the tallies of the next milestone.
void count(worker_state& my, const advanced& done) {
  my.tally.loss_sum = done.loss_sum;  // it continues the sum in the request
  my.tally.data_wait += done.data_wait;
  my.tally.busy += done.busy;
  my.tally.sample_count += done.sample_count;
  my.tally.correct += done.correct;
  my.tally.classified += done.classified;
  my.payload_bytes.back() = std::max(my.payload_bytes.back(), done.payload_bytes);  // 0 from a restored one
}

/// Continues after compute has done `work`, of which a cancel may have left out some steps.
void take_computed(worker_pointer self, const rules::local_work& work, advanced& done) {
  auto& my = self->state;
  my.computing = false;
  my.word = work.word_after;
  my.now = std::move(done.now);
  my.gradient = std::move(done.gradient);
  my.x_on_host = done.host_parameters;
  my.g_on_host = done.host_gradient;
  count(my, done);
  my.completed = my.many_steps ? my.now.origin.step : my.completed + work.steps;
  if (my.many_steps) my.begun = my.completed;
  my.in_step = !my.many_steps && my.in_step && work.begins + 1 > work.steps;
  if (my.halt_promise.pending()) {
    my.granted = my.begun;
    my.halt_promise.deliver(my.begun);
  }
  if (work.steps > 0) report_progress(self);
  walk(self);
}

void compute(worker_pointer self, const rules::local_work& work) {
  auto& my = self->state;
  auto request = request_of(my, work);
  my.departed = request.leaving.buckets != nullptr;
  const auto port = my.departed ? my.contacts.ports[request.leaving.place] : port_actor{};
  my.computing = true;
  my.begun += work.begins;
  my.many_steps = work.times > 1;
  constexpr std::uint32_t most_timeouts = 100'000;  // their sum must fit a clock
  const auto timeouts = std::min(work.times, most_timeouts) * (my.options.synchronised_norms ? 2 : 1);
  self->request(my.contacts.compute, my.options.timeout * timeouts, advance_atom_v, std::move(request),
                caf::actor_cast<caf::strong_actor_ptr>(port))
      .then([self, work](advanced& done) { take_computed(self, work, done); },
            [self](const caf::error& why) { lose_compute(self, why); });
}

/// Has compute apply the answers of exchanges, so that x and g are complete, and copy both to the host.
void settle(worker_pointer self) {
  compute(self, {.word_after = self->state.word});
}

// Checkpoints. ------------------------------------------------------------------------------------------------------

/// Calls `ask(actor, name)` for compute and each port; the name is that of its entries in the worker's state.
template <class Ask>
void for_each_part(worker_pointer self, Ask ask) {
  auto& my = self->state;
  ask(my.contacts.compute, std::string{"compute"});
  for (std::size_t place = 0; place < my.contacts.ports.size(); ++place)
    if (my.contacts.ports[place]) ask(my.contacts.ports[place], "port " + my.options.exchanges.at(place));
}

/// Sends the state of the worker, its compute actor and its ports to the coordinator.
void send_state(worker_pointer self) {
  struct collected {
    state_dict all;
    std::size_t open{0};
  };
  auto& my = self->state;
  const auto number = *std::exchange(my.wanted, std::nullopt);
  const auto made = std::make_shared<collected>(collected{my.state()});
  for_each_part(self, [&](const auto& actor, const std::string& name) {
    made->open += 1;
    self->request(actor, my.options.timeout, state_atom_v)
        .then(
            [self, made, name, number](const state_dict& one) {
              made->all.put_all(name, one);
              if (--made->open > 0) return;
              self->send(self->state.contacts.states, state_atom_v, self->state.options.rank, number, made->all);
            },
            [self, name](const caf::error& why) { lose(self, name, why); });
  });
}

/// Restores the worker, its compute actor and its ports.
void restore_all(worker_pointer self, const state_dict& from) {
  auto& my = self->state;
  my.restore(from, my.options.run);
  my.begun = my.granted = my.completed;
  const auto open = std::make_shared<std::size_t>(0);
  for_each_part(self, [&](const auto& actor, const std::string& name) {
    *open += 1;
    self->request(actor, my.options.timeout, restore_atom_v, from.all(name))
        .then(
            [self, open] {
              if (--*open > 0) return;
              const auto& my = self->state;
              self->send(my.contacts.recorder, progress_atom_v, my.options.rank, my.completed);
              self->send(my.contacts.coordinator, restore_atom_v, my.options.rank);
            },
            [self, name](const caf::error& why) { lose(self, name, why); });
  });
}

// Exchanges. -------------------------------------------------------------------------------------------------------

/// Returns whether the tensor that the exchange takes is on the host, if it has to be.
bool is_accessible(const worker_state& my, const exchange_word& exchange) {
  if (exchange.on_device || my.departed) return true;
  return exchange.sends == slot::gradient ? my.g_on_host : my.x_on_host;
}

/// Returns the worker's contribution to an exchange: the current gradient, or the parameters.
part contribution(worker_state& my, const exchange_word& exchange) {
  if (exchange.sends == slot::gradient) {
    TROUPE_ASSERT(my.gradient, "an exchange of gradients must follow a gradient");
    auto own = *my.gradient;
    if (exchange.answers == slot::parameters) my.gradient.reset();  // the exchange applies it
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
  my.exchanging = open_exchange{.word = word, .answer = {}};
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

/// Stores the answer for compute, which alone knows how it changes x or g.
void take_answer(worker_state& my, const exchange_word& exchange, outcome answer) {
  my.payload_bytes[exchange.place] = answer.payload_bytes;
  if (exchange.sends == slot::gradient && answer.what != slot::gradient) {  // the exchange has made the step
    my.now.origin.step += 1;
    my.now.origin.version += 1;
  }
  my.answers.push_back(std::move(answer));
}

/// Moves to the next element of the loop; after the last one, the step is completed.
void advance_word(worker_pointer self) {
  auto& my = self->state;
  my.word = (my.word + 1) % my.options.loop.size();
  if (my.word != 0) return;
  my.in_step = false;
  my.completed += 1;
  report_progress(self);
}

/// Executes the loop as far as possible without waiting. Starts only steps that are granted, and reports between steps.
void walk(worker_pointer self) {
  auto& my = self->state;
  const auto& loop = my.options.loop;
  while (!my.computing) {
    if (!my.in_step) {
      if ((must_show(my) || must_verify(my)) && (!my.answers.empty() || !my.x_on_host)) return settle(self);
      if (must_verify(my)) return verify(self);
      report(self);
      if (my.completed >= my.granted) {
        if (!my.wanted) return;
        if (!my.answers.empty() || !my.x_on_host || (my.gradient && !my.g_on_host)) return settle(self);
        return send_state(self);
      }
      my.in_step = true;
      my.begun += 1;
    }
    const auto stamp = my.now.origin.step;
    const auto* exchange = std::get_if<exchange_word>(&loop[my.word]);
    const auto leaving = exchange ? my.word : rules::concurrent_exchange(loop, my.word, stamp);
    const auto due = leaving < loop.size() && std::get<exchange_word>(loop[leaving]).when.due(stamp);
    if (due && !my.exchanging) {
      if (!my.answers.empty() || !is_accessible(my, std::get<exchange_word>(loop[leaving]))) return settle(self);
      begin_exchange(self, leaving);
    }
    if (!exchange) return compute(self, rules::next_work(loop, my.position(), my.limits(), my.reports));
    if (due) {
      if (!my.exchanging->answer) return;
      take_answer(my, *exchange, std::move(*std::exchange(my.exchanging, std::nullopt)->answer));
    }
    advance_word(self);
  }
}

worker_actor::behavior_type worker(worker_pointer self, worker_options options, worker_contacts contacts) {
  report_exceptions(self);
  TROUPE_ASSERT(!options.loop.empty(), "a loop must not be empty");
  auto& my = self->state;
  my.now = options.initial;
  my.reports = {.when = options.when,
                .last = options.draws_from_queue ? std::numeric_limits<std::uint64_t>::max() : options.when.steps,
                .draws_from_queue = options.draws_from_queue,
                .assigned = {}};
  my.options = std::move(options);
  my.payload_bytes.resize(contacts.ports.size() + 1);
  my.contacts = std::move(contacts);
  return {
      [self](proceed_atom, std::uint64_t until) {
        auto& my = self->state;
        if (until < my.granted) return;
        my.granted = until;
        walk(self);
      },
      [self](assign_atom, const assignment& more) {
        auto& my = self->state;
        if (my.halted) return;
        if (!my.options.draws_from_queue || more.first_step != my.granted)
          throw std::logic_error("received an assignment that does not follow the one before it");
        my.reports.assigned.push_back(more);
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
        my.granted = my.reports.last = step;
        walk(self);
      },
      [self](show_atom, std::uint64_t step) {
        if (!self->state.contacts.results) return;
        self->state.to_show.push_back(step);
        walk(self);
      },
      [self](state_atom, std::uint64_t number) {
        self->state.wanted = number;
        walk(self);
      },
      [self](restore_atom, const state_dict& from) { restore_all(self, from); },
  };
}

}  // namespace

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts) {
  return system.spawn(worker, std::move(options), std::move(contacts));
}

}  // namespace troupe

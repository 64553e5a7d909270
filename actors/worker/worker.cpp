#include "troupe/actors/worker/worker.hpp"

#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/actors/worker/worker_state.hpp"
#include "troupe/algorithms/support/assert.hpp"

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
  TROUPE_ASSERT(my.asked == compute_request::none, "WORKER-4: one request to compute at a time");
  my.verified = my.completed;
  my.asked = compute_request::digests;
  self->request(my.contacts.compute, my.options.timeout, verify_atom_v, my.now)
      .then(
          [self](const digest_list& digests) {
            auto& my = self->state;
            my.asked = compute_request::none;
            self->send(my.contacts.coordinator, control::verified{my.options.rank, my.completed, digests});
            walk(self);
          },
          [self](const caf::error& why) { lose_compute(self, why); });
}

/// Sends the parameters, once for each requested step. If parameters were exchanged since they were last sent, first
/// sends the parameters before the last exchange and, if they have changed since that exchange, those right after it.
void show(worker_pointer self) {
  auto& my = self->state;
  my.shown = my.completed;
  const auto send_of_mixing = [&](std::optional<snapshot> replica) {
    if (!replica) return;
    replica->origin.step = my.completed;
    self->send(my.contacts.results, result_atom_v, std::move(*replica));
  };
  const auto has_stepped_since = my.contributed && my.now.origin.step != my.contributed->origin.step;
  if (has_stepped_since) send_of_mixing(my.after_mixing());
  send_of_mixing(std::exchange(my.contributed, std::nullopt));
  my.mixed.reset();
  auto replica = my.now;
  if (my.options.draws_from_queue) replica.origin.version = my.completed;
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
    self->send(my.contacts.coordinator, reached);
  }
  if (must_show(my)) show(self);
  // Not needed with a queue, whose completed assignments the coordinator counts (work_queue::is_idle_at()).
  if (my.options.draws_from_queue || my.at_checkpoint == my.completed) return;
  if (!my.options.when.checkpoint_at(my.completed)) return;
  my.at_checkpoint = my.completed;
  self->send(my.contacts.coordinator, control::at_checkpoint{my.options.rank, my.completed});
}

void report_progress(worker_pointer self) {
  auto& my = self->state;
  if (my.options.on_step) my.options.on_step(my.completed);
  const auto now = self->clock().now();
  if (now - my.last_progress < progress_interval) return;
  my.last_progress = now;
  self->send(my.contacts.recorder, control::progress{my.options.rank, my.completed});
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

/// Adds what compute reports to the tallies of the next milestone. `seconds` is the time for which compute has worked.
/// It includes the delay of an emulated slow worker, and is virtual in a simulation, where compute measures nothing.
void count(worker_state& my, const advanced& done, double seconds) {
  my.tally.loss_sum = done.loss_sum;  // it continues the sum in the request
  my.tally.data_wait += done.data_wait;
  my.tally.busy += std::max(done.busy, seconds);
  my.tally.cpu += done.cpu;
  my.tally.loading_cpu += done.loading_cpu;
  my.tally.sample_count += done.sample_count;
  my.tally.correct += done.correct;
  my.tally.classified += done.classified;
  my.payload_bytes.back() = std::max(my.payload_bytes.back(), done.payload_bytes);  // it may be 0 after a restore
}

/// Answers a request to halt, if it can be answered now.
void answer_halt(worker_pointer self) {
  auto& my = self->state;
  if (my.halt != halt_request::owed || my.asked == compute_request::many_steps) return;
  if (my.options.gate && !my.options.gate->may_halt(my.begun)) return;
  my.granted = my.begun;
  my.halt = halt_request::settled;
  self->send(my.contacts.coordinator, control::halted{my.options.rank, my.begun});
}

/// Answers a request to hold, if it can be answered now.
void answer_hold(worker_pointer self) {
  auto& my = self->state;
  if (my.hold != hold_request::owed || my.asked == compute_request::many_steps) return;
  if (my.options.gate && !my.options.gate->may_hold(my.begun)) return;
  my.granted = my.begun;
  my.hold = hold_request::none;
  self->send(my.contacts.coordinator, control::held{my.options.rank, my.begun});
}

/// Tells the coordinator once that the worker has completed the steps of `stop_at`, and waits.
void report_stop(worker_pointer self) {
  auto& my = self->state;
  if (!my.stop || my.completed < *my.stop) return;
  my.stop.reset();
  self->send(my.contacts.recorder, control::progress{my.options.rank, my.completed});
  self->send(my.contacts.coordinator, control::stopped{my.options.rank, my.completed});
}

/// Starts no further step until the coordinator says so, and lets compute stop early.
void start_no_further(worker_pointer self) {
  auto& my = self->state;
  if (my.holds_requests()) return;
  my.granted = my.begun;
  if (my.asked == compute_request::many_steps) self->send(my.contacts.compute, cancel_atom_v);
}

/// Continues after compute has done `work`, except for the steps that a cancel may have left out.
void take_computed(worker_pointer self, const rules::local_work& work, advanced& done,
                   caf::actor_clock::time_point asked) {
  auto& my = self->state;
  const auto many_steps = std::exchange(my.asked, compute_request::none) == compute_request::many_steps;
  my.compute_due.reset();
  my.word = work.word_after;
  my.now = std::move(done.now);
  my.gradient = std::move(done.gradient);
  my.x_on_host = done.host_parameters;
  my.g_on_host = done.host_gradient;
  count(my, done, std::chrono::duration<double>(self->clock().now() - asked).count());
  my.completed = many_steps ? my.now.origin.step : my.completed + work.steps;
  if (many_steps) my.begun = my.completed;
  my.in_step = !many_steps && my.in_step && work.begins + 1 > work.steps;
  answer_halt(self);
  answer_hold(self);
  if (work.steps > 0) report_progress(self);
  walk(self);
}

void compute(worker_pointer self, const rules::local_work& work) {
  auto& my = self->state;
  auto request = request_of(my, work);
  my.sent_in_buckets = request.leaving.buckets != nullptr;
  const auto port = my.sent_in_buckets ? my.contacts.ports[request.leaving.place] : port_actor{};
  TROUPE_ASSERT(my.asked == compute_request::none, "WORKER-4: one request to compute at a time");
  my.asked = work.times > 1 ? compute_request::many_steps : compute_request::one_step;
  my.begun += work.begins;
  TROUPE_ASSERT(my.begun <= my.granted, "WORKER-3: no step is started that was not granted");
  constexpr std::uint32_t most_timeouts = 100'000;  // their sum must fit a clock
  const auto timeouts = std::min(work.times, most_timeouts) * (my.options.synchronised_norms ? 2 : 1);
  const auto since = self->clock().now();
  expect(self, my.compute_due, my.options.timeout * timeouts);
  self->request(my.contacts.compute, caf::infinite, advance_atom_v, std::move(request),
                caf::actor_cast<caf::strong_actor_ptr>(port))
      .then([self, work, since](advanced& done) { take_computed(self, work, done, since); },
            [self](const caf::error& why) { lose_compute(self, why); });
}

/// Makes compute apply the answers of exchanges, which completes x and g, and copy both to the host.
void settle(worker_pointer self) {
  compute(self, {.word_after = self->state.word});
}

// Exchanges. -------------------------------------------------------------------------------------------------------

/// Returns whether the exchange can access its input, which must be on the host unless the exchange is on the device.
bool is_accessible(const worker_state& my, const exchange_word& exchange) {
  if (exchange.on_device || my.sent_in_buckets) return true;
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
  if (my.options.shows_contributions && exchange.sends == slot::parameters) {
    my.contributed.reset();
    my.mixed.reset();
    if (!exchange.on_device && my.x_on_host) {
      my.contributed = my.now;
      my.contributed->taken = snapshot_time::before_mixing;
    }
  }
  own.which = {exchange.place, 0};
  const auto origin = own.origin;
  TROUPE_ASSERT(!my.exchanging, "WORKER-5: one exchange at a time");
  my.exchanging = open_exchange{.word = word, .answer = {}};
  if (!std::exchange(my.sent_in_buckets, false)) self->send(port, part_atom_v, std::move(own));
  // The port enforces its own deadline and reports which ranks are missing; this one only guards against a port that
  // does not answer.
  expect(self, my.exchange_due, 2 * my.options.timeout);
  self->request(port, caf::infinite, await_atom_v, origin, key{exchange.place, 0})
      .then(
          [self](outcome& answer) {
            auto& my = self->state;
            my.exchange_due.reset();
            my.exchanging->answer = std::move(answer);
            walk(self);
          },
          [self](const caf::error& why) { lose(self, "exchange", why); });
}

/// Returns whether no other exchange of the loop needs the worker in every step.
bool has_one_exchange(const worker_state& my) {
  const auto is_exchange = [](const loop_word& word) { return std::holds_alternative<exchange_word>(word); };
  return std::count_if(my.options.loop.begin(), my.options.loop.end(), is_exchange) == 1;
}

/// Stores the answer for compute, because only compute can apply it to x or g.
void take_answer(worker_state& my, const exchange_word& exchange, outcome answer) {
  my.payload_bytes[exchange.place] = answer.payload_bytes;
  if (exchange.sends == slot::gradient && answer.what != slot::gradient) {  // the exchange has made the step
    my.now.origin.step += 1;
    my.now.origin.version += 1;
    if (has_one_exchange(my)) my.continues_at = answer.version;
  }
  if (my.contributed && exchange.sends == slot::parameters) my.mixed = answer;
  my.answers.push_back(std::move(answer));
}

void complete_step(worker_pointer self) {
  auto& my = self->state;
  my.in_step = false;
  my.completed += 1;
  TROUPE_ASSERT(my.completed <= my.begun, "WORKER-2: a completed step was started");
  report_progress(self);
}

/// Moves to the next element of the loop; after the last one, the step is completed.
void advance_word(worker_pointer self) {
  auto& my = self->state;
  my.word = (my.word + 1) % my.options.loop.size();
  if (my.word == 0) complete_step(self);
}

/// Skips a step.
void skip_step(worker_pointer self) {
  auto& my = self->state;
  my.now.origin.step += 1;
  my.now.origin.version += 1;
  complete_step(self);
}

}  // namespace

void lose(worker_pointer self, const std::string& whom, const caf::error& why) {
  const auto silent = why == caf::sec::request_timeout;
  const auto timeout = std::to_string(self->state.options.timeout.count());
  const auto step = std::to_string(self->state.completed + 1);
  self->quit(make_error(errc::peer_lost, silent ? whom + " did not complete step " + step + " within " + timeout +
                                                      " ms (run.timeout); set a larger run.timeout"
                                                : whom + ": " + describe(why)));
}

void lose_compute(worker_pointer self, const caf::error& why) {
  lose(self, label_of_compute(static_cast<std::uint32_t>(self->state.options.rank)).name, why);
}

void walk(worker_pointer self) {
  auto& my = self->state;
  const auto& loop = my.options.loop;
  answer_halt(self);
  answer_hold(self);
  while (my.asked == compute_request::none) {
    if (!my.in_step) {
      if (my.options.gate)
        for (const auto step : my.options.gate->requests_due(my.completed)) my.to_show.push_back(step);
      if ((must_show(my) || must_verify(my)) && (!my.answers.empty() || !my.x_on_host)) return settle(self);
      if (must_verify(my)) return verify(self);
      report(self);
      report_stop(self);
      if (my.completed >= my.may_begin() || (my.options.gate && !my.options.gate->may_go_on(my.completed))) {
        if (!my.state_request) return note_standing(self);
        if (!my.answers.empty() || !my.x_on_host || (my.gradient && !my.g_on_host)) return settle(self);
        return send_state(self);
      }
      if (my.stands_since) report_standing(my, self->clock().now());
      my.in_step = true;
      my.begun += 1;
      TROUPE_ASSERT(my.begun <= my.granted, "WORKER-3: no step is started that was not granted");
      if (my.now.origin.step < my.continues_at) {
        skip_step(self);
        continue;
      }
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
      if (!my.exchanging->answer) return note_wait(self);
      count_wait(self);
      take_answer(my, *exchange, std::move(*std::exchange(my.exchanging, std::nullopt)->answer));
    }
    advance_word(self);
  }
}

namespace {

worker_actor::extend<caf::reacts_to<tick_atom>>::behavior_type worker(worker_pointer self, worker_options options,
                                                                      worker_contacts contacts) {
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
      [self](const control::proceed& until) {
        auto& my = self->state;
        if (until.steps < my.granted) return;
        my.granted = until.steps;
        walk(self);
      },
      [self](const control::assign& assigned) {
        auto& my = self->state;
        const auto& more = assigned.what;
        if (my.halt != halt_request::none) return;
        if (!my.options.draws_from_queue || more.first_step != my.granted || more.end() < more.first_step)
          throw std::logic_error("received an assignment that does not follow the one before it");
        my.reports.assigned.push_back(more);
        my.granted = more.end();
        walk(self);
      },
      [self](const control::halt&) {
        auto& my = self->state;
        my.halt = halt_request::owed;
        start_no_further(self);
        walk(self);
      },
      [self](const control::hold&) {
        self->state.hold = hold_request::owed;
        start_no_further(self);
        walk(self);
      },
      [self](const control::stop_at& at) {
        auto& my = self->state;
        my.granted = std::max(my.granted, at.steps);
        my.stop = at.steps;
        walk(self);
      },
      [self](const control::change_rate& change) {
        if (const auto& rates = self->state.options.rates) rates->set({change.from, change.lr});
      },
      [self](const control::finish& end) {
        auto& my = self->state;
        if (end.steps < my.begun) throw std::logic_error("received a final step that precedes a step already begun");
        my.halt = halt_request::settled;
        my.granted = my.reports.last = end.steps;
        walk(self);
      },
      [self](const control::show& asked) {
        if (!self->state.contacts.results) return;
        auto& my = self->state;
        if (my.holds_requests())
          my.options.gate->keep_request(asked.step);
        else
          my.to_show.push_back(asked.step);
        walk(self);
      },
      [self](const control::send_state& asked) {
        self->state.state_request = asked.number;
        walk(self);
      },
      [self](restore_atom, const state_dict& from) { restore_all(self, from); },
      [self](tick_atom) { watch(self); },
  };
}

}  // namespace

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts) {
  return system.spawn(worker, std::move(options), std::move(contacts));
}

}  // namespace troupe

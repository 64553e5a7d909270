// The messages between a run and its guests, and the interfaces of the actors that receive them.
#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// A number that travels as its bits. CAF's own format does not keep every double.
struct exact_number {
  std::uint64_t bits{0};  ///< The bits of the number.

  exact_number() = default;
  /// Holds this number.
  exact_number(double value) : bits(std::bit_cast<std::uint64_t>(value)) {}
  /// Returns the number.
  operator double() const { return std::bit_cast<double>(bits); }
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, exact_number& x) {
  return f(caf::meta::type_name("exact_number"), x.bits);
}

// Observing. -------------------------------------------------------------------------------------------------------

/// Asks for what has happened since. Answered at once if there is something new, otherwise as soon as there is.
struct news_after {
  std::uint64_t line{0};     ///< Number of the first line that is wanted; 0 for the whole history. See news::next.
  std::uint64_t version{0};  ///< news::version of the last answer; 0 at first.
};

/// What has happened in a run.
struct news {
  std::uint64_t next{0};               ///< What to ask for next: the number of the line after `lines`.
  std::uint64_t version{0};            ///< What to ask for next. It changes with each of the values below.
  std::uint64_t missed{0};             ///< Number of lines before `lines` that were wanted, but are no longer kept.
  std::vector<std::string> lines{};    ///< Lines of metrics.jsonl, without line breaks, in order.
  std::uint64_t step{0};               ///< Steps that every worker has completed.
  std::vector<std::uint64_t> steps{};  ///< Steps of each worker, by rank; empty if there are more than 64 workers.
  std::string waits{};                 ///< A sentence about which workers wait for which, or "".
  bool over{false};                    ///< Whether the run has ended and `lines` has its last line. Nothing follows.
};

/// Asks what the run is.
struct wiring_request {};

/// What a run is.
struct wiring {
  std::string topology;  ///< The topology file with all defaults, as in topology.toml of the results.
  /// The plan as one JSON object, as `troupe check --json` prints it; empty if it is too large for a message.
  std::string plan;
  std::string folder;  ///< The results folder.
};

/// Asks for the figures of the run.
struct figures_request {};

/// The figures of a run, as its dashboard shows them.
struct figures {
  std::string json;  ///< What a dashboard serves as /data.json; empty if it is too large for a message.
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, figures_request&) {
  return f(caf::meta::type_name("figures_request"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, figures& x) {
  return f(caf::meta::type_name("figures"), x.json);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, news_after& x) {
  return f(caf::meta::type_name("news_after"), x.line, x.version);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, news& x) {
  return f(caf::meta::type_name("news"), x.next, x.version, x.missed, x.lines, x.step, x.steps, x.waits, x.over);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, wiring_request&) {
  return f(caf::meta::type_name("wiring_request"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, wiring& x) {
  return f(caf::meta::type_name("wiring"), x.topology, x.plan, x.folder);
}

/// Observes a run.
using run_observer =
    caf::typed_actor<caf::replies_to<news_after>::with<news>, caf::replies_to<wiring_request>::with<wiring>,
                     caf::replies_to<figures_request>::with<figures>>;

// Steering. --------------------------------------------------------------------------------------------------------

/// Asks for the state of the run.
struct status_request {};

/// The state of a run.
struct run_status {
  std::string state{};     ///< waiting (for its nodes), training, paused, ending or ended.
  std::uint64_t step{0};   ///< Steps that every worker has completed.
  std::uint64_t steps{0};  ///< Steps of the whole run.
};

/// Stops all workers at the next step boundary that all of them can reach. Answered when they have stopped.
struct pause_run {};

/// Lets a paused run continue.
struct continue_run {};

/// Writes a checkpoint at the next step boundary that all workers can reach. Answered when it is taken.
struct checkpoint_run {};

/// Ends the run in good order, as a signal does.
struct halt_run {};

/// Sets the learning rate, optimizer.lr, from the first step on that is not under way and not before `step`. The
/// schedule of the run still applies to it.
struct set_learning_rate {
  exact_number lr{};      ///< The new value of optimizer.lr.
  std::uint64_t step{0};  ///< Completed steps; 0 for as soon as possible.
};

/// Answers a request to steer the run.
struct steered {
  std::string refusal{};  ///< Why nothing was done; empty if it was.
  std::uint64_t step{0};  ///< Completed steps of the run where it took effect.
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, status_request&) {
  return f(caf::meta::type_name("status_request"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_status& x) {
  return f(caf::meta::type_name("run_status"), x.state, x.step, x.steps);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, pause_run&) {
  return f(caf::meta::type_name("pause_run"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, continue_run&) {
  return f(caf::meta::type_name("continue_run"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, checkpoint_run&) {
  return f(caf::meta::type_name("checkpoint_run"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, halt_run&) {
  return f(caf::meta::type_name("halt_run"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, set_learning_rate& x) {
  return f(caf::meta::type_name("set_learning_rate"), x.lr, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, steered& x) {
  return f(caf::meta::type_name("steered"), x.refusal, x.step);
}

/// Steers a run. What was steered is written to metrics.jsonl (event `steered`) and to a recording.
using run_control =
    caf::typed_actor<caf::replies_to<status_request>::with<run_status>, caf::replies_to<pause_run>::with<steered>,
                     caf::replies_to<continue_run>::with<steered>, caf::replies_to<checkpoint_run>::with<steered>,
                     caf::replies_to<halt_run>::with<steered>, caf::replies_to<set_learning_rate>::with<steered>>;

// Both. ------------------------------------------------------------------------------------------------------------

/// The actor that a run offers to a guest.
using run_actor = run_observer::extend_with<run_control>;

namespace guests {

/// Makes a configuration know all messages above.
void add_messages(caf::actor_system_config& config);

/// Returns the names of the messages that a guest may send.
std::set<std::string> messages_of_guest();

}  // namespace guests

}  // namespace troupe

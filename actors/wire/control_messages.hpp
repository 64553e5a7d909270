// Messages between the coordinator, the workers and the recorder, apart from tensors. Each message is a value that
// names the worker that sends or receives it, so it has the same meaning on every node and is forwarded unchanged.
#pragma once

#include "troupe/actors/wire/fields.hpp"
#include "troupe/algorithms/messages/messages.hpp"

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <type_traits>
#include <variant>

namespace troupe::control {

/// A control message is a struct with its name and its fields.
template <class F, class Message>
requires requires {
  Message::name;
}
typename F::result_type inspect(F& f, Message& x) {
  return with_fields(x, [&f](auto&... fields) { return inspect_fields(f, Message::name, fields...); });
}

// From the coordinator to a worker. --------------------------------------------------------------------------------

/// Steps may be started as long as fewer than this many are completed.
struct proceed {
  static constexpr const char* name = "proceed";
  rank_id rank{};
  std::uint64_t steps{0};
};

/// Further steps may be started, with these batches. Replaces `proceed` if all workers draw from one queue. The worker
/// must send a milestone after the last of these steps.
struct assign {
  static constexpr const char* name = "assign";
  rank_id rank{};
  assignment what{};
};

/// No further step may be started. The worker answers `halted`.
struct halt {
  static constexpr const char* name = "halt";
  rank_id rank{};
};

/// The run ends after this many completed steps, and the worker must send a milestone there.
struct finish {
  static constexpr const char* name = "finish";
  rank_id rank{};
  std::uint64_t steps{0};
};

/// The worker must send its parameters as those of this step, as soon as no step is under way.
struct show {
  static constexpr const char* name = "show";
  rank_id rank{};
  std::uint64_t step{0};
};

/// The worker must send its state, including that of its compute actor and ports, once all granted steps are
/// completed; the number identifies the request.
struct send_state {
  static constexpr const char* name = "send_state";
  rank_id rank{};
  std::uint64_t number{0};
};

/// No further step may be started for now. The worker answers `held`.
struct hold {
  static constexpr const char* name = "hold";
  rank_id rank{};
};

/// Steps may be started as long as fewer than this many are completed; once that many are, the worker answers
/// `stopped`.
struct stop_at {
  static constexpr const char* name = "stop_at";
  rank_id rank{};
  std::uint64_t steps{0};
};

/// The learning rate is `lr`, before the schedule is applied, from the step after `from` completed ones on.
struct change_rate {
  static constexpr const char* name = "change_rate";
  rank_id rank{};
  std::uint64_t from{0};
  double lr{0};
};

// From a worker to the coordinator, besides `milestone`, which reports a step. -------------------------------------

/// The worker has completed a step of schedule::checkpoint_at() and waits there.
struct at_checkpoint {
  static constexpr const char* name = "at_checkpoint";
  rank_id rank{};
  std::uint64_t step{0};
};

/// The worker, its compute actor and its ports are restored.
struct restored {
  static constexpr const char* name = "restored";
  rank_id rank{};
};

/// Digests of the worker's parameters after a step of schedule::verified_at().
struct verified {
  static constexpr const char* name = "verified";
  rank_id rank{};
  std::uint64_t step{0};
  digest_list digests{};
};

/// Answers `halt`: the number of steps that will be completed, including those already started.
struct halted {
  static constexpr const char* name = "halted";
  rank_id rank{};
  std::uint64_t steps{0};
};

/// Answers `hold`: the number of steps that will be completed, including those already started.
struct held {
  static constexpr const char* name = "held";
  rank_id rank{};
  std::uint64_t steps{0};
};

/// Answers `stop_at`: the worker has completed these steps and waits.
struct stopped {
  static constexpr const char* name = "stopped";
  rank_id rank{};
  std::uint64_t steps{0};
};

// From a worker to the recorder. -----------------------------------------------------------------------------------

/// The worker has completed this many steps.
struct progress {
  static constexpr const char* name = "progress";
  rank_id rank{};
  std::uint64_t steps{0};
};

// Which actor handles which message. -------------------------------------------------------------------------------

template <class... Messages>
struct list {};

using to_worker = list<proceed, assign, halt, finish, show, send_state, hold, stop_at, change_rate>;
using to_coordinator = list<milestone, at_checkpoint, restored, verified, halted, held, stopped>;
using to_recorder = list<progress>;

template <class... First, class... Second>
list<First..., Second...> join(list<First...>, list<Second...>);

template <class First, class Second>
using joined = decltype(join(First{}, Second{}));

template <class... Messages>
std::variant<Messages...> any_of(list<Messages...>);

/// A variant of all messages of a list.
template <class List>
using variant_of = decltype(any_of(List{}));

template <class Message, class... All>
constexpr bool is_in(list<All...> /*all*/) {
  return (std::is_same_v<Message, All> || ...);
}

template <class... Messages>
caf::typed_actor<caf::reacts_to<Messages>...> handling(list<Messages...>);

/// The interface of an actor that handles each of these messages.
template <class List>
using handler_of = decltype(handling(List{}));

}  // namespace troupe::control

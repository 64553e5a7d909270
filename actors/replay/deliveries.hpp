// The order in which an actor took in the messages on which its result depends: `troupe run --record` records it, and
// `troupe replay` repeats it. All asynchronous input of a run enters through an intake: that of the servers whose
// result depends on the order of contributions, and that of the coordinator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// One message that an actor took in.
struct delivery {
  /// The numbers are part of the format of a recording.
  enum class kind : std::uint8_t {
    part = 1,     ///< Server: a part of a worker's contribution to `step`.
    result,       ///< Server: a request for its result after `step` steps. Coordinator: the answer of a server.
    state,        ///< Server: a request for its state. Coordinator: the state of a worker or server.
    acquisition,  ///< Shared memory: a worker, or the server that keeps the memory, locks it `step` times in a row.
    milestone,    ///< A worker has completed `step` steps.
    replica,      ///< A worker's parameters for `step`, after `at` completed steps.
    barrier,      ///< A worker waits for a checkpoint after `step` steps.
    digests,      ///< The digests of a worker's parameters after `step` steps.
    interrupt,    ///< A signal ends the run.
    time_limit,   ///< run.max_seconds ends the run.
    halted,       ///< A worker answers that it will complete `step` steps.
    assembled,    ///< A result is put together.
    evaluated,    ///< An evaluation is complete; `part` is 1 if it was cancelled.
    written,      ///< A checkpoint is written.
    order,        ///< A guest steers the run; `part` says how, `step` from when on, `at` has the bits of a number.
    held,         ///< A worker that was told to hold will complete `step` steps.
    stopped,      ///< A worker has stopped after `step` steps.
  };
  static constexpr auto last_kind = kind::stopped;
  kind what{kind::part};
  std::uint32_t from{0};  ///< Rank of the worker or index of the server that sent it; 0 if that is unambiguous.
  std::uint32_t part{0};
  std::uint64_t step{0};
  std::uint64_t at{0};     ///< Servers: the version afterwards. Coordinator: see the kinds.
  std::uint32_t taken{0};  ///< Digest of the values taken in, if there are any.
  std::uint32_t given{0};  ///< Digest of the values sent in return, if there are any.

  /// Returns whether `other` is the same message, regardless of its values. An evaluation that was cancelled when the
  /// run was recorded may be complete in the replay, which then ignores it.
  bool is(const delivery& other) const {
    return what == other.what && from == other.from && step == other.step &&
           (part == other.part || what == kind::evaluated) && (at == other.at || what != kind::replica);
  }
  bool operator==(const delivery&) const = default;
};

/// Returns text such as "the contribution of rank 2 to step 131", for errors. Steps are counted from 1 in it.
std::string describe(const delivery& one);

/// Returns a digest of the values: CRC-32C of all of them, or of at most 1,024 that are spread evenly.
std::uint32_t digest_of_values(const at::Tensor& values, bool all, std::uint32_t so_far = 0);

/// Thrown when a replay differs from the recorded run.
struct replay_difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Records the deliveries of one actor. Called by one thread at a time.
using delivery_log = std::function<void(const delivery&)>;

/// The recorded deliveries of one actor, and the position of a replay in them.
class delivery_script {
 public:
  explicit delivery_script(std::vector<delivery> recorded) : recorded_(std::move(recorded)) {}

  /// Returns the next delivery; null after the last one.
  const delivery* due() const { return next_ < recorded_.size() ? &recorded_[next_] : nullptr; }
  void advance() { ++next_; }

  /// Ends the recorded order: from now on, deliveries are taken as they arrive.
  void open() { open_ = true; }
  bool is_open() const { return open_; }

  const std::vector<delivery>& recorded() const { return recorded_; }

 private:
  std::vector<delivery> recorded_;
  std::size_t next_{0};
  bool open_{false};
};

/// Where an actor's deliveries are recorded to or repeated from; both are empty in an ordinary run.
struct delivery_order {
  delivery_log log{};
  std::shared_ptr<delivery_script> script{};
  std::function<bool()> is_ready{};  ///< Replay only: whether the actor may take in a delivery now; empty if always.
};

/// Takes in the deliveries of an actor.
class intake {
 public:
  /// Continues with a delivery; `recorded` is the same delivery in the recording if there is a replay.
  using continuation = std::function<void(const delivery& recorded)>;

  intake() = default;
  explicit intake(delivery_order how) : how_(std::move(how)) {}

  bool is_used() const { return how_.log || how_.script; }
  bool replays() const { return how_.script && !how_.script->is_open(); }

  /// Calls `then` when this delivery is due: immediately, except in a replay.
  void admit(const delivery& what, continuation then);

  /// Continues with the deliveries that are due now.
  void release();

  /// Records a delivery, or compares it with the recorded one. Throws replay_difference.
  void settle(const delivery& what, const delivery& recorded) const;

  /// Calls `then` when a delivery without values is due, after recording it if the run is recorded.
  void admit_and_settle(const delivery& what, continuation then);

 private:
  delivery_order how_;
  std::deque<std::pair<delivery, continuation>> held_;  ///< Replay only: deliveries that are not due yet.
  bool releasing_{false};
};

}  // namespace troupe

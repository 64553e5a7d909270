// A recording as a replay uses it.
#pragma once

#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/replay/lock_order.hpp"
#include "troupe/actors/worker/worker_gate.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::recording {

/// A request of the coordinator that a worker answered, after it had begun `at` steps.
struct recorded_request {
  enum class kind : std::uint8_t { show, halt, hold };
  kind what{kind::show};
  std::uint64_t at{0};
  std::uint64_t step{0};  ///< `show` only: the step for which the parameters were requested.
  bool operator==(const recorded_request&) const = default;
};

using recorded_requests = std::vector<recorded_request>;

/// The recorded deliveries of all actors. One thread uses it at a time.
class replay {
 public:
  /// `queued`: whether the workers draw from one queue, so that it matters when they showed their parameters.
  replay(const contents& recorded, bool queued);

  /// Returns the order that repeats the deliveries of an actor; it is empty if none were recorded.
  delivery_order order_of(std::uint32_t actor);

  /// Returns the order in which the lock of a shared memory was taken. `id` is that of the server of the memory.
  std::shared_ptr<lock_order> lock_order_of(std::uint32_t id);

  /// Returns a gate that lets a worker answer requests after the same numbers of steps as in the recorded run. Between
  /// steps, `may_go_on` returns whether the worker, which has completed this many, may begin another one; it may be
  /// empty.
  std::shared_ptr<worker_gate> gate_of(std::uint32_t rank, std::function<bool(std::uint64_t completed)> may_go_on);

  /// Returns the orders of guests that the coordinator received.
  const std::vector<delivery>& orders() const { return orders_; }

  /// Return how many signals and time limits the coordinator received.
  std::size_t interrupts() const { return interrupts_; }
  std::size_t time_limits() const { return time_limits_; }

  /// Lets workers and servers accept every message as it arrives from now on.
  void open();

  /// Returns what each actor waits for, such as "server 4 waits for the contribution of rank 1 to step 7", joined by
  /// "; ".
  std::string missing() const;

 private:
  std::map<std::uint32_t, std::shared_ptr<delivery_script>> scripts_, acquisitions_;  ///< By actor.
  std::map<std::uint32_t, std::shared_ptr<lock_order>> lock_orders_;
  std::map<std::uint32_t, std::shared_ptr<recorded_requests>> requests_;  ///< By rank.
  std::vector<delivery> orders_;
  std::size_t interrupts_{0}, time_limits_{0};
};

}  // namespace troupe::recording

// The place of an actor of another program in an exchange of the run (kind "remote"). The program takes it as a guest,
// and exchanges frames with the port of the stand-in: contributions and answers, states for checkpoints, and texts.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/algorithms/exchange/remote/remote.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::transport {
struct guest_arrival;
}

namespace troupe::guests {

struct answer;

/// Any thread may call its functions, except for take().
class seat final : public remote_actor, public std::enable_shared_from_this<seat> {
 public:
  /// Reports to the owner, on the thread of the links.
  struct listener {
    std::function<void()> taken{};  ///< A program has taken the seat.
    /// It has left, or sent what it must not: before begin(), or `during_run`. `why`: a clause.
    std::function<void(const std::string& why, bool during_run)> lost{};
  };

  /// Makes the seat of the exchange with this index.
  seat(const plan& plan, std::uint32_t place, models::buffer_pool pool);

  const std::string& actor() const { return actor_; }
  const std::string& exchange() const { return exchange_; }
  bool is_taken() const;

  // For the run: ------------------------------------------------------------------------------------------------------

  /// Returns whether the seat is already taken; the listener is then not told.
  bool listen(listener to);

  /// Keeps the seat for the program that has it. Returns false if none has.
  bool begin();

  /// Sets the port to which answers go.
  void deliver_to(const peer_port& stand_in);

  /// Sends a contribution to the program, if there is one.
  void send(const part& contribution) override;

  /// Asks the program for its state. `then` is called once with it, on the thread of the links: a tensor of bytes,
  /// empty if the program keeps none. It is never called if the program is lost.
  void ask_state(std::function<void(const at::Tensor&)> then);

  /// Gives the program the state from which it continues.
  void restore(const at::Tensor& state);

  /// Tells the program that the run is over, with this exit status, and disconnects it. The seat cannot be taken any
  /// more.
  void close(int status);

  // For the entrance: -------------------------------------------------------------------------------------------------

  /// Returns why no program can take the seat now, or "".
  std::string objection() const;

  /// Completes the answer to the greeting of the program.
  void describe(guests::answer& greeting) const;

  /// Seats a program that has greeted. `already` are the bytes that have arrived since, and `patience` is the time in
  /// which it must send a hello; otherwise, `refused` is called with the reason. Called on the thread of the links.
  void take(const std::shared_ptr<transport::guest_arrival>& guest, std::vector<std::byte> already,
            std::chrono::milliseconds patience, std::function<void(const std::string& why)> refused);

 private:
  struct program;
  using program_pointer = std::shared_ptr<program>;
  program_pointer occupant() const;
  void sit_down(const program_pointer& who);
  void hear(const program_pointer& who, transport::frame&& arrived, std::shared_ptr<const void> receipt);
  void hear_answer(transport::frame&& arrived, std::shared_ptr<const void> receipt);
  void hear_state(const program_pointer& who, const transport::state_piece& piece);
  void hear_text(const program_pointer& who, const at::Tensor& text);
  void take_state(const program_pointer& who, std::uint64_t number, const at::Tensor& state);
  void leave(const program_pointer& who, const std::string& why);

  std::string actor_, exchange_;
  std::uint32_t place_{0}, members_{0};
  rank_id stand_in_id_{};
  carriage carries_{};
  bool same_{true};
  transport::frame_limits limits_;
  models::buffer_pool pool_;

  mutable std::mutex mutex_;  ///< Protects everything below.
  listener listener_;
  peer_port stand_in_;
  program_pointer program_;  ///< Set from the greeting on, so that no second program is admitted meanwhile.
  bool begun_{false}, closed_{false};
};

/// Returns the seats of a plan, by exchange; null for exchanges without one.
std::vector<std::shared_ptr<seat>> seats_of(const plan& plan, models::buffer_pool pool);

}  // namespace troupe::guests

// The session of a guest: a small actor system with the actor that is offered to the guest, and the pump that connects
// the two. Only sources that use Asio include this header.
#pragma once

#include "troupe/net/basp/pump.hpp"
#include "troupe/runtime/guests/front.hpp"
#include "troupe/runtime/tcp/guest_arrival.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::guests {

struct guest_session_options {
  front_options front;
  basp::pump_limits limits{};
  /// Called once, on the thread of the session, if the guest leaves by itself. `why` is a clause about it.
  std::function<void(const std::string& why)> ended{};
};

class guest_session {
 public:
  /// Starts the thread of the session. `already` are bytes that have arrived after the greeting.
  guest_session(std::shared_ptr<transport::guest_arrival> guest, std::vector<std::byte> already,
                guest_session_options options);

  /// Disconnects the guest and joins the thread.
  ~guest_session();
  guest_session(const guest_session&) = delete;
  guest_session& operator=(const guest_session&) = delete;

  /// Begins to disconnect the guest. If it follows the run, it has a moment to hear of its end and leave by itself.
  void begin_closing();

  /// Returns whether the guest has left and the thread has nothing more to do.
  bool has_ended() const { return ended_; }

 private:
  void serve(const std::shared_ptr<transport::guest_arrival>& guest, std::vector<std::byte> already);

  guest_session_options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_{false}, left_{false};
  std::string why_;
  std::atomic<std::uint64_t> requests_{0};  ///< Requests for news.
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace troupe::guests

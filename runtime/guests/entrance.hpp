// The entrance of a run for guests: other programs that observe or steer it, or have a member of an exchange. A guest
// has identified itself before it comes here; it greets the run with a line, and is admitted or refused. An admitted
// guest gets an actor system of its own with nothing in it but the actor that is offered to it, so that it can reach
// neither the run nor another guest.
#pragma once

#include "troupe/runtime/guests/steering.hpp"
#include "troupe/runtime/seats/seat.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"
#include "troupe/runtime/telemetry/feed.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::guests {

struct entrance_options {
  std::string node;     ///< Name of this node, or "" if the run has no nodes.
  std::string version;  ///< Version of Troupe.
  /// Names that may attach. If it is empty, guests that know the secret may use any name, and certificates are refused.
  std::vector<std::string> allow{};
  std::shared_ptr<telemetry::feed> feed;
  wiring about{};
  std::vector<std::shared_ptr<seat>> seats{};  ///< Places of actors in exchanges; null entries are left out.
  std::uint64_t steps{0};                      ///< Steps of the whole run.
  std::function<void(const std::string&)> report = [](const auto&) {};  ///< Prints a line. Called from any thread.
  std::size_t most_guests{16};
  std::uint64_t bytes_per_second{256 << 10}, messages_per_second{100};  ///< What each guest may send.
  std::chrono::milliseconds silence{10'000};  ///< A guest that sends nothing for this long is gone.
  std::chrono::milliseconds patience{5'000};  ///< Time in which a guest must greet.
};

class entrance {
 public:
  explicit entrance(entrance_options options);

  /// Disconnects all guests. The end of the run waits a moment for those that have been told of it to leave.
  ~entrance();
  entrance(const entrance&) = delete;
  entrance& operator=(const entrance&) = delete;

  /// Takes a guest; see tcp_options::guests. May also be called after close(): the guest is then refused.
  void take(const std::shared_ptr<transport::guest_arrival>& guest);

  /// Lets guests steer the run from now on.
  void connect(steering run);

  /// Refuses guests from now on, and disconnects the others. Must be called before the thread that calls take() ends.
  void close();

 private:
  class hall;
  std::shared_ptr<hall> hall_;
};

}  // namespace troupe::guests

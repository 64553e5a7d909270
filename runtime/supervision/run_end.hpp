// How a run ended, and which actor caused a failure.
#pragma once

#include "troupe/actors/wire/error.hpp"
#include "troupe/runtime/emulation/usage.hpp"

#include <caf/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The outcome of a run.
struct run_end {
  std::optional<std::string> failure{};        ///< "worker 2: …": the actor that failed first, and why.
  std::optional<std::string> refusal{};        ///< Why this node cannot take part in the run; nothing was started.
  int signal{0};                               ///< The signal that interrupted the run, or 0.
  bool begun{false};                           ///< Whether training began; on other nodes, whether all were linked.
  std::uint64_t events{0};                     ///< Simulations only: the number of messages that were handled.
  std::vector<std::string> not_injected{};     ///< Simulations only: the faults for which the run ended too early.
  std::vector<emulation::wire_usage> links{};  ///< What the emulated network has carried on this node.
  /// Lanes that had not returned when the node stopped waiting for them. Their threads still run: the process must end
  /// by std::_Exit().
  std::vector<std::string> stuck{};
  /// Returns the exit status: 0 success, 1 failed, 2 refused, 128 + signal if interrupted.
  int status() const { return refusal ? 2 : failure ? 1 : signal != 0 ? 128 + signal : 0; }
};

/// Records the first actor that failed on its own, in preference to actors that failed because they lost a peer.
struct blame {
  std::optional<std::string> text;
  bool for_loss{false};

  /// Records that the actor `name` ended with `why`.
  void hear(const std::string& name, const caf::error& why) {
    const auto loss = is(why, errc::peer_lost);
    if (text && (!for_loss || loss)) return;
    text = name + ": " + describe(why);
    for_loss = loss;
  }
};

}  // namespace troupe

// How a run ended, and who is to blame where it failed.
#pragma once

#include "troupe/actors/errc.hpp"

#include <caf/error.hpp>

#include <optional>
#include <string>

namespace troupe {

struct run_end {
  std::optional<std::string> failure{};  ///< "worker 2: …": who failed first, and why.
  std::optional<std::string> refusal{};  ///< Why this node may not take part; nothing was begun.
  int signal{0};                         ///< What interrupted it, or 0.
  /// 0 done, 1 failed, 2 refused, 128 + signal interrupted.
  int status() const { return refusal ? 2 : failure ? 1 : signal != 0 ? 128 + signal : 0; }
};

/// Keeps the first actor that failed by itself, rather than for the loss of another.
struct blame {
  std::optional<std::string> text;
  bool for_loss{false};

  /// Hears that the actor `name` ended with `why`.
  void hear(const std::string& name, const caf::error& why) {
    const auto loss = is(why, errc::peer_lost);
    if (text && (!for_loss || loss)) return;
    text = name + ": " + describe(why);
    for_loss = loss;
  }
};

}  // namespace troupe

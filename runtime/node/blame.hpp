// Who is to blame for a run that failed.
#pragma once

#include "troupe/actors/errc.hpp"

#include <caf/error.hpp>

#include <optional>
#include <string>

namespace troupe {

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

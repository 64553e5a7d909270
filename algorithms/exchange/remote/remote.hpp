// An exchange whose rule is in another program: all members send their contributions to an actor there, which answers
// them. In this program, a stand-in has the place of a server.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/messages/part.hpp"

namespace troupe {

/// The actor in the other program, as its stand-in sees it.
class remote_actor {
 public:
  virtual ~remote_actor() = default;

  /// Passes on the contribution of a member, whose index is the sender. Never blocks. The answer arrives at the port of
  /// the stand-in as a part whose sender is the stand-in; key::part is the index of the member that it is for, or 0 if
  /// it is for all.
  virtual void send(const part& contribution) = 0;
};

/// Returns the kind "remote".
exchange_kind remote_kind();

/// Returns whether one answer is for all members (answers = "same").
bool answers_all(const setting_values& settings);

}  // namespace troupe

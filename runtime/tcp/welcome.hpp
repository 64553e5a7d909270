// The session in a welcome, which opens tensor links, for all forms of control links.
#pragma once

#include "troupe/runtime/transport/control.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <cstring>

namespace troupe::transport {

/// Introductions that may wait for an answer at a time.
constexpr int most_undecided = 8;

/// Returns the welcome with the session.
inline control::welcome with_session(const control::welcome& answer, const session_id& session) {
  return {answer.memories, {reinterpret_cast<const char*>(session.data()), session.size()}};
}

/// Returns the session of a welcome. Throws frame_error if it has none.
inline session_id session_in(const control::welcome& answer) {
  session_id session{};
  if (answer.session.size() != session.size()) throw frame_error("received a welcome without a session");
  std::memcpy(session.data(), answer.session.data(), session.size());
  return session;
}

}  // namespace troupe::transport

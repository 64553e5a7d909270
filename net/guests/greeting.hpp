// What a guest and a run say to each other right after the handshake of their connection, before anything else: one
// line of JSON in each direction.
#pragma once

#include "troupe/net/frames/layout.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::guests {

/// Version of the greetings and of everything that follows them. It is different for each version of the interfaces.
constexpr int protocol = 1;

/// The longest line, in bytes, with its line break.
constexpr std::size_t most_line_bytes = 1024;

/// A line that is not a greeting; what() is a clause: "it sent …".
struct greeting_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a guest wants to be.
enum class purpose : std::uint8_t {
  actors,  ///< A CAF program: BASP follows.
  member,  ///< The member of an exchange of kind "remote": frames follow.
};

/// The line of a guest.
struct introduction {
  std::string name;  ///< Its own name.
  purpose as{purpose::actors};
  std::string caf{};  ///< Its version of CAF, such as "0.17.6"; only as `actors`.
  std::int64_t protocol{guests::protocol};
};

/// The exchange in which a member has a place.
struct exchange_place {
  std::string name;      ///< Name of the exchange in the topology file.
  std::uint64_t run{0};  ///< Identifies the run in every frame.
  std::uint32_t members{
      0};  ///< Number of its members, n. Their indices in frames are 0 to n − 1; that of the actor is n.
  std::int64_t elements{0};                           ///< Number of values in each contribution and in each answer.
  std::string sends;                                  ///< What the values are: "gradient" or "parameters".
  bool answers_all{true};                             ///< Whether one answer is for all members.
  std::uint64_t frames{transport::protocol_version};  ///< Version of the frames that follow.
};

/// The answer of a run.
struct answer {
  std::string refusal{};                     ///< Why the guest is refused; empty if it is accepted.
  std::string node{};                        ///< The node to which the guest has connected.
  std::string version{};                     ///< The version of Troupe.
  std::optional<exchange_place> exchange{};  ///< Only to a member.
};

/// Return a greeting as a line, with its line break.
std::string line_of(const introduction& who);
std::string line_of(const answer& to);

/// Parse a line without its line break. Throw greeting_error.
introduction parse_introduction(std::string_view line);
answer parse_answer(std::string_view line);

/// Returns the version of CAF that this program was compiled with.
std::string caf_version();

}  // namespace troupe::guests

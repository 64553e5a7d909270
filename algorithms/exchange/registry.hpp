// The kinds of exchange that a topology file can name. A kind describes itself to users and to the plan, and makes one
// worker's part of the exchange. No worker, port or compute actor depends on the name of a kind. The plan checks for
// `shared`, whose replicas and local steps concern the computation, and `explain-run` checks for the kinds for which it
// suggests settings.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/support/memory_writes.hpp"
#include "troupe/files/setting.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::rules {
struct message_costs;
}

namespace troupe {

/// What the messages of an edge hold, as far as it decides how they travel.
enum class edge_holds : std::uint8_t {
  anything,        ///< Contributions and perhaps answers; answers only where they travel like contributions.
  answers,         ///< Answers of a member.
  server_answers,  ///< Answers of a server.
};

/// Tensor traffic of one exchange from one member's port to another's, by index; servers continue the numbering at n.
/// Messages are counted before cutting: a tensor that a route cuts into chunks (member_options::chunk_elements) only
/// to overlap their hops counts as one. Bytes are the same either way.
struct planned_edge {
  std::uint32_t from{0};      ///< Index of the sender.
  std::uint32_t to{0};        ///< Index of the receiver.
  std::uint64_t messages{0};  ///< Number of messages per exchange.
  std::uint64_t bytes{0};     ///< Tensor payload in bytes per exchange.
  double used{1};  ///< Share of the exchanges that use this edge; below 1 if the edges change between exchanges.
  edge_holds holds{edge_holds::anything};  ///< What these messages hold.
  std::uint64_t elements{0};               ///< Values in these messages, before they are encoded; set by the plan.
};

/// What runs an exchange.
enum class carrier : std::uint8_t {
  ports,           ///< Ports of workers and servers, which send each other messages.
  shared_memory,   ///< One memory, which the workers read and write and a server keeps.
  device_library,  ///< The GPUs' own library, on the devices of the workers.
};

/// In what form the contributions to an exchange travel.
enum class sends_as : std::uint8_t {
  whole,   ///< As they are, or in the parts that different servers hold.
  shards,  ///< Cut into nearly equal parts.
  sums,    ///< Added to those of other members on the way.
};

/// Properties of a kind under given settings.
struct exchange_nature {
  carrier carried_by{carrier::ports};  ///< What runs the exchange.
  bool deterministic{true};            ///< Whether results are independent of the order of arrival.
  bool same_for_all{true};             ///< Whether all members get the same answer.
  /// Whether a member may have to wait for the contributions of others; then all members must end at the same step.
  bool waits_for_others{true};
  std::optional<slot> answers{};  ///< What is answered, if the settings change it from the carriage; else empty.
  /// Whether the exchange is an operation of the loop, in which workers send contributions through ports. Otherwise,
  /// workers change what its servers hold as part of their own steps, and nothing is sent.
  bool in_loop{true};
  /// Name of the library that computes the sums in an order of its own; empty if the topology fixes their order.
  std::string sums_by{};
  /// Whether the answer to parameters is the mean of those of all members. Then an outer optimizer can follow, and
  /// members can send what they have changed since the last exchange in place of their parameters.
  bool averages{false};
  /// If positive, members that mix parameters send differences, and move by this share towards the mixture: see
  /// make_choco_member. Only then can parameters that are mixed be encoded.
  double consensus_rate{0};
  std::string encoding_refusal{};  ///< Why `encoding` has no effect; empty if it has.
  sends_as sent{sends_as::whole};  ///< In what form contributions travel, which decides whether they can be encoded.
  bool due_from_start{false};      ///< Whether an exchange with every = τ is also due at step 0.
  /// Number of actors that hold what is exchanged; what they hold is the result of the run, unless `actor` is set.
  std::uint32_t servers{0};
  memory_writes writes{memory_writes::plain};  ///< How workers write the memory. Used only with a shared memory.
  /// Name of an actor in another program for which the only server stands in; empty if there is none.
  std::string actor{};

  /// Returns whether the rule is that of an actor in another program.
  bool is_elsewhere() const { return !actor.empty(); }
};

/// A setting that does not fit, with a message: what is wrong, and what was expected.
struct complaint {
  std::string key;   ///< Name of the setting.
  std::string text;  ///< What is wrong, and what was expected.
};

/// What a kind may consider when it chooses: the same on every node, since it is a function of the topology file.
struct surroundings {
  std::uint32_t members{1};         ///< Number of members.
  encoding how{encoding::float32};  ///< Encoding of the messages.
  double ratio{1};                  ///< Share of the parameters that is sent, if the encoding sends a share.
  std::int64_t chunk_elements{0};   ///< See member_options.
  /// How long messages between members take; null if all members are in one process.
  const rules::message_costs* costs{};
};

/// One of the values between which a kind chose, and the time that one exchange would take.
struct candidate {
  std::string value{};  ///< Value of the setting.
  double seconds{0};    ///< Predicted time of one exchange.
};

/// What a kind chose for one tensor.
struct choice {
  setting_values settings{};            ///< Complete settings of its members.
  std::string key{};                    ///< The setting whose value was chosen.
  std::vector<candidate> candidates{};  ///< The chosen one first; empty if there was nothing to choose.
};

/// A kind of exchange: what a topology file can name, and what the plan and the ports need to know about it.
struct exchange_kind {
  std::string name;                           ///< Value of exchange.kind.
  std::string explanation;                    ///< One line.
  std::string source;                         ///< Paper or textbook, with section.
  std::vector<carriage> carries{carriage{}};  ///< What it can carry, the default first.
  std::vector<setting> settings{};            ///< The kind's own keys in the section [exchange].
  /// Makes the member of one worker, or of a server (membership::is_server).
  std::function<std::unique_ptr<member>(const member_options&)> make_member;
  /// Lists the traffic of one exchange among `world_size` members.
  std::function<std::vector<planned_edge>(std::uint32_t world_size, const models::flat_layout&, const setting_values&)>
      edges;
  /// Returns the nature under these settings. Empty if that is exchange_nature{}.
  std::function<exchange_nature(const setting_values&)> nature{};
  /// Fills in all defaults that depend on the number of members or on other settings, and returns the settings. Empty
  /// if no default does.
  std::function<setting_values(std::uint32_t members, setting_values)> derive{};
  /// Returns what is wrong with these settings for members with these names, or nothing.
  std::function<std::optional<complaint>(const std::vector<std::string>& names, const setting_values&)> check{};
  /// Returns the settings with every member name replaced by w0, w1, … according to the member's index, which is how
  /// make_member, make_common, edges and nature read them. Empty if no setting contains names.
  std::function<setting_values(const std::vector<std::string>& names, const setting_values&)> by_index{};
  /// Chooses what depends on the surroundings and on the size of the tensor, and returns the settings. Empty if nothing
  /// does. `edges` and make_member receive these settings. A choice does not change any bit of a result.
  std::function<choice(const surroundings&, const models::flat_layout&, setting_values)> choose{};
  /// Returns the facts that all `members` share; see common_facts. Empty if there are none.
  std::function<std::shared_ptr<const common_facts>(std::uint32_t members, const setting_values&)> make_common{};
};

/// Returns kind.nature(settings), or the default if the kind has none.
exchange_nature nature_of(const exchange_kind& kind, const setting_values& settings);

/// Returns the settings in effect among `members` that send `what`: with every default filled in, and without settings
/// that have no effect.
setting_values settled(const exchange_kind& kind, slot what, std::uint32_t members, const setting_values& settings);

/// Returns the setting `buffers`: how an exchange of parameters treats float buffers (running statistics of batch
/// norm).
setting buffers_setting();

/// Returns whether these settings exchange float buffers together with the parameters.
bool mixes_buffers(const setting_values& settings);

/// Returns all kinds, in the order in which `troupe list` shows them.
const std::deque<exchange_kind>& exchange_kinds();

/// Adds a kind, or replaces the kind with the same name. Call it first in a program's main(), or from a plug-in,
/// because readers of the kinds (parser, plan) keep what they have read.
void register_exchange(exchange_kind kind);

/// Takes what has been registered since the built-in kinds were made, such as graphs, into their settings.
void renew_exchange_kinds();

/// Returns the kind of this name, or nullptr.
const exchange_kind* find_exchange(const std::string& name);

/// Returns the topology file's name for `what`: parameters, gradient, change.
std::string name_of(slot what);

}  // namespace troupe

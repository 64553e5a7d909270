// The kinds of exchange that a topology file can name. A kind says what it is for people and for the plan, and how to
// make one worker's side of it; nothing else in the project knows an algorithm.
#pragma once

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/mixing.hpp"
#include "troupe/actors/shared_memory.hpp"
#include "troupe/actors/support/setting.hpp"
#include "troupe/models/flat.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Tensor traffic of one exchange from one member's port to another's, by index; servers count on from n. Messages are
/// counted uncut: what a route cuts into chunks (port_options::chunk_elements) only so that they overlap counts as one.
/// Bytes are the same either way.
struct planned_edge {
  std::uint32_t from{0}, to{0};  ///< Ranks.
  std::uint64_t messages{0};     ///< Per exchange.
  std::uint64_t bytes{0};        ///< Tensor payload per exchange.
  double used{1};  ///< Share of the exchanges that use this edge, below 1 where the edges change from one to the next.
};

/// What a kind comes to under its settings.
struct exchange_nature {
  bool deterministic{true};       ///< No result depends on what arrives first.
  bool same_for_all{true};        ///< All members get the same answer.
  std::optional<slot> answers{};  ///< Where the settings make it another than the carriage says.
  /// Runs in the GPUs' own library: tensors go in and come out there, and sums are added in an order of its own.
  bool on_devices{false};
  bool due_from_start{false};  ///< An exchange with every = τ is also due at step 0.
  std::uint32_t servers{0};    ///< How many actors hold what is exchanged; what they hold is the run's result.
  /// The members' x lies in one memory, which all of them write: nothing is sent, and it is no word of a loop.
  std::optional<memory_writes> memory{};
};

/// A setting that does not fit, and what a person should read of it: what is wrong, what was expected.
struct complaint {
  std::string key, text;
};

/// What `troupe list exchanges` and docs/algorithms.md tell of a kind. n members, P bytes of parameters.
struct exchange_facts {
  std::string equation{};
  std::string picture{};          ///< A few lines.
  std::string messages{};         ///< Per exchange, over all members.
  std::string bytes{};            ///< Likewise.
  std::string synchronisation{};  ///< Who waits for whom.
  std::string staleness{};        ///< Bound on the versions between a gradient and its application.
  std::string equals{};           ///< What it must equal, and when.
  std::string shown_by{};         ///< The tests that show it.
};

struct exchange_kind {
  std::string name;
  std::string explanation;                    ///< One line.
  std::string source;                         ///< Paper or textbook, with section.
  std::vector<carriage> carries{carriage{}};  ///< The default first.
  std::vector<setting> settings{};
  /// Makes the side of one member, or of a server (port_options::is_server).
  std::function<std::unique_ptr<member>(const port_options&)> make_member;
  /// Lists the traffic of one exchange among `world_size` members.
  std::function<std::vector<planned_edge>(std::uint32_t world_size, const models::flat_layout&, const setting_values&)>
      edges;
  /// Says what it is under these settings; none: exchange_nature{}.
  std::function<exchange_nature(const setting_values&)> nature{};
  /// Says what does not fit the settings of `names.size()` members so called, or nothing.
  std::function<std::optional<complaint>(const std::vector<std::string>& names, const setting_values&)> check{};
  /// Returns the settings with each name of a member in them replaced by w0, w1, … by its index, which is how
  /// make_member, edges and nature read them; none: no setting holds names.
  std::function<setting_values(const std::vector<std::string>& names, const setting_values&)> by_index{};
  /// Returns W where each member's answer is a mixture with weights that the settings fix, by names as the file gives
  /// them; none: it is no such kind.
  std::function<std::optional<rules::mixing_matrix>(const std::vector<std::string>& names, const setting_values&)>
      mixing{};
  exchange_facts facts{};
};

/// Returns kind.nature(settings), or what holds without it.
exchange_nature nature_of(const exchange_kind& kind, const setting_values& settings);

/// What becomes of float buffers (running statistics of batch norm) in an exchange of parameters: `buffers`.
setting buffers_setting();

/// Whether these settings have float buffers exchanged with the parameters.
bool mixes_buffers(const setting_values& settings);

/// All kinds, in the order in which `troupe list` shows them.
const std::vector<exchange_kind>& exchange_kinds();

/// Adds a kind, or replaces the one of its name. A program's main() does so first of all: what reads the kinds (parser,
/// plan) keeps what it has read.
void register_exchange(exchange_kind kind);

/// Returns the kind of this name, or nullptr.
const exchange_kind* find_exchange(const std::string& name);

/// Returns what the topology file calls it: parameters, gradient, change.
std::string name_of(slot what);

}  // namespace troupe

#include "troupe/actors/port/port_text.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe {

rank_id id_of(const port_options& options, rank_id index) {
  return options.own.among.ids.empty() ? index : options.own.among.ids.at(static_cast<std::size_t>(index));
}

std::optional<rank_id> index_of(const port_options& options, rank_id id) {
  if (options.own.among.ids.empty())
    return static_cast<std::uint32_t>(id) < options.own.among.world_size + options.own.among.servers ? std::optional{id}
                                                                                                     : std::nullopt;
  const auto found = std::lower_bound(options.own.among.ids.begin(), options.own.among.ids.end(), id);
  if (found == options.own.among.ids.end() || *found != id) return std::nullopt;
  return rank_id{static_cast<std::uint32_t>(found - options.own.among.ids.begin())};
}

std::string list_of(const port_options& options, const std::vector<rank_id>& indices) {
  constexpr std::size_t most = 8;
  const auto servers = !indices.empty() && static_cast<std::uint32_t>(indices.front()) >= options.own.among.world_size;
  if (servers && !options.actor.empty()) return "actor " + options.actor;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, indices.size()); ++i)
    text += (i == 0 ? "" : ", ") +
            std::to_string(servers ? static_cast<std::uint32_t>(indices[i]) - options.own.among.world_size
                                   : static_cast<std::uint32_t>(id_of(options, indices[i])));
  if (indices.size() > most) text += " and " + std::to_string(indices.size() - most) + " more";
  return std::string{servers ? "server" : "rank"} + (indices.size() == 1 ? " " : "s ") + text;
}

std::string waits(const port_options& options, const awaited& whom) {
  const auto self = list_of(options, {options.own.among.rank});
  // The stand-in of an actor waits for the actor itself.
  const auto waits = !options.actor.empty() && whom.missing == std::vector{options.own.among.rank}
                         ? self + " has not answered"
                         : self + " is waiting for " + list_of(options, whom.missing);
  return options.name + ": " + waits + " at step " +
         std::to_string(options.passes.step_of(whom.step - options.own.due.lead) + 1);
}

std::string overdue(const port_options& options, const awaited& whom) {
  return waits(options, whom) + "; no answer within " + std::to_string(options.timeout.count()) + " ms (run.timeout)";
}

}  // namespace troupe

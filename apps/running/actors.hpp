// The option --actors, with which a run has an entrance for guests.
#pragma once

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/feed.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace troupe::apps {

/// Address at which guests reach a run without [[node]] if none is given.
constexpr auto* default_entrance = "127.0.0.1:8266";

struct actors_option {
  std::optional<std::string> address{};  ///< As given; "" for the default; unset if the run has no entrance.
};

/// Adds the option. `given` must outlive the command.
void add_actors_option(CLI::App& command, actors_option& given);

/// Moves FILE of `--actors FILE` to `file` if it is not an address: the address of the option may be left out. Throws
/// input_error if the address is not valid.
void settle(actors_option& given, std::filesystem::path& file);

/// Throws input_error if the run of `plan` cannot have an entrance at this address.
void check_entrance(const actors_option& given, const plan& plan);

/// Returns how guests reach the first node, or nothing if the option is not given. `folder` and `conclude` are called
/// after the journal is open: `folder` returns the results folder, and `conclude` writes the last line if it is
/// missing.
std::optional<guest_access> guests_of(const actors_option& given, const plan& plan,
                                      const std::shared_ptr<telemetry::feed>& feed,
                                      std::function<std::filesystem::path()> folder, std::function<void()> conclude,
                                      std::function<void(const std::string&)> report);

}  // namespace troupe::apps

// Attaching to a running training: what a CAF program needs to observe and steer it. It does not need LibTorch.
#pragma once

#include "troupe/net/guests/credentials.hpp"
#include "troupe/net/guests/messages.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// Makes the configuration of an actor system ready for attach(): it loads CAF's network module, in which nothing
/// listens or dials, and adds the messages of runs and guests. Call it before the actor system is made.
void prepare_to_attach(caf::actor_system_config& config);

/// Actors of a run to which this program has attached. Copies refer to the same connection, which is closed with the
/// last of them. Monitor an actor to learn that the run, or the connection to it, has ended.
struct run_handle {
  run_observer observer;                   ///< Tells what happens in the run.
  run_control control;                     ///< Steers the run.
  std::string node;                        ///< The node to which this program has connected.
  std::string version;                     ///< The version of Troupe of the run.
  std::shared_ptr<const void> connection;  ///< Keeps the connection open.
};

/// Attaches to a run on this host that was started with --actors and writes its results to the folder `out`. `name` is
/// how the run calls this program. Blocks until the run answers, for at most ten seconds. Throws attach_error.
run_handle attach(caf::actor_system& system, const std::filesystem::path& out, const std::string& name = "guest");

/// Attaches to a run at an address such as "10.0.0.1:4700". Throws attach_error.
run_handle attach(caf::actor_system& system, const std::string& address, const guest_credentials& who);

/// Asks for the news of a run until it is over. The actor `self` must outlive the run or end with it.
/// `heard` is called with each answer, in order; `lost` with the reason if the run can no longer be reached.
void follow(caf::event_based_actor* self, const run_observer& run, std::function<void(const news&)> heard,
            std::function<void(const caf::error&)> lost = {});

/// Returns the number under a key of a line of metrics.jsonl, or nothing if it is null or missing.
std::optional<double> number_in(std::string_view line, const char* key);

/// Returns the text under a key of a line of metrics.jsonl, or "".
std::string text_in(std::string_view line, const char* key);

}  // namespace troupe

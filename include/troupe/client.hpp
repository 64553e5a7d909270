/// @file
/// Attaches a CAF program to a running training, to observe and steer it. The program links troupe::client, which has
/// CAF and OpenSSL but not LibTorch. examples/observer is such a program, and docs/actors.md describes what a guest may
/// do.
///
/// @code
/// caf::actor_system_config config;
/// troupe::prepare_to_attach(config);
/// caf::actor_system system{config};
/// const auto run = troupe::attach(system, "runs/digits");
/// system.spawn([run](caf::event_based_actor* self) {
///   troupe::follow(self, run.observer, [](const troupe::news& heard) {
///     for (const auto& line : heard.lines) std::cout << line << '\n';
///   });
/// });
/// @endcode
#pragma once

#include "troupe/net/guests/attach.hpp"
#include "troupe/net/guests/messages.hpp"

/// @file
/// Attaches a program to a running training: a CAF program to observe and steer it, and any program to have the rule of
/// one of its exchanges (take_part). The program links troupe::client, which has
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
#include "troupe/net/guests/credentials.hpp"
#include "troupe/net/guests/messages.hpp"
#include "troupe/net/guests/take_part.hpp"

#include "troupe/net/guests/messages.hpp"

#include "troupe/net/basp/small_system.hpp"

#include <caf/all.hpp>

namespace troupe::guests {

namespace {

/// Calls `add` with a default value and the name of each message that a guest sends.
template <class Add>
void for_each_request(Add add) {
  add(news_after{}, "troupe.news_after");
  add(wiring_request{}, "troupe.wiring_request");
  add(figures_request{}, "troupe.figures_request");
  add(status_request{}, "troupe.status_request");
  add(pause_run{}, "troupe.pause_run");
  add(continue_run{}, "troupe.continue_run");
  add(checkpoint_run{}, "troupe.checkpoint_run");
  add(halt_run{}, "troupe.halt_run");
  add(set_learning_rate{}, "troupe.set_learning_rate");
}

}  // namespace

void add_messages(caf::actor_system_config& config) {
  for_each_request([&](auto message, const char* name) { basp::add_message<decltype(message)>(config, name); });
  basp::add_message<news>(config, "troupe.news");
  basp::add_message<wiring>(config, "troupe.wiring");
  basp::add_message<figures>(config, "troupe.figures");
  basp::add_message<run_status>(config, "troupe.run_status");
  basp::add_message<steered>(config, "troupe.steered");
}

std::set<std::string> messages_of_guest() {
  std::set<std::string> names;
  for_each_request([&](auto, const char* name) { names.insert(name); });
  return names;
}

}  // namespace troupe::guests

#include "troupe/net/basp/small_system.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe::basp {

namespace {

/// The port under which CAF keeps the actor that is offered. Nothing listens there.
constexpr std::uint16_t port = 1;

caf::actor broker_of(caf::actor_system& system) {
  return system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
}

}  // namespace

void prepare(caf::actor_system_config& config, std::chrono::milliseconds beat) {
  config.load<caf::io::middleman>();
  config.set("middleman.heartbeat-interval", caf::timespan{beat});
  config.set("middleman.workers", std::size_t{0});  // messages are few, and keep their order more easily
}

small_config::small_config(std::chrono::milliseconds beat) {
  prepare(*this, beat);
  set("scheduler.policy", caf::atom("sharing"));  // threads that steal work poll for it
  set("scheduler.max-threads", std::size_t{1});
  set("logger.verbosity", caf::atom("quiet"));
}

socket_pair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    throw std::runtime_error(std::string("cannot make a pair of sockets: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

void offer(caf::actor_system& system, int socket, const caf::strong_actor_ptr& actor,
           const std::set<std::string>& signatures) {
  // These messages are how CAF's own tests connect two nodes without a listening socket.
  caf::anon_send(broker_of(system), caf::publish_atom::value, system.middleman().backend().new_scribe(socket), port,
                 actor, signatures);
}

void ask_for_actor(caf::actor_system& system, int socket, const std::set<std::string>& signatures,
                   std::chrono::milliseconds patience,
                   std::function<void(const caf::strong_actor_ptr&, const std::string&)> then) {
  auto scribe = system.middleman().backend().new_scribe(socket);
  system.spawn([=](caf::event_based_actor* self) {
    self->request(broker_of(self->system()), patience, caf::connect_atom::value, scribe, port)
        .then(
            [=](const caf::node_id&, const caf::strong_actor_ptr& actor, const std::set<std::string>& theirs) {
              if (!actor) return then(nullptr, "it offers no actor");
              if (!std::includes(theirs.begin(), theirs.end(), signatures.begin(), signatures.end()))
                return then(nullptr,
                            "it offers an actor of another type; use the same version of Troupe on both sides");
              then(actor, {});
            },
            [=](const caf::error& why) { then(nullptr, "CAF could not connect: " + self->system().render(why)); });
  });
}

caf::strong_actor_ptr ask_for_actor(caf::actor_system& system, int socket, const std::set<std::string>& signatures,
                                    std::chrono::milliseconds patience) {
  using answer = std::pair<caf::strong_actor_ptr, std::string>;
  const auto promise = std::make_shared<std::promise<answer>>();
  auto future = promise->get_future();
  ask_for_actor(system, socket, signatures, patience, [promise](const auto& actor, const std::string& problem) {
    promise->set_value({actor, problem});
  });
  auto [actor, problem] = future.get();
  if (!actor) throw std::runtime_error(problem);
  return actor;
}

node_text node_of(caf::actor_system& system) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  auto node = system.node();
  if (const auto error = sink(node); error || bytes.size() != node_bytes)
    throw std::runtime_error("CAF writes node ids in an unexpected form");
  node_text text;
  std::memcpy(text.data(), bytes.data(), text.size());
  return text;
}

}  // namespace troupe::basp

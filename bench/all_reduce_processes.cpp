// Runs one all-reduce after another between processes of this host, through the ports and links that a run uses:
//
//   all_reduce_processes PROCESSES ELEMENTS ROUNDS ROUTE [CERTIFICATES]
//
// prints the median milliseconds of a round, at rank 0. With CERTIFICATES, a folder that it creates, connections use
// TLS. The result of every round is checked. bench/all_reduce_processes.py compares it with gloo.
#include "troupe/actors/port/port.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/net/channels/tls.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/runtime/security/authority.hpp"
#include "troupe/runtime/tcp/free_ports.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"
#include "troupe/runtime/transport/proxy.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <caf/all.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;
using clock_type = std::chrono::steady_clock;

struct question {
  std::uint32_t processes{2};
  std::int64_t elements{256};
  int rounds{100};
  std::string route{"auto"};
  std::string certificates{};  ///< Folder, or empty.
  std::vector<endpoint> nodes;
  int done[2]{},
      leave[2]{};  ///< Pipes: no process leaves before all are done, because others may wait for what it still sends.
};

/// Waits until every process is done.
void leave_together(const question& asked, std::uint32_t me) {
  char byte = 0;
  bool good = true;
  if (me != 0) {
    close(asked.leave[1]);
    good = write(asked.done[1], &byte, 1) == 1 && read(asked.leave[0], &byte, 1) == 0;
  } else {
    for (std::uint32_t i = 1; i < asked.processes; ++i) good = good && read(asked.done[0], &byte, 1) == 1;
    close(asked.leave[1]);
  }
  if (!good) std::abort();
}

struct config : caf::actor_system_config {
  config() {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2u);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

/// Returns the milliseconds of each round.
std::vector<double> reduce(const question& asked, std::uint32_t me) {
  at::set_num_threads(1);
  models::buffer_pool pool;
  transport::tcp_options options{.me = me,
                                 .listen = asked.nodes[me],
                                 .addresses = asked.nodes,
                                 .channels = asked.certificates.empty() ? transport::plain_channels()
                                                                        : transport::tls_channels(security::files_in(
                                                                              asked.certificates, std::to_string(me))),
                                 .ranks = {},
                                 .names = {},
                                 .limits = {.world_size = asked.processes,
                                            .first_rank = me,
                                            .exchanged = {asked.elements},
                                            .total = asked.elements},
                                 .pool = pool};
  for (std::uint32_t rank = 0; rank < asked.processes; ++rank) {
    options.ranks.push_back({rank, 1});
    options.names.push_back(std::to_string(rank));
  }
  const auto links = transport::make_tcp_links(std::move(options));
  config settings;
  caf::actor_system system{settings};
  member_options own{
      .among = {.rank = rank_id{me}, .world_size = asked.processes}, .pool = pool, .chunk_elements = 256 * 1024};
  own.layout.parameter_end = own.layout.total = asked.elements;
  own.settings = {{"route", asked.route}};
  const auto port = spawn_port(system, {.own = own}, find_exchange("all_reduce")->make_member);
  std::vector<peer_port> peers;
  for (std::uint32_t rank = 0; rank < asked.processes; ++rank)
    peers.push_back(rank == me ? peer_port{port} : transport::spawn_port_proxy(system, links.tensors, rank, rank));
  caf::anon_send(port, wire_atom_v, peers);

  std::promise<void> linked;
  links.control->open(
      {.visited =
           [&links](transport::visitor_id visitor, const control::introduction& who) {
             links.control->admit(visitor, static_cast<std::uint32_t>(std::stoul(who.node)));
           },
       .reached_first = [&] { links.control->tell(0, control::introduction{.node = std::to_string(me)}); },
       .foreign_first = [] {},
       .heard = [](std::uint32_t, const control::message&) {},
       .parted = [](std::uint32_t, const std::string&) {}});
  links.tensors->open({.linked = [&] { linked.set_value(); },
                       .lost = [](std::uint32_t, const std::string&) {},
                       .arrived =
                           [port](transport::frame&& arrived, std::shared_ptr<const void> receipt) {
                             auto piece = arrived.as_part();
                             piece.receipt = std::move(receipt);
                             caf::anon_send(port, part_atom_v, std::move(piece));
                           }});
  linked.get_future().wait();

  std::vector<double> milliseconds;
  caf::scoped_actor self{system};
  const auto values = pool.take(asked.elements).fill_(static_cast<double>(me + 1));
  for (int round = 0; round < asked.rounds; ++round) {
    const auto begin = clock_type::now();
    const part contribution{.origin = {.sender = rank_id{me}, .step = static_cast<std::uint64_t>(round)},
                            .piece = {0, values},
                            .total = asked.elements,
                            .sample_count = 1};
    self->send(port, part_atom_v, contribution);
    self->request(port, std::chrono::seconds{60}, await_atom_v, contribution.origin, key{})
        .receive(
            [&](const outcome& answer) {
              milliseconds.push_back(std::chrono::duration<double, std::milli>(clock_type::now() - begin).count());
              for (const auto& piece : answer.pieces)
                if (piece.values[-1].item<float>() != static_cast<float>(asked.processes + 1) / 2) std::abort();
            },
            [](const caf::error& why) {
              std::cerr << describe(why) << "\n";
              std::abort();
            });
  }
  leave_together(asked, me);
  for (const auto& peer : peers) self->send_exit(peer, caf::exit_reason::user_shutdown);
  return milliseconds;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5 && count != 6) {
    std::cerr << "usage: all_reduce_processes PROCESSES ELEMENTS ROUNDS ROUTE [CERTIFICATES]\n";
    return 2;
  }
  question asked{.processes = static_cast<std::uint32_t>(std::atoi(words[1])),
                 .elements = std::atoll(words[2]),
                 .rounds = std::atoi(words[3]),
                 .route = words[4],
                 .certificates = count == 6 ? words[5] : "",
                 .nodes = {}};
  std::signal(SIGPIPE, SIG_IGN);
  if (!asked.certificates.empty()) {
    security::certificate_request request{.folder = asked.certificates, .nodes = {}, .overwrite = true};
    for (std::uint32_t rank = 0; rank < asked.processes; ++rank) request.nodes.push_back(std::to_string(rank));
    security::make_certificates(request);
  }
  if (pipe(asked.done) != 0 || pipe(asked.leave) != 0) return 1;
  {
    transport::free_ports free;
    for (std::uint32_t i = 0; i < asked.processes; ++i)
      asked.nodes.push_back({.host = "127.0.0.1", .port = free.next("127.0.0.1")});
  }
  std::vector<pid_t> children;
  std::uint32_t me = 0;
  for (std::uint32_t rank = 1; rank < asked.processes; ++rank) {  // before any thread is started
    const auto child = fork();
    if (child == 0) {
      me = rank;
      break;
    }
    children.push_back(child);
  }
  auto milliseconds = reduce(asked, me);
  if (me != 0) _exit(0);
  bool good = true;
  for (const auto child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    good = good && status == 0;
  }
  milliseconds.erase(milliseconds.begin(), milliseconds.begin() + asked.rounds / 10);  // warm-up rounds
  std::nth_element(milliseconds.begin(), milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2),
                   milliseconds.end());
  std::cout << milliseconds[milliseconds.size() / 2] << "\n";
  return good ? 0 : 1;
}

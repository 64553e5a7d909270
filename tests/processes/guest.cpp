// A guest for tests: attaches to a run and does what its arguments say, one after the other. Each answer is a line.
//
//   guest OUT COMMAND…                        with the secret in OUT/actors.json
//   guest HOST:PORT FOLDER NAME COMMAND…      with a certificate
//
// Commands: status, pause, continue, checkpoint, halt, lr=RATE[@STEP], sleep=MILLISECONDS, wiring, news (all lines
// until the run is over), freeze (reads nothing any more).
#include <caf/all.hpp>
#include <troupe/client.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

class guest {
 public:
  guest(caf::actor_system& system, troupe::run_handle run) : system_(system), self_(system), run_(std::move(run)) {}

  void obey(const std::string& command) {
    const auto value = command.substr(std::min(command.size(), command.find('=') + 1));
    if (command == "status") return status();
    if (command == "pause") return steer(command, troupe::pause_run{});
    if (command == "continue") return steer(command, troupe::continue_run{});
    if (command == "checkpoint") return steer(command, troupe::checkpoint_run{});
    if (command == "halt") return steer(command, troupe::halt_run{});
    if (command == "wiring") return wiring();
    if (command == "news") return news();
    if (command == "freeze") ::raise(SIGSTOP);
    if (command.starts_with("sleep=")) std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(value)));
    if (command.starts_with("lr=")) {
      const auto at = value.find('@');
      steer(command, troupe::set_learning_rate{std::stod(value),
                                               at == std::string::npos ? 0 : std::stoull(value.substr(at + 1))});
    }
  }

 private:
  template <class Request>
  void steer(const std::string& name, const Request& request) {
    self_->request(run_.control, 20s, request)
        .receive(
            [&](const troupe::steered& how) {
              std::printf("%s: %s\n", name.c_str(),
                          how.refusal.empty() ? ("step " + std::to_string(how.step)).c_str()
                                              : ("refused: " + how.refusal).c_str());
            },
            [&](const caf::error& why) { std::printf("%s: lost: %s\n", name.c_str(), system_.render(why).c_str()); });
  }

  void status() {
    self_->request(run_.control, 20s, troupe::status_request{})
        .receive(
            [](const troupe::run_status& now) {
              std::printf("status: %s %lu %lu\n", now.state.c_str(), now.step, now.steps);
            },
            [&](const caf::error& why) { std::printf("status: lost: %s\n", system_.render(why).c_str()); });
  }

  void wiring() {
    self_->request(run_.observer, 20s, troupe::wiring_request{})
        .receive(
            [](const troupe::wiring& run) { std::printf("wiring: %s\n%s", run.folder.c_str(), run.topology.c_str()); },
            [&](const caf::error& why) { std::printf("wiring: lost: %s\n", system_.render(why).c_str()); });
  }

  void news() {
    const auto actor = system_.spawn([run = run_](caf::event_based_actor* self) -> caf::behavior {
      troupe::follow(
          self, run.observer,
          [self](const troupe::news& heard) {
            if (heard.missed > 0) std::printf("missed: %lu\n", heard.missed);
            for (const auto& line : heard.lines) std::printf("line: %s\n", line.c_str());
            if (!heard.over) return;
            std::printf("over: %lu\n", heard.step);
            self->quit();
          },
          [self](const caf::error&) {
            std::printf("lost\n");
            self->quit();
          });
      return {[](int) {}};
    });
    self_->wait_for(actor);
  }

  caf::actor_system& system_;
  caf::scoped_actor self_;
  troupe::run_handle run_;
};

}  // namespace

int main(int count, char** arguments) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count < 3) return std::fprintf(stderr, "usage: see guest.cpp\n"), 2;
  caf::actor_system_config config;
  troupe::prepare_to_attach(config);
  caf::actor_system system{config};
  const std::string where = arguments[1];
  const auto certified = where.find(':') != std::string::npos;
  guest visitor{system, certified ? troupe::attach(system, where, {.folder = arguments[2], .name = arguments[3]})
                                  : troupe::attach(system, where, "tester")};
  std::printf("attached\n");
  for (int i = certified ? 4 : 2; i < count; ++i) visitor.obey(arguments[i]);
  return 0;
} catch (const std::exception& problem) {
  return std::fprintf(stderr, "guest: %s\n", problem.what()), 1;
}

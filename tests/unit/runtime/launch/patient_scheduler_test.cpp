// The clock of actors is paused while the process is stopped.
#include "troupe/runtime/launch/patient_scheduler.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/wire/type_ids.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <vector>

namespace node_patient_scheduler_test {

using namespace troupe;
using namespace std::chrono_literals;

TEST_CASE("only the time in which a process could run is counted") {
  const running_time::clock::time_point begin{};
  running_time time{begin};
  CHECK(time.at(begin + 400ms) == begin + 400ms);
  time.look(begin + 400ms);
  time.look(begin + 800ms);
  CHECK(time.at(begin + 800ms) == begin + 800ms);  // a busy machine does not delay the clock
  SUBCASE("a stop counts as one long gap, as soon as it is over") {
    CHECK(time.at(begin + 800ms + 1h) == begin + 1300ms);
    time.look(begin + 800ms + 1h);
    CHECK(time.at(begin + 800ms + 1h) == begin + 1300ms);
    CHECK(time.at(begin + 1000ms + 1h) == begin + 1500ms);
    time.look(begin + 1000ms + 1h);
    time.look(begin + 1000ms + 2h);
    CHECK(time.at(begin + 1000ms + 2h) == begin + 2000ms);
  }
  SUBCASE("time never goes backwards") {
    auto last = time.at(begin + 800ms);
    for (auto now = begin + 800ms; now < begin + 10s; now += 130ms) {
      if ((now - begin) % 1900ms < 130ms) time.look(now);
      CHECK(time.at(now) >= last);
      last = time.at(now);
    }
  }
}

TEST_CASE("delayed messages and time limits of requests come as with CAF's own clock") {
  caf::actor_system_config config;
  config.load<patient_scheduler>();
  config.set("scheduler.max-threads", 2u);
  caf::actor_system system{config};
  caf::scoped_actor here{system};
  std::vector<int> came;
  for (const int each : {30, 10, 20})
    system.spawn([&here, each](caf::event_based_actor* self) {
      self->delayed_send(caf::actor_cast<caf::actor>(here), std::chrono::milliseconds{each}, each);
    });
  here->receive_while([&] { return came.size() < 3; })([&](int which) { came.push_back(which); });
  CHECK(came == std::vector{10, 20, 30});

  const auto silent = system.spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self](int) { return self->make_response_promise<int>(); }};
  });
  system.spawn([&here, silent](caf::event_based_actor* self) {
    self->request(silent, 10ms, 1)
        .then([](int) {},
              [self, &here](const caf::error& why) {
                self->send(caf::actor_cast<caf::actor>(here), why == caf::sec::request_timeout);
              });
  });
  bool timed_out = false;
  here->receive([&](bool which) { timed_out = which; });
  CHECK(timed_out);
  caf::anon_send_exit(silent, caf::exit_reason::kill);
}

}  // namespace node_patient_scheduler_test

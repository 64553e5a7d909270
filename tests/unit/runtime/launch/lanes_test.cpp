// Jobs on real threads that wait for their owner.
#include "troupe/runtime/launch/lanes.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/wire/type_ids.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace node_lanes_test {

namespace {

using namespace troupe;

struct stage_with_lane {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor owner{system};
  std::unique_ptr<thread_lanes> lanes = std::make_unique<thread_lanes>();
  std::unique_ptr<lane> where = lanes->make({{}, "waits"});
  std::shared_ptr<rendezvous> meeting = where->meeting_point();

  /// Posts a job that waits so many times. Returns, once it has ended, how often it was resumed.
  template <class Meanwhile>
  int resumed(int times, Meanwhile meanwhile) {
    int count = 0;
    std::promise<void> begun;
    where->post(caf::actor_cast<caf::actor>(owner), {}, [&, times, meeting = meeting]() -> std::function<void()> {
      begun.set_value();
      int came = 0;
      while (came < times && meeting->wait()) ++came;
      return [&count, came] { count = came; };
    });
    begun.get_future().wait();  // a lane that is closed drops jobs that it has not begun
    meanwhile();
    owner->receive([](done_atom, const completion& done) { (*done.run)(); });
    return count;
  }
};

}  // namespace

TEST_CASE("a job that waits goes on when its owner resumes it, be it before or after") {
  stage_with_lane stage;
  stage.meeting->resume();
  CHECK(stage.resumed(3, [&] {
    stage.meeting->resume();
    stage.meeting->resume();
  }) == 3);
}

TEST_CASE("a job that waits is told when its lane is gone") {
  stage_with_lane stage;
  CHECK(stage.resumed(2, [&] {
    stage.meeting->resume();
    stage.where.reset();
  }) <= 1);
  CHECK_FALSE(stage.meeting->wait());
}

TEST_CASE("the end of all lanes does not wait for a job that waits") {
  stage_with_lane stage;
  CHECK(stage.resumed(1, [&] { stage.lanes.reset(); }) == 0);
}

TEST_CASE("a lane that does not return is left and named, and the others are joined") {
  auto lanes = std::make_unique<thread_lanes>();
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor owner{system};
  const auto quick = lanes->make({{}, "quick"}), stuck = lanes->make({{}, "stuck"});
  std::promise<void> begun, release;
  stuck->post(caf::actor_cast<caf::actor>(owner), {}, [&begun, released = release.get_future().share()] {
    begun.set_value();
    released.wait();
    return [] {};
  });
  begun.get_future().wait();
  const std::chrono::milliseconds computing{50}, writing{60'000};
  CHECK(lanes->close(computing, writing) == std::vector<std::string>{"stuck"});
  CHECK(lanes->close(computing, writing).empty());
  lanes.reset();
  release.set_value();
  owner->receive([](done_atom, const completion& done) { (*done.run)(); });
}

TEST_CASE("a job that does not return is reported once, and one that waits for its owner is not") {
  stage_with_lane stage;
  std::vector<std::string> reports;
  std::promise<void> reported;
  const auto stuck = stage.lanes->make({{}, "stuck"});
  std::promise<void> release;
  stuck->post(caf::actor_cast<caf::actor>(stage.owner), {}, [released = release.get_future().share()] {
    released.wait();
    return [] {};
  });
  CHECK(stage.resumed(1, [&] {
    stage.lanes->report_long_jobs(std::chrono::milliseconds{20}, [&](const std::string& line) {
      reports.push_back(line);
      reported.set_value();  // throws if there is a second report
    });
    reported.get_future().wait();
    release.set_value();
    stage.owner->receive([](done_atom, const completion& done) { (*done.run)(); });
    stage.meeting->resume();
  }) == 1);
  stage.lanes.reset();
  CHECK(reports == std::vector<std::string>{"stuck has not returned from its operation for 20 ms (run.timeout)"});
}

TEST_CASE("lanes are made from several threads at once") {
  thread_lanes lanes;
  std::vector<std::thread> makers;
  for (int maker = 0; maker < 4; ++maker)
    makers.emplace_back([&lanes] {
      for (int i = 0; i < 50; ++i) CHECK(lanes.make({{}, "crowd"}) != nullptr);
    });
  for (auto& maker : makers) maker.join();
}

}  // namespace node_lanes_test

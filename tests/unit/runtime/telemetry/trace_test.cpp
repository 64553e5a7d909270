// The file trace.json: valid JSON whatever happens, and of bounded size.
#include "tests/support/doctest.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/node_parts.hpp"
#include "troupe/runtime/telemetry/trace_file.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace telemetry_trace_test {

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using nlohmann::json;
using telemetry::trace_file;

/// The events of a file that is an array of them.
std::vector<json> events_of(const std::filesystem::path& path) {
  const auto all = json::parse(read_text(path));
  return {all.begin(), all.end()};
}

std::vector<json> spans_of(const std::filesystem::path& path) {
  auto all = events_of(path);
  std::erase_if(all, [](const json& event) { return event["ph"] != "X"; });
  return all;
}

}  // namespace

TEST_CASE("a trace names its process and tracks, and counts microseconds from its origin") {
  const testing::scratch folder;
  const auto path = folder.path() / "trace.json";
  {
    const auto file = std::make_shared<trace_file>(
        telemetry::trace_file_options{.path = path, .process = "beta", .node = 1, .origin = 1ms});
    const trace_track worker{file, "worker \"0\""}, again{file, "worker \"0\""}, other{file, "compute 0"};
    worker.add("wait for exchange", 1ms + 1500ns, 3ms);
    again.add("wait for verdict", 3ms, 3ms);
    other.add("gradient", 900us, 1ms, {{"gradients", 1}, {"samples", 32}});
    other.add_arrow("send", 2ms, 2ms, trace_span::arrow::begins, 0xabcdef0123456789, {{"to", 2}});
    other.add_arrow("receive", 2ms, 2ms, trace_span::arrow::ends, 10, {});
  }
  const auto events = events_of(path);
  REQUIRE(events.size() == 8);
  CHECK(events[0] == json::parse(R"({"name":"process_name","ph":"M","pid":2,"args":{"name":"beta"}})"));
  CHECK(events[1] ==
        json::parse(R"({"name":"thread_name","ph":"M","pid":2,"tid":2000000,"args":{"name":"worker \"0\""}})"));
  CHECK(events[3] ==
        json::parse(R"({"name":"wait for exchange","ph":"X","ts":1.5,"dur":1998.5,"pid":2,"tid":2000000})"));
  CHECK(events[4]["tid"] == 2000000);
  CHECK(events[5] == json::parse(R"({"name":"gradient","ph":"X","ts":-100.0,"dur":100.0,"pid":2,"tid":2000001,
                                     "args":{"gradients":1,"samples":32}})"));
  CHECK(events[6]["bind_id"] == "0xabcdef0123456789");
  CHECK(events[6]["flow_out"] == true);
  CHECK(events[7]["bind_id"] == "0xa");
  CHECK(events[7]["flow_in"] == true);
}

TEST_CASE("a trace has at most so many spans, and says how many it leaves out") {
  const testing::scratch folder;
  const auto path = folder.path() / "new" / "trace.json";
  {
    const auto file = std::make_shared<trace_file>(telemetry::trace_file_options{.path = path, .limit = 3});
    const trace_track track{file, "worker 0"};
    for (int i = 0; i < 10; ++i) track.add("wait for exchange", i * 1us, (i + 1) * 1us);
  }
  CHECK(spans_of(path).size() == 3);
  const auto note = events_of(path).back();
  CHECK(note["name"] == "the trace is full: 7 later spans are left out");
  CHECK(note["ts"] == 3);
}

TEST_CASE("a trace is written as it grows, and takes nothing more once it is closed") {
  const testing::scratch folder;
  const auto path = folder.path() / "trace.json";
  const auto file = std::make_shared<trace_file>(telemetry::trace_file_options{.path = path});
  CHECK(!std::filesystem::exists(path));
  const trace_track track{file, "worker 0"};
  for (int i = 0; i < 10'000; ++i) track.add("wait for exchange", i * 1us, (i + 1) * 1us);
  CHECK(std::filesystem::file_size(path) > 500'000);  // it buffers at most 64 KiB
  file->close();
  track.add("wait for exchange", 1s, 2s);
  const trace_track later{file, "worker 1"};
  file->close();
  CHECK(spans_of(path).size() == 10'000);
}

TEST_CASE("a trace waits for a disk that is full for a while") {
  const testing::scratch folder;
  const auto path = folder.path() / "trace.json";
  std::vector<std::string> warnings;
  {
    const auto file = std::make_shared<trace_file>(
        telemetry::trace_file_options{.path = path, .warn = [&](const auto& text) { warnings.push_back(text); }});
    const trace_track track{file, "worker 0"};
    const auto add = [&] {
      for (int i = 0; i < 5'000; ++i) track.add("wait for exchange", i * 1us, (i + 1) * 1us);
    };
    add();
    {
      const testing::full_disk disk(100'000);
      add();
    }
    add();
  }
  CHECK(spans_of(path).size() == 15'000);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].ends_with("trace.json: File too large; the run continues, and tries again"));
}

TEST_CASE("a trace that cannot be written costs two warnings") {
  const testing::scratch folder;
  folder.write("file", "");
  std::vector<std::string> warnings;
  {
    const auto file = std::make_shared<trace_file>(telemetry::trace_file_options{
        .path = folder.path() / "file" / "trace.json", .warn = [&](const auto& text) { warnings.push_back(text); }});
    const trace_track track{file, "worker 0"};
    for (int i = 0; i < 10'000; ++i) track.add("wait for exchange", i * 1us, (i + 1) * 1us);
  }
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].find("cannot write") != std::string::npos);
  CHECK(warnings[1].starts_with("warning: the trace is not complete: cannot write "));
}

TEST_CASE("a run that is not traced has tracks that do nothing") {
  const trace_track none, empty{nullptr, "worker 0"};
  CHECK(!none);
  CHECK(!empty);
  none.add("gradient", 0us, 1us);
}

TEST_CASE("parts that cannot be joined remain") {
  const testing::scratch folder;
  folder.write("trace.json", "[\n{\"pid\":1}\n]\n");
  folder.write("trace-beta.json", "[\n{\"pid\":2}\n]\n");
  std::filesystem::create_directories(folder.path() / "trace.json.part" / "in the way");
  telemetry::gather_parts(folder.path(), {"alpha", "beta"});
  CHECK(events_of(folder.path() / "trace.json") == std::vector<json>{{{"pid", 1}}});
  CHECK(events_of(folder.path() / "trace-beta.json") == std::vector<json>{{{"pid", 2}}});
}

TEST_CASE("the parts of the nodes become one file") {
  const testing::scratch folder;
  const std::vector<std::string> nodes{"alpha", "beta", "gamma"};
  folder.write("trace.json", "[\n{\"pid\":1},\n{\"ts\":0}\n]\n");
  folder.write("trace-beta.json", "[\n{\"pid\":2},\n{\"ts\":1},\n{\"ts\":");  // its node was killed
  folder.write("links.csv",
               "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds,wait_max_seconds\nw0,send,"
               "1,8,2.0,0.5,0.0,0.0\n");
  folder.write("links-gamma.csv",
               "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds,wait_max_seconds\nw2,send,"
               "2,16,1.0,,0.25,0.5\n");
  folder.write("metrics.jsonl", "{\"event\":\"start\",\"seconds\":0}\n{\"event\":\"end\",\"seconds\":4.0}\n");
  telemetry::gather_parts(folder.path(), nodes);
  CHECK(events_of(folder.path() / "trace.json") ==
        std::vector<json>{{{"pid", 1}}, {{"ts", 0}}, {{"pid", 2}}, {{"ts", 1}}});
  const auto links = read_text(folder.path() / "links.csv");
  CHECK(links.ends_with("w0,send,1,8,2.0,0.5,0.0,0.0\nw2,send,2,16,1.0,0.25,0.25,0.5\n"));
  CHECK(!std::filesystem::exists(folder.path() / "trace-beta.json"));
  CHECK(!std::filesystem::exists(folder.path() / "links-gamma.csv"));
}

}  // namespace telemetry_trace_test

// Files that grow during a run, and outputs that wait.
#include "troupe/runtime/support/appended_file.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace appended_file_test {

using namespace troupe;
using testing::read;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {}  // namespace

TEST_CASE("what does not fit on the disk waits, and no piece is written by halves") {
  const testing::scratch folder;
  const auto path = folder.path() / "lines";
  appended_file file({.path = path});
  file.add("one\n");
  file.flush();
  {
    const testing::full_disk room_for_six_bytes(6);
    file.add("two\n");
    CHECK_THROWS_WITH_AS(file.flush(), ("cannot write " + path.string() + ": File too large").c_str(), write_error);
    CHECK(read(path) == "one\n");
    file.add("three\n");
    CHECK_THROWS_AS(file.flush(), write_error);
  }
  file.flush();
  CHECK(read(path) == "one\ntwo\nthree\n");
  CHECK(file.dropped() == 0);
}

TEST_CASE("so much waits and not more, but the last piece always") {
  const testing::scratch folder;
  const auto path = folder.path() / "lines";
  appended_file file({.path = path, .most_waiting = 8});
  {
    const testing::full_disk disk;
    CHECK(file.add("one\n"));
    CHECK(!file.add("three\n"));
    CHECK(file.add("two\n"));
    CHECK_THROWS_AS(file.flush(), write_error);
    CHECK(!file.add("x"));
    file.add_last("end\n");
  }
  file.flush();
  CHECK(read(path) == "one\ntwo\nend\n");
  CHECK(file.dropped() == 2);
}

TEST_CASE("a file that is removed is made again, and one that is moved is followed") {
  const testing::scratch folder;
  const auto path = folder.path() / "lines", other = folder.path() / "other";
  appended_file file({.path = path});
  file.add("one\n");
  file.flush();
  fs::remove(path);
  file.add("two\n");
  {
    const testing::full_disk disk;
    CHECK_THROWS_AS(file.flush(), write_error);
    CHECK(!fs::exists(path));
  }
  file.flush();
  CHECK(read(path) == "one\ntwo\n");
  fs::rename(path, other);
  fs::create_symlink(other, path);
  file.add("three\n");
  file.flush();
  CHECK(read(other) == "one\ntwo\nthree\n");
  fs::remove(path);
  std::ofstream(path) << "of an editor\n";
  file.add("four\n");
  file.flush();
  CHECK(read(path) == "of an editor\nfour\n");
}

TEST_CASE("a file goes on or begins anew") {
  const testing::scratch folder;
  const auto path = folder.path() / "lines";
  std::ofstream(path) << "before\n";
  appended_file on({.path = path, .continues = true});
  on.add("after\n");
  on.flush();
  CHECK(read(path) == "before\nafter\n");
  appended_file anew({.path = path});
  anew.flush();
  CHECK(read(path).empty());
  appended_file nowhere({.path = folder.path() / "missing" / "lines"});
  CHECK_THROWS_AS(nowhere.flush(), write_error);
}

TEST_CASE("an output that cannot be written is tried once a second, with its newest content") {
  std::string said;
  std::chrono::nanoseconds now{0};
  telemetry::side_outputs outputs({.warn = [&](const auto& text) { said += text + "\n"; }, .now = [&] { return now; }});
  bool full = true;
  int attempts = 0;
  std::string content;
  const auto write = [&](const std::string& text) {
    outputs.write("a", [&, text] {
      ++attempts;
      if (full) throw std::runtime_error("full");
      content = text;
    });
  };
  for (const auto* text : {"1", "2", "3"}) write(text);
  CHECK(attempts == 1);
  CHECK(said == "warning: full; the run continues, and tries again\n");
  now += 1s;
  outputs.retry();
  outputs.retry();
  CHECK(attempts == 2);
  full = false;
  outputs.write("b", [] {});
  CHECK(content.empty());
  now += 1s;
  outputs.retry();
  CHECK(content == "3");
  CHECK(said.ends_with("\na is written again\n"));
  outputs.retry_now();
  CHECK(attempts == 3);
}

TEST_CASE("an attempt that takes long is repeated rarely") {
  std::chrono::nanoseconds now{0};
  telemetry::side_outputs outputs({.now = [&] { return now; }});
  int attempts = 0;
  outputs.write("weights", [&] {
    ++attempts;
    now += 5s;
    throw std::runtime_error("full");
  });
  now += 1s;
  outputs.retry();
  CHECK(attempts == 2);
  for (int second = 0; second < 49; ++second) {
    now += 1s;
    outputs.retry();
  }
  CHECK(attempts == 2);
  now += 1s;
  outputs.retry();
  CHECK(attempts == 3);
}

TEST_CASE("a disk that is full now and then is reported a few times only") {
  std::string said;
  telemetry::side_outputs outputs({.warn = [&](const auto& text) { said += text + "\n"; }});
  bool full = false;
  for (int time = 0; time < 100; ++time) {
    full = true;
    outputs.write("a", [&] {
      if (full) throw std::runtime_error("full");
    });
    full = false;
    outputs.retry_now();
  }
  CHECK(std::count(said.begin(), said.end(), '\n') == 9);
  CHECK(said.ends_with("(later failures are reported at the end only)\n"));
}

TEST_CASE("the end waits for what is missing, and names it") {
  std::string said;
  std::chrono::milliseconds waited{0};
  telemetry::side_outputs outputs(
      {.warn = [&](const auto& text) { said += text + "\n"; }, .wait = [&](auto time) { waited += time; }});
  outputs.finish(10s);
  CHECK(waited == 0s);
  const auto after = [&](std::chrono::milliseconds time) {
    return [&, time] {
      if (waited < time) throw std::runtime_error("full");
    };
  };
  outputs.write("soon", after(2s));
  outputs.write("late", after(20s));
  said.clear();
  outputs.finish(10s);
  CHECK(waited == 10s);
  CHECK(said == "warning: not written, or not to the end: late (full)\n");
}

TEST_CASE("a file is replaced as a whole, and its temporary file is of nobody else") {
  const testing::scratch folder;
  const auto path = folder.path() / "file";
  std::ofstream(path.string() + ".tmp") << "mine";
  write_aside(path, "old");
  {
    const testing::full_disk disk;
    CHECK_THROWS_WITH_AS(write_aside(path, "new"), ("cannot write " + path.string() + ": File too large").c_str(),
                         write_error);
  }
  CHECK(read(path) == "old");
  CHECK(read(path.string() + ".tmp") == "mine");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
  fs::create_symlink(folder.path() / "elsewhere", path.string() + aside_suffix);
  CHECK_THROWS_AS(write_aside(path, "new"), write_error);
  CHECK(!fs::exists(folder.path() / "elsewhere"));
}

}  // namespace appended_file_test

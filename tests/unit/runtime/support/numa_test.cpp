// Memory and cores, read from folders like those of the kernel.
#include "troupe/runtime/support/numa.hpp"

#include "tests/support/doctest.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace plan_numa_test {

using namespace troupe;
namespace fs = std::filesystem;

namespace {

struct fake_system {
  fs::path folder = fs::temp_directory_path() / ("troupe-numa-" + std::to_string(::getpid()));
  fake_system() { fs::create_directories(folder); }
  ~fake_system() { fs::remove_all(folder); }

  void says(const std::string& node, const std::string& cpulist) const {
    fs::create_directories(folder / node);
    std::ofstream(folder / node / "cpulist", std::ios::binary) << cpulist;
  }
};

/// Returns text such as "0: 0 1; 1: 2 3", or "0: any".
std::string text_of(const std::vector<numa_node>& nodes) {
  std::string text;
  for (const auto& node : nodes) {
    text += (text.empty() ? "" : "; ") + std::to_string(node.id) + ":";
    for (const int core : node.cores) text += " " + std::to_string(core);
    if (node.cores.empty()) text += " any";
  }
  return text;
}

}  // namespace

TEST_CASE("two nodes have the cores that their lists name, in the order of their numbers") {
  const fake_system system;
  system.says("node10", "5\n");
  system.says("node1", "2-3,6-7\n");
  system.says("node0", "0-1,4\n");
  CHECK(text_of(numa_nodes(system.folder)) == "0: 0 1 4; 1: 2 3 6 7; 10: 5");
}

TEST_CASE("a node of memory alone, or one that is offline, is none to run on") {
  const fake_system system;
  system.says("node0", "0-1\n");
  system.says("node1", "\n");  // memory without cores
  system.says("node2", "");
  fs::create_directories(system.folder / "node3");  // offline
  CHECK(text_of(numa_nodes(system.folder)) == "0: 0 1");
}

TEST_CASE("what lies beside the nodes is passed by") {
  const fake_system system;
  system.says("node0", "0");  // without a line end
  system.says("nodes", "1\n");
  system.says("node", "1\n");
  system.says("node01", "1\n");
  system.says("node1a", "1\n");
  system.says("node-1", "1\n");
  system.says("node99999999999", "1\n");
  system.says("power", "1\n");
  std::ofstream(system.folder / "online") << "0\n";
  CHECK(text_of(numa_nodes(system.folder)) == "0: 0");
}

TEST_CASE("a list that cannot be makes one node of any core") {
  for (const std::string odd : {"x",
                                "0-",
                                "-1",
                                "3-1",
                                "0,",
                                ",0",
                                "0,,1",
                                "0-1-2",
                                "0 1",
                                " 0",
                                "0\n\n",
                                "0-3,2",
                                "1,0",
                                "0,0",
                                "+1",
                                "0x1",
                                "65536",
                                "0-4294967295",
                                "99999999999999999999",
                                "2-3",
                                "0-1\n1"}) {
    CAPTURE(odd);
    const fake_system system;
    system.says("node0", odd);
    system.says("node1", "2-3\n");
    CHECK(text_of(numa_nodes(system.folder)) == "0: any");
  }
}

TEST_CASE("a list that does not end makes one node of any core") {
  const fake_system system;
  system.says("node0", std::string(100'000, '1'));
  CHECK(text_of(numa_nodes(system.folder)) == "0: any");
}

TEST_CASE("a list that cannot be read makes one node of any core") {
  const fake_system system;
  fs::create_directories(system.folder / "node0" / "cpulist");
  CHECK(text_of(numa_nodes(system.folder)) == "0: any");
}

TEST_CASE("a machine that says nothing of nodes is one of any core") {
  const fake_system system;
  CHECK(text_of(numa_nodes(system.folder)) == "0: any");
  CHECK(text_of(numa_nodes(system.folder / "missing")) == "0: any");
  system.says("node0", "0\n");
  CHECK(text_of(numa_nodes(system.folder / "node0" / "cpulist")) == "0: any");
}

TEST_CASE("this machine's nodes have only cores that this process may run on") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof(before), &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(::sched_setaffinity(::getpid(), sizeof(one), &one) == 0);
  const auto nodes = numa_nodes();
  REQUIRE(::sched_setaffinity(::getpid(), sizeof(before), &before) == 0);
  REQUIRE(nodes.size() == 1);
  if (!nodes.front().cores.empty()) CHECK(nodes.front().cores == std::vector{first});
}

}  // namespace plan_numa_test

#include "troupe/runtime/plan/replicas.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <string>
#include <vector>

namespace troupe {

namespace {

const std::vector<numa_node> one_node{{.id = 0, .cores = {0, 1}}};
const std::vector<numa_node> two_nodes{{.id = 0, .cores = {0, 2}}, {.id = 1, .cores = {1, 3}}};

topology::topology shared(const std::string& settings, int workers = 5) {
  return topology::parse(
      "[workers]\ncount = " + std::to_string(workers) + "\n[exchange]\nkind = \"shared\"\n" + settings, "shared.toml");
}

using words = std::vector<std::string>;

}  // namespace

TEST_CASE("one memory for the machine is left as it is") {
  const auto file = shared("lock = true\n");
  const auto found = expand_replicas(file, two_nodes);
  CHECK(found.file == file);
  CHECK(found.notes.empty());
  CHECK(file.workers.loop == words{"gradient", "apply"});
}

TEST_CASE("a memory for each NUMA node, and the first workers of each average") {
  const auto found = expand_replicas(shared("replicas = \"node\"\nevery = 8\natomic = true\n"), two_nodes);
  const auto& exchanges = found.file.exchanges;
  REQUIRE(exchanges.size() == 3);
  CHECK(exchanges[0].name == "exchange-0");
  CHECK(exchanges[0].members == words{"w0", "w1"});
  CHECK(exchanges[0].every == topology::interval{1, false});
  CHECK(std::get<bool>(exchanges[0].options.at("atomic")));
  CHECK(exchanges[1].members == words{"w2", "w3", "w4"});
  CHECK(exchanges[2].kind == "all_reduce");
  CHECK(exchanges[2].sends == "parameters");
  CHECK(exchanges[2].members == words{"w0", "w2"});
  CHECK(exchanges[2].every == topology::interval{8, false});
  CHECK(found.file.workers.loop == words{"gradient", "apply", "exchange-average"});
  CHECK(found.cores.at("exchange-1") == std::vector<int>{1, 3});
  REQUIRE(found.notes.size() == 1);

  const auto plan = make_plan(shared("replicas = \"node\"\nevery = 8\n"), 12'000, {}, two_nodes);
  CHECK(plan.stores().size() == 2);
  CHECK(plan.memory_of(4) == &plan.exchanges[1]);
  CHECK(plan.exchanges[1].cores == std::vector<int>{1, 3});
  CHECK(plan.exchanges[2].due.every == 8);
  CHECK(describe(plan).find("the average of the shared memories") != std::string::npos);
}

TEST_CASE("on a machine of one NUMA node there is one memory, and a word of it") {
  const auto found = expand_replicas(shared("replicas = \"node\"\nevery = 8\n"), one_node);
  REQUIRE(found.file.exchanges.size() == 1);
  CHECK(found.file.exchanges[0].every == topology::interval{1, false});
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find("one NUMA node") != std::string::npos);
  const auto of_one = expand_replicas(shared("replicas = \"node\"\n", 1), two_nodes);
  CHECK(of_one.file.exchanges.size() == 1);
}

TEST_CASE("a replica for each worker is the averaging of parameters alone") {
  const auto found = expand_replicas(shared("replicas = \"core\"\nevery = \"1 epoch\"\n"), two_nodes);
  REQUIRE(found.file.exchanges.size() == 1);
  CHECK(found.file.exchanges[0].kind == "all_reduce");
  CHECK(found.file.exchanges[0].every == topology::interval{1, true});
  CHECK(found.file.workers.loop == words{"gradient", "apply", "exchange"});
  const auto plan = make_plan(shared("replicas = \"core\"\n"), 12'000, {}, two_nodes);
  CHECK(plan.stores().empty());
  CHECK(plan.promises_bits());
}

TEST_CASE("workers of several hosts, or of several devices, cannot share a memory") {
  const auto on_hosts = [](const std::string& address) {
    return topology::parse(
        "[exchange]\nkind = \"shared\"\n[[node]]\nname = \"a\"\naddress = \"127.0.0.1:4000\"\n"
        "[[node]]\nname = \"b\"\naddress = \"" +
            address + "\"\n",
        "shared.toml");
  };
  CHECK_NOTHROW(make_plan(on_hosts("127.0.0.1:4100"), 12'000));
  CHECK_THROWS_WITH(make_plan(on_hosts("10.0.0.1:4100"), 12'000),
                    doctest::Contains("workers on different hosts cannot share memory"));

  const device::census gpus{.compiled = true, .version = "13.0", .gpus = {"one", "two"}, .problem = {}};
  const auto on_devices = [&](const std::string& devices, const std::string& settings = {}) {
    auto file = shared(settings, 2);
    file.workers.device = {devices, devices == "cpu" ? "cuda:0" : devices};
    return make_plan(file, 12'000, gpus);
  };
  CHECK_NOTHROW(on_devices("cuda:0"));
  CHECK_THROWS_WITH(on_devices("cpu"), doctest::Contains("use one device for both"));
  CHECK_THROWS_WITH(on_devices("cuda:0", "atomic = true\n"), doctest::Contains("require memory on the host"));
}

}  // namespace troupe

#include "troupe/runtime/topology/canonical.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/load.hpp"

#include <random>
#include <string>

namespace topology_canonical_test {

using namespace troupe;

namespace {

const std::string two_nodes =
    "[exchange]\nkind = \"all_reduce\"\n"
    "[[node]]\nname = \"alpha\"\nworkers = 2\n[[node]]\nname = \"beta\"\nworkers = 2\n";

topology::topology parsed(const std::vector<std::string>& overrides = {}) {
  return topology::parse(two_nodes, "/folder/t.toml", overrides);
}

std::string canonical(const std::vector<std::string>& overrides = {}) {
  return topology::canonical(parsed(overrides));
}

std::string differences(const std::vector<std::string>& theirs) {
  return topology::differences(canonical(), canonical(theirs));
}

}  // namespace

TEST_CASE("the canonical text says every key once, with its default") {
  const auto text = canonical();
  CHECK(text.starts_with("format = 1\nrun.seed = 0\nrun.epochs = 1\n"));
  CHECK(text.find("workers.count = 4\n") != std::string::npos);
  CHECK(text.find("exchange.0.route = \"auto\"\n") != std::string::npos);
  CHECK(
      text.ends_with("node.1.name = \"beta\"\nnode.1.address = \"127.0.0.1:0\"\nnode.1.workers = 2\n"
                     "transport.control = \"auto\"\n"));
}

TEST_CASE("what is a node's own affair is not in the canonical text") {
  const auto text = canonical();
  CHECK(canonical({"model.init=w.safetensors", "data.dir=/data", "node.beta.listen=[::1]:1"}) == text);
  CHECK(topology::canonical(topology::parse(topology::print(parsed()), "/elsewhere/u.toml")) == text);
  CHECK(canonical({"run.seed=1"}) != text);
  CHECK(canonical({"node.0.name=beta", "node.1.name=alpha"}) != text);
}

TEST_CASE("differing topologies are told apart key by key") {
  CHECK(differences({}).empty());
  CHECK(differences({"optimizer.lr=0.02"}) == "optimizer.lr is 0.02 there and 0.01 here");
  CHECK(topology::differences(canonical(), canonical({"optimizer.lr=0.02"}), {"on node a", "on node b"}) ==
        "optimizer.lr is 0.02 on node a and 0.01 on node b");
  CHECK(differences({"run.steps=5"}) == "run.epochs is unset there and 1 here; run.steps is 5 there and unset here");
  CHECK(differences({"node.0.name=beta", "node.1.name=alpha"}) ==
        "node.0.name is \"beta\" there and \"alpha\" here; node.1.name is \"alpha\" there and \"beta\" here");
  CHECK(differences({"run.seed=1", "run.threads=2", "data.batch_size=1", "data.shuffle=false", "optimizer.lr=1",
                     "optimizer.momentum=0.5", "run.timeout=1s"})
            .ends_with("; and 2 more"));
}

TEST_CASE("bytes from outside are neither believed nor echoed") {
  const auto ours = canonical();
  CHECK(topology::differences("a = 1\n", "a = 1\na = 1\n") ==
        "both have the same keys and values, but not in the same order or number");
  CHECK(topology::differences("a = 1\n", "a = \x1b[31m\xff\n") == "a is ?[31m? there and 1 here");
  CHECK(topology::differences("a = 1\n", "a = " + std::string(1000, 'x') + "\n") ==
        "a is " + std::string(60, 'x') + "… there and 1 here");
  CHECK(topology::differences(ours, std::string((1 << 20) + 1, 'x')).find("longer than 1 MiB") != std::string::npos);
  CHECK(topology::differences(ours, "").ends_with(" more"));
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    auto theirs = ours;
    for (int edits = 0; edits < 20; ++edits) theirs[random() % theirs.size()] = static_cast<char>(random());
    const auto said = topology::differences(ours, theirs);
    CHECK(said.size() < 2000);
    CHECK(said.find('\x1b') == std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}

}  // namespace topology_canonical_test

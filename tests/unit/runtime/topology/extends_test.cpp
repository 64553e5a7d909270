// Files that extend others.
#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/load.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace topology_extends_test {

using namespace troupe;
namespace fs = std::filesystem;

namespace {

struct scratch {
  fs::path folder = fs::canonical(fs::temp_directory_path()) / ("troupe-extends-" + std::to_string(::getpid()));
  fs::path before = fs::current_path();
  scratch() {
    fs::create_directories(folder / "below");
    fs::current_path(folder);
  }
  ~scratch() {
    fs::current_path(before);
    fs::remove_all(folder);
  }
};

void write(const fs::path& name, const std::string& text) {
  std::ofstream(name) << text;
}

std::string refusal(const fs::path& file, const std::vector<std::string>& overrides = {}) {
  try {
    topology::load(file, overrides);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

const std::string base =
    "format = 1\n[run]\nepochs = 3\nseed = 7\n[optimizer]\nlr = 0.5\nmomentum = 0.5\n[workers]\ncount = 4\n"
    "[exchange]\nkind = \"gossip\"\ngraph = \"ring\"\n";

}  // namespace

TEST_CASE("what a file does not say is what the file that it extends says") {
  const scratch here;
  write("base.toml", base);
  write("own.toml", "extends = \"base.toml\"\n[optimizer]\nlr = 0.25\n[data]\nbatch_size = 8\n");
  const auto t = topology::load("own.toml");
  CHECK(t.optimizer.lr == 0.25);
  CHECK(t.optimizer.momentum == 0.5);
  CHECK(t.run.seed == 7);
  CHECK(t.workers.count == 4);
  CHECK(t.data.batch_size == 8);
  CHECK(t.file == "own.toml");
  REQUIRE(t.exchanges.size() == 1);
  CHECK(t.exchanges[0].kind == "gossip");
  CHECK(topology::load("own.toml", {"optimizer.momentum=0"}).optimizer.momentum == 0);
  // Another optimizer takes what it uses from the file, and leaves the rest.
  const auto adam = topology::load("own.toml", {"optimizer.name=adam"}).optimizer;
  CHECK(adam.lr == 0.25);
  CHECK(adam.momentum == 0);
  CHECK_THROWS_AS(topology::load("own.toml", {"optimizer.momentum=0.9", "optimizer.name=adam"}), input_error);
  write("adam.toml", "extends = \"own.toml\"\n[optimizer]\nname = \"adam\"\n");
  CHECK(topology::load("adam.toml").optimizer.momentum == 0);
}

TEST_CASE("what is printed is complete and extends nothing") {
  const scratch here;
  write("base.toml", base);
  write("own.toml", "extends = \"base.toml\"\n");
  const auto text = topology::print(topology::load("own.toml"));
  CHECK(text.find("extends") == std::string::npos);
  CHECK(text == topology::print(topology::load("base.toml")));
}

TEST_CASE("a key makes another one of the base go that says the same") {
  const scratch here;
  write("base.toml", base + "[data]\nglobal_batch_size = 64\n");
  write("own.toml", "extends = \"base.toml\"\n[run]\nsteps = 5\n[data]\nbatch_size = 8\n");
  const auto t = topology::load("own.toml");
  CHECK(t.run.steps == 5);
  CHECK(!t.run.epochs);
  CHECK(t.data.batch_size == 8);
  CHECK(!t.data.global_batch_size);
}

TEST_CASE("another kind of exchange takes the settings of the base's kind away") {
  const scratch here;
  write("base.toml", base + "every = 4\nsends = \"parameters\"\n");
  write("own.toml", "extends = \"base.toml\"\n[exchange]\nkind = \"star\"\n");
  const auto t = topology::load("own.toml");
  CHECK(t.exchanges[0].kind == "star");
  CHECK(t.exchanges[0].sends == "gradient");
  CHECK(t.exchanges[0].every.count == 4);
  CHECK(!t.exchanges[0].options.contains("graph"));
  write("same.toml", "extends = \"base.toml\"\n[exchange]\nkind = \"gossip\"\n");
  CHECK(std::get<std::string>(topology::load("same.toml").exchanges[0].options.at("graph")) == "ring");
}

TEST_CASE("lists are replaced whole") {
  const scratch here;
  write(
      "base.toml",
      "[data]\nmean = [0.5]\nstd = [0.5]\n[[node]]\nname = \"a\"\nworkers = 2\n[[node]]\nname = \"b\"\nworkers = 3\n");
  write("own.toml", "extends = \"base.toml\"\n[data]\nmean = [0.25]\n[[node]]\nname = \"c\"\n");
  const auto t = topology::load("own.toml");
  CHECK(t.data.mean == std::vector{0.25});
  CHECK(t.data.std == std::vector{0.5});
  REQUIRE(t.nodes.size() == 1);
  CHECK(t.nodes[0].name == "c");
}

TEST_CASE("a chain of files, each with paths of its own") {
  const scratch here;
  write("below/first.toml", "[data]\nname = \"mnist\"\ndir = \"data\"\n[run]\nseed = 1\n");
  write("below/second.toml", "extends = \"first.toml\"\n[run]\nseed = 2\n");
  write("own.toml", "extends = \"below/second.toml\"\n[model]\ninit = \"begin.safetensors\"\n");
  const auto t = topology::load("own.toml");
  CHECK(t.run.seed == 2);
  CHECK(t.data.dir == here.folder / "below" / "data");
  CHECK(t.model.init == here.folder / "begin.safetensors");
}

TEST_CASE("a mistake is located in the file that it stands in") {
  const scratch here;
  write("below/base.toml", "[optimizer]\nlrr = 0.1\n");
  write("own.toml", "extends = \"below/base.toml\"\n[run]\nseed = \"one\"\n");
  const auto said = refusal("own.toml");
  CHECK(said.starts_with("own.toml:3:8: run.seed is \"one\""));
  CHECK(said.find("\nbelow/base.toml:2:1: [optimizer] has no key \"lrr\"") != std::string::npos);
  write("below/base.toml", "[run\n");
  CHECK(refusal("own.toml").starts_with("below/base.toml:1:"));
  write("below/base.toml", "format = 2\n");
  CHECK(refusal("own.toml").find("below/base.toml:1:10: format is 2; expected") != std::string::npos);
}

TEST_CASE("a file that is not there, is no text or cannot be set is refused where it is named") {
  const scratch here;
  write("base.toml", "");
  write("own.toml", "extends = \"bese.toml\"\n");
  CHECK(refusal("own.toml") ==
        "own.toml:1:11: extends bese.toml: no such file; expected a topology file (did you mean "
        "\"base.toml\"?)");
  write("own.toml", "extends = 3\n");
  CHECK(refusal("own.toml").starts_with("own.toml:1:11: extends is 3; expected"));
  write("own.toml", "extends = \"below\"\n");
  CHECK(refusal("own.toml").starts_with("own.toml:1:11: extends below: this is a folder"));
  CHECK(refusal("base.toml", {"extends=own.toml"}) ==
        "--set #1: extends cannot be set on the command line; expected it at the top of the file");
}

TEST_CASE("files that extend each other in a circle are refused by name") {
  const scratch here;
  write("a.toml", "extends = \"b.toml\"\n");
  write("b.toml", "extends = \"below/../a.toml\"\n");
  CHECK(refusal("a.toml") ==
        "b.toml:1:11: a.toml extends b.toml extends a.toml in a circle; expected a file that does not extend this "
        "one");
  write("self.toml", "extends = \"self.toml\"\n");
  CHECK(refusal("self.toml").find("self.toml extends self.toml in a circle") != std::string::npos);
}

TEST_CASE("files extend each other 16 deep and no deeper") {
  const scratch here;
  write("0.toml", "[run]\nseed = 9\n");
  for (int i = 1; i <= 17; ++i)
    write(std::to_string(i) + ".toml", "extends = \"" + std::to_string(i - 1) + ".toml\"\n");
  CHECK(topology::load("16.toml").run.seed == 9);
  CHECK(refusal("17.toml").starts_with("1.toml:1:11: files extend each other more than 16 levels deep"));
}

}  // namespace topology_extends_test

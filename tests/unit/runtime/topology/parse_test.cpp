#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/load.hpp"

#include <filesystem>
#include <random>
#include <string>

namespace topology_parse_test {

using namespace troupe;
namespace fs = std::filesystem;

namespace {

const fs::path root = TROUPE_SOURCE_DIR;

topology::topology parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return topology::parse(text, "/folder/t.toml", overrides);
}

const std::string star = "[workers]\ncount = 4\n[exchange]\nkind = \"star\"\n";
const std::string two_exchanges =
    "[workers]\nloop = [\"gradient\", \"inner\", \"outer\", \"apply\"]\n"
    "[[exchange]]\nname = \"inner\"\nkind = \"star\"\n[[exchange]]\nname = \"outer\"\nkind = \"all_reduce\"\n";
const std::string two_nodes =
    "[[node]]\nname = \"alpha\"\n"
    "[[node]]\nname = \"beta\"\naddress = \"10.0.0.1:4700\"\nlisten = \"[::1]:4800\"\nworkers = 3\n";

}  // namespace

TEST_CASE("an empty file is one worker that trains for one epoch") {
  const auto t = parsed("");
  CHECK(t.run.epochs == 1);
  CHECK(!t.run.steps);
  CHECK(t.workers.count == 1);
  CHECK(t.workers.loop == std::vector<std::string>{"gradient", "apply"});
  CHECK(t.exchanges.empty());
  CHECK(t.file == "/folder/t.toml");
}

TEST_CASE("an exchange brings its loop, what it sends, and its settings") {
  const auto t = parsed(star);
  CHECK(t.workers.loop == std::vector<std::string>{"gradient", "exchange", "apply"});
  REQUIRE(t.exchanges.size() == 1);
  CHECK(t.exchanges[0].sends == "gradient");
  CHECK((t.exchanges[0].options == setting_values{{"bucket_mb", 25.0}, {"send", std::string("whole")}}));
}

TEST_CASE("workers without an exchange train alone") {
  CHECK(parsed("workers.count = 4").workers.loop == std::vector<std::string>{"gradient", "apply"});
}

TEST_CASE("every key of a file reaches its member") {
  const auto t = parsed(R"(
format = 1
[run]
seed = 7
steps = 0
threads = 2
timeout = "1.5s"
max_seconds = 0.25
[model]
name = "lenet"
init = "w.safetensors"
loss = "nll"
[data]
name = "mnist"
dir = "../data"
global_batch_size = 64
shuffle = false
split = "all"
mean = [0.5]
std = [1]
[optimizer]
lr = 1
momentum = 0.9
weight_decay = 1e-4
nesterov = true
[workers]
count = 4
device = "cpu"
[evaluate]
every = 10
batch_size = 500
target_accuracy = 0.95
target_hold = 3
patience = 5
[checkpoint]
every = "500 steps"
keep = 3
)");
  CHECK(t.run.seed == 7);
  CHECK(t.run.steps == 0);
  CHECK(!t.run.epochs);
  CHECK(t.run.threads == 2);
  CHECK(t.run.timeout.count() == 1500);
  CHECK(t.run.max_seconds->count() == 250);
  CHECK(t.model.name == "lenet");
  CHECK(t.model.init == "/folder/w.safetensors");
  CHECK(t.model.loss == "nll");
  CHECK(t.data.name == "mnist");
  CHECK(t.data.dir == "/data");
  CHECK(t.data.global_batch_size == 64);
  CHECK(t.data.batch_size == 16);
  CHECK(!t.data.shuffle);
  CHECK(t.data.split == "all");
  CHECK(t.data.mean == std::vector<double>{0.5});
  CHECK(t.data.std == std::vector<double>{1});
  CHECK(t.optimizer.lr == 1);
  CHECK(t.optimizer.momentum == 0.9);
  CHECK(t.optimizer.weight_decay == 1e-4);
  CHECK(t.optimizer.nesterov);
  CHECK(t.workers.count == 4);
  CHECK(t.workers.device == std::vector<std::string>{"cpu"});
  CHECK(t.evaluate.every == topology::interval{10, false});
  CHECK(t.evaluate.batch_size == 500);
  CHECK(t.evaluate.target_accuracy == 0.95);
  CHECK(t.evaluate.target_hold == 3);
  CHECK(t.evaluate.patience == 5);
  CHECK(t.checkpoint.every == topology::interval{500, false});
  CHECK(t.checkpoint.keep == 3);
}

TEST_CASE("a matrix and pairs of names reach the exchange that takes them") {
  using matrix = std::vector<std::vector<double>>;
  using pairs = std::vector<std::vector<std::string>>;
  const std::string gossip = "[workers]\ncount = 2\n[exchange]\nkind = \"gossip\"\n";
  const auto options = [&](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return parsed(gossip + text, overrides).exchanges.at(0).options;
  };
  CHECK((options("") == setting_values{{"buffers", std::string("local")}, {"weights", std::string("metropolis")}}));
  CHECK((options("weights = \"uniform\"\n").at("weights") == setting_value(std::string("uniform"))));
  const setting_value half = matrix{{0.5, 0.5}, {0.5, 0.5}};
  CHECK((options("weights = [[0.5, 0.5], [0.5, 0.5]]\n") ==
         setting_values{{"buffers", std::string("local")}, {"weights", half}}));
  CHECK((options("weights = [\n  [0.25, 0.75],\n  [0.75, 0.25],\n]\n").at("weights") ==
         setting_value(matrix{{0.25, 0.75}, {0.75, 0.25}})));
  CHECK((options("weights = \"uniform\"\n", {"exchange.weights=[[0.5, 0.5], [0.5, 0.5]]"}).at("weights") == half));
  CHECK((options("weights = [[1]]\n", {"exchange.weights=metropolis"}).at("weights") ==
         setting_value(std::string("metropolis"))));
  const setting_value edge = pairs{{"w0", "w1"}};
  CHECK((options("edges = [[\"w0\", \"w1\"]]\n").at("edges") == edge));
  CHECK((options("", {"exchange.edges=[[\"w0\", \"w1\"]]"}).at("edges") == edge));
  CHECK((options("edges = []\n", {"workers.count=1"}).at("edges") == setting_value(pairs{})));
}

TEST_CASE("overrides are TOML values, else strings, and the last one wins") {
  const auto t = parsed("[run]\nseed = 1\n", {"run.seed=2", "run.seed = 3", "data.name=mnist", "run.timeout=5min",
                                              "workers.loop=[\"gradient\", \"apply\"]", "optimizer.lr=1"});
  CHECK(t.run.seed == 3);
  CHECK(t.data.name == "mnist");
  CHECK(t.run.timeout == std::chrono::minutes(5));
  CHECK(t.optimizer.lr == 1);
}

TEST_CASE("an override puts aside the key that it excludes") {
  CHECK(parsed("[run]\nepochs = 3\n", {"run.steps=50"}).run.steps == 50);
  CHECK(!parsed("[run]\nepochs = 3\n", {"run.steps=50"}).run.epochs);
  CHECK(parsed("workers.count = 2\ndata.batch_size = 8\n", {"data.global_batch_size=6"}).data.batch_size == 3);
}

TEST_CASE("an override replaces what the file says of another kind or graph, but no other override") {
  const std::string ring = "[workers]\ncount = 4\n[exchange]\nkind = \"all_reduce\"\nroute = \"ring\"\n";
  const auto kind = topology::parse(ring, "t.toml", {"exchange.kind=gossip"}).exchanges[0];
  CHECK((kind.kind == "gossip" && kind.sends == "parameters" && !kind.options.contains("route")));
  CHECK_THROWS_AS(topology::parse(ring, "t.toml", {"exchange.route=chain", "exchange.kind=gossip"}), input_error);
  const std::string torus =
      "[workers]\ncount = 4\n[exchange]\nkind = \"gossip\"\ngraph = \"torus\"\nrows = 2\ncolumns = 2\n";
  const auto edges = topology::parse(torus, "t.toml", {R"(exchange.edges=[["w0","w1"],["w1","w2"],["w2","w3"]])"});
  CHECK((edges.exchanges[0].options.contains("edges") && !edges.exchanges[0].options.contains("graph")));
  CHECK_THROWS_AS(topology::parse(torus, "t.toml", {"exchange.graph=ring", R"(exchange.edges=[["w0","w1"]])"}),
                  input_error);
}

TEST_CASE("an override makes the section that it needs") {
  const auto t = parsed("", {"workers.count=2", "exchange.kind=all_reduce", "exchange.route=ring"});
  REQUIRE(t.exchanges.size() == 1);
  CHECK(std::get<std::string>(t.exchanges[0].options.at("route")) == "ring");
}

TEST_CASE("one of several exchanges is overridden by name or by index") {
  CHECK(std::get<std::string>(parsed(two_exchanges, {"exchange.outer.route=ring"}).exchanges[1].options.at("route")) ==
        "ring");
  CHECK(std::get<std::string>(parsed(two_exchanges, {"exchange.0.send=parameter"}).exchanges[0].options.at("send")) ==
        "parameter");
}

TEST_CASE("nodes bring their workers") {
  const auto t = parsed(two_nodes);
  REQUIRE(t.nodes.size() == 2);
  CHECK(t.nodes[0] == topology::node_settings{.name = "alpha", .address = "127.0.0.1:0", .listen = "", .workers = 1});
  CHECK(t.nodes[1] ==
        topology::node_settings{.name = "beta", .address = "10.0.0.1:4700", .listen = "[::1]:4800", .workers = 3});
  CHECK(t.workers.count == 4);
  CHECK(parsed(two_nodes + "[data]\nglobal_batch_size = 8\n").data.batch_size == 2);
  CHECK(parsed("[workers]\ncount = 4\n" + two_nodes).workers.count == 4);
  CHECK(parsed("[node]\nname = \"only\"\n").nodes.size() == 1);
  CHECK(parsed("").nodes.empty());
}

TEST_CASE("a node is overridden by name or by index") {
  CHECK(parsed(two_nodes, {"node.alpha.workers=2"}).workers.count == 5);
  CHECK(parsed(two_nodes, {"node.0.address=localhost:1"}).nodes[0].address == "localhost:1");
}

TEST_CASE("nodes may share a port of different hosts, and hosts with ports apart") {
  const auto with = [](const std::string& a, const std::string& b) {
    return parsed(two_nodes, {"node.alpha.address=" + a, "node.beta.address=" + b}).nodes.size();
  };
  CHECK(with("127.0.0.1:4700", "127.0.0.2:4700") == 2);
  CHECK(with("127.0.0.1:4700", "127.0.0.1:4702") == 2);
  CHECK(with("127.0.0.1:4702", "127.0.0.1:4700") == 2);
  CHECK(with("127.0.0.1:0", "127.0.0.1:0") == 2);
}

TEST_CASE("a path on the command line begins at the current folder") {
  CHECK(parsed("", {"model.init=w.safetensors"}).model.init == fs::current_path() / "w.safetensors");
}

TEST_CASE("every file of the catalogue is a topology") {
  int files = 0;
  for (const auto& each : fs::recursive_directory_iterator(root / "topologies")) {
    if (each.path().extension() != ".toml") continue;
    CAPTURE(each.path());
    const auto t = topology::load(each.path());
    CHECK(t.file == each.path());
    CHECK(topology::parse(topology::print(t), t.file) == t);
    ++files;
  }
  CHECK(files >= 25);
}

TEST_CASE("letters beyond ASCII are welcome in strings and comments") {
  CHECK(parsed("\xef\xbb\xbf# größer\nrun.seed = 1 # “so”\nmodel.init = \"é\\\"é#\" # é\n").model.init ==
        "/folder/é\"é#");
  CHECK(parsed("model.init = \"\"\"\né\"\"é\"\"\"\"\"").model.init == "/folder/é\"\"é\"\"");
  CHECK(parsed("model.init = '''é'''\ndata.dir = 'é'").data.dir == "/folder/é");
}

TEST_CASE("no byte string harms the parser") {
  const std::string alphabet = "[]={}\"'.,#\n\n abcrunexchgod019:-+_\\";
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string base = two_exchanges + two_nodes;
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 2 == 0 ? base : "";
    for (std::size_t edits = 1 + below(i % 2 == 0 ? 4 : 200); edits > 0; --edits) {
      const std::vector<std::string> some = {std::string(1, alphabet[below(alphabet.size())]), "é", "“", "\xe2\x80\xa8",
                                             std::string(1, static_cast<char>(random()))};
      text.insert(below(text.size() + 1), some[below(40) < 36 ? 0 : 1 + below(4)]);
    }
    CAPTURE(text);
    std::vector<std::string> overrides;
    if (i % 8 == 7) overrides.push_back(text);
    try {
      const auto t = parsed(i % 8 == 7 ? "" : text, overrides);
      CHECK(topology::parse(topology::print(t), t.file) == t);
    } catch (const input_error&) {
    }
  }
}

TEST_CASE("a key of a million parts is refused before it is believed") {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += ".a";
  CHECK_THROWS_AS(parsed(text + " = 1"), input_error);
  CHECK_THROWS_AS(parsed("", {text + "=1"}), input_error);
  CHECK_THROWS_AS(parsed(std::string(500'000, '[')), input_error);
  CHECK_THROWS_AS(parsed("a = " + std::string(500'000, '[')), input_error);
  CHECK_THROWS_AS(parsed("", {"run.seed=" + std::string(500'000, '{')}), input_error);
}

TEST_CASE("a list of devices says how many workers there are, where nothing else does") {
  const std::string list = "device = [\"cpu\", \"cuda:1\", \"cpu\"]\n";
  CHECK(topology::parse("[workers]\n" + list, "t.toml").workers.count == 3);
  CHECK(topology::parse("[workers]\ncount = 4\n" + list, "t.toml").workers.count == 4);
  CHECK(topology::parse("[workers]\ndevice = [\"cpu\"]\n", "t.toml").workers.count == 1);
  CHECK(topology::parse("[workers]\n" + list + "[[node]]\nname = \"a\"\nworkers = 2\n", "t.toml").workers.count == 2);
  CHECK(topology::parse("[workers]\n" + list + "[data]\nglobal_batch_size = 12\n", "t.toml").data.batch_size == 4);
}

}  // namespace topology_parse_test

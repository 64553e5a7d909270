#include "tests/support/doctest.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <algorithm>
#include <utility>

using namespace troupe;
using testing::four_workers;

namespace {

/// Returns the message with which make_plan refuses a file.
std::string refusal(const topology::topology& file, const data_facts& facts = 60'000) {
  try {
    make_plan(file, facts);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("what a plan refuses is refused where it is set") {
  const std::string text =
      "[data]\nname = \"mnist\"\nbatch_size = 64\n[workers]\ncount = 2\n"
      "[[exchange]]\nname = \"first\"\nkind = \"gossip\"\n"
      "[[exchange]]\nname = \"second\"\nkind = \"gossip\"\ngraph = \"torus\"\nrows = 1\ncolumns = 2\n";
  const auto said = [&](const std::vector<std::string>& overrides) {
    return refusal(topology::parse(text, "t.toml", overrides));
  };
  CHECK(said({}) == "accepted");
  CHECK(refusal(topology::parse(text, "t.toml"), 100).starts_with("t.toml:3:14: data.batch_size = 64 with"));
  CHECK(said({"run.seed=1", "data.batch_size=100000"}).starts_with("--set #2: data.batch_size = 100000 with"));
  CHECK(said({"run.budget=total"}).starts_with("--set #1: run.budget"));
  auto file = topology::parse(text, "t.toml");
  file.exchanges[1].sends = "gradient";
  CHECK(refusal(file) == "t.toml:9:1: \"gossip\" cannot send \"gradient\"; expected \"parameters\"");
}

TEST_CASE("a plan lists the peers of each port") {
  using indices = std::vector<std::uint32_t>;
  auto file = four_workers();
  file.exchanges[0].options = {{"route", std::string("chain")}};
  const auto chain = make_plan(file, 60'000).exchanges[0];
  CHECK(chain.peers_of(0) == indices{1});
  CHECK(chain.peers_of(2) == indices{1, 3});
  file.exchanges[0] = {.name = "exchange", .kind = "gossip", .members = {"w1", "w2", "w3"}};
  file.exchanges[0].options = {{"graph", std::string("line")}};
  file.workers.loop = {"gradient", "exchange", "apply"};
  const auto line = make_plan(file, 60'000).exchanges[0];
  CHECK(line.peers_of(0) == indices{1});
  CHECK(line.peers_of(1) == indices{0, 2});
  file.exchanges[0] = {.name = "exchange",
                       .kind = "parameter_server",
                       .options = {{"apply", std::string("all")}, {"shards", std::int64_t{2}}}};
  file.workers.loop = {"gradient", "exchange"};
  const auto served = make_plan(file, 60'000).exchanges[0];
  CHECK(served.peers_of(3) == indices{4, 5});
  CHECK(served.peers_of(5) == indices{0, 1, 2, 3});
}

TEST_CASE("the mixing matrix of an exchange is computed once") {
  auto file = four_workers();
  file.exchanges[0] = {.name = "exchange", .kind = "gossip"};
  const auto plan = make_plan(file, 60'000);
  const auto copy = plan;
  CHECK(plan.exchanges[0].mixing() != nullptr);
  CHECK(plan.exchanges[0].mixing() == copy.exchanges[0].mixing());
  CHECK(make_plan(four_workers(), 60'000).exchanges[0].mixing() == nullptr);
}

TEST_CASE("checkpoints are planned in steps") {
  auto file = four_workers();
  CHECK(make_plan(file, 60'000).checkpoint_every == 0);
  file.checkpoint.every = {2, true};
  CHECK(make_plan(file, 60'000).checkpoint_every == 2 * 937);
  file.checkpoint.every = {500, false};
  CHECK(make_plan(file, 60'000).checkpoint_every == 500);
  CHECK(describe(make_plan(file, 60'000)).find("checkpoints every 500 steps; the newest 2 are kept") !=
        std::string::npos);
}

TEST_CASE("replicas are compared only where the wiring keeps them equal") {
  auto file = four_workers();
  CHECK(make_plan(file, 60'000).verify_every == 100);
  CHECK(describe(make_plan(file, 60'000)).find("all workers agree, compared every 100 steps") != std::string::npos);
  file.run.verify_every = 0;
  CHECK(make_plan(file, 60'000).verify_every == 0);
  file.run.verify_every = 7;
  CHECK(make_plan(file, 60'000).verify_every == 7);
  file.exchanges.front().every = {2, false};
  CHECK(make_plan(file, 60'000).verify_every == 0);
}

TEST_CASE("a plan counts steps, elements and actors") {
  const auto plan = make_plan(four_workers(), 60'000);
  CHECK(plan.workers == 4);
  CHECK(plan.steps_per_epoch == 937);  // floor(floor(60000 / 4) / 16)
  CHECK(plan.steps == 2811);
  CHECK(plan.evaluate_every == 937);
  CHECK(plan.layout.parameter_count == 21'840);  // 260 + 5020 + 16050 + 510
  CHECK(plan.layout.parameter_end == 21'904);    // each tensor padded to 16 elements
  CHECK(plan.loss == models::loss_kind::nll);
  CHECK(plan.scale.mean == std::vector{0.1307});
  REQUIRE(plan.actors.size() == 15);
  CHECK(plan.actors[2].name == "worker 2");
  CHECK(plan.actors[6].name == "compute 2");
  CHECK(plan.actors[10].name == "exchange 2");
  CHECK(plan.actors[10].what == role::port);
  CHECK(plan.actors[10].rank == 2);
  CHECK(plan.actors[12].name == "evaluator");
  CHECK(plan.actors[13].name == "coordinator");
  CHECK(plan.actors[14].name == "recorder");
}

TEST_CASE("a description abbreviates long lists of lists") {
  auto file = four_workers();
  file.exchanges = {{.name = "exchange", .kind = "gossip", .sends = "parameters", .options = {}}};
  const auto shown = [&](const std::string& key, const setting_value& value, const std::string& text) {
    file.exchanges[0].options = {{key, value}};
    const auto description = describe(make_plan(file, 60'000));
    CAPTURE(description);
    CHECK(description.find(key + " = " + text) != std::string::npos);
  };
  using pairs = std::vector<std::vector<std::string>>;
  shown("edges", pairs{{"w0", "w1"}, {"w1", "w2"}, {"w2", "w3"}}, "[[w0, w1], [w1, w2], [w2, w3]]");
  shown("edges", pairs{{"w0", "w1"}, {"w1", "w2"}, {"w2", "w3"}, {"w3", "w0"}, {"w0", "w2"}}, "a list of 5 lists");
  const std::vector<double> quarters(4, 0.25), fifths(5, 0.2);
  shown("weights", std::vector(4, quarters),
        "[[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]");
  file.workers.count = 5;
  shown("weights", std::vector(5, fifths), "a list of 5 lists");
}

TEST_CASE("traffic of a step is the sum over the edges of all exchanges") {
  auto file = four_workers();
  file.exchanges.push_back(file.exchanges.front());
  file.exchanges[1].name = "second";
  const auto plan = make_plan(file, 60'000);
  REQUIRE(plan.exchanges.size() == 2);
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  for (const auto& edge : plan.exchanges[0].edges) {
    bytes += edge.bytes;
    messages += edge.messages;
  }
  CHECK(bytes > 0);
  CHECK(plan.bytes_per_step() == 2 * bytes);
  CHECK(plan.messages_per_step() == 2 * messages);
  CHECK(plan.actors.size() == 19);
  CHECK(plan.actors[13].name == "second 1");
}

TEST_CASE("ranks count through the nodes, and the first has what is there but once") {
  auto file = four_workers();
  file.nodes = {{.name = "alpha", .address = "10.0.0.1:4700", .listen = "0.0.0.0:4700", .workers = 1},
                {.name = "beta", .address = "[::1]:0", .listen = "", .workers = 3}};
  const auto plan = make_plan(file, 60'000);
  REQUIRE(plan.nodes.size() == 2);
  CHECK(plan.nodes[0].address == topology::endpoint{"10.0.0.1", 4700});
  CHECK(plan.nodes[0].listen == topology::endpoint{"0.0.0.0", 4700});
  CHECK(plan.nodes[1].name == "beta");
  CHECK(plan.nodes[1].listen == topology::endpoint{"::1", 0});
  CHECK(plan.nodes[1].first_rank == 1);
  CHECK(plan.nodes[1].workers == 3);
  CHECK(plan.node_of(0) == 0);
  CHECK(plan.node_of(1) == 1);
  CHECK(plan.node_of(3) == 1);
  for (const auto& actor : plan.actors) {
    CAPTURE(actor.name);
    CHECK(actor.node == (actor.what < role::evaluator && actor.rank > 0 ? 1 : 0));
  }
  // Of the ring 0 → 1 → 2 → 3 → 0 two edges cross, of six messages each: 2 · 3 chunks.
  CHECK(plan.between_nodes().edges == 2);
  CHECK(plan.between_nodes().messages == 12);
  const auto text = describe(plan);
  CHECK(text.find("alpha, 10.0.0.1:4700: worker 0, listening on 0.0.0.0:4700; evaluator, coordinator, recorder") !=
        std::string::npos);
  CHECK(text.find("beta, [::1]:0: workers 1 to 3\n") != std::string::npos);
  CHECK(text.find("between nodes: 12 messages") != std::string::npos);
  CHECK(text.find(", from beta to alpha") != std::string::npos);
  const auto json = describe_json(plan);
  CHECK(json.find("\"listen\": \"0.0.0.0:4700\"") != std::string::npos);
  CHECK(json.find("\"messages_between_nodes_per_step\": 12") != std::string::npos);
}

TEST_CASE("a description shows messages that are not sent in every step as a fraction") {
  const auto file = topology::parse(R"(
[model]
name = "convnet"
[data]
name = "mnist"
batch_size = 16
[workers]
loop = ["gradient", "left", "right", "apply", "between"]
[[exchange]]
name = "left"
kind = "all_reduce"
members = ["w0", "w1"]
[[exchange]]
name = "right"
kind = "all_reduce"
members = ["w2", "w3"]
[[exchange]]
name = "between"
kind = "gossip"
members = ["left", "right"]
every = 8
[[node]]
name = "alpha"
address = "127.0.0.1:4700"
workers = 2
[[node]]
name = "beta"
address = "127.0.0.1:4702"
workers = 2
)",
                                    "t.toml");
  const auto text = describe(make_plan(file, 60'000));
  CAPTURE(text);
  CHECK(text.find("between nodes: 0.25 messages and ") != std::string::npos);
}

TEST_CASE("a run with a time limit does not promise the same bits") {
  auto file = four_workers();
  CHECK(describe(make_plan(file, 60'000)).find("same bits   yes") != std::string::npos);
  file.run.max_seconds = std::chrono::seconds(2);
  const auto plan = make_plan(file, 60'000);
  CHECK_FALSE(plan.promises_bits());
  CHECK(describe(plan).find("same bits   no: run.max_seconds") != std::string::npos);
}

TEST_CASE("a loss for classes is refused for numeric targets, at the loss") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model.name = "mlp";
  file.model.loss = "cross_entropy";
  data_facts facts{128};
  facts.kind = models::sample_kind::numbers;
  facts.sample_shape = {4};
  CHECK(
      refusal(file, facts) ==
      "four.toml: model.loss = \"cross_entropy\" does not fit the numeric targets of tensors; use \"mse\", or save the "
      "targets as int64 classes");
}

TEST_CASE("a width that the heads of a gpt do not divide is refused at the width") {
  const std::string text = "[data]\nname = \"tensors\"\n[model]\nname = \"gpt\"\n";
  data_facts facts{128};
  facts.kind = models::sample_kind::characters;
  facts.sample_shape = {6};
  facts.class_names = {"a", "b", "c"};
  CHECK(refusal(topology::parse(text, "t.toml", {"run.seed=1", "model.width=10"}), facts) ==
        "--set #2: model.width = 10 is not a multiple of model.heads = 4; use for instance 8 or 12");
}

TEST_CASE("a plan without nodes has one, without a name") {
  const auto plan = make_plan(four_workers(), 60'000);
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].name.empty());
  CHECK(plan.nodes[0].workers == 4);
  CHECK(plan.between_nodes().messages == 0);
  CHECK(describe(plan).find("between nodes") == std::string::npos);
}

TEST_CASE("servers count on from the workers, stand on the first node and hold the result") {
  auto file = four_workers();
  file.workers.loop = {"gradient", "exchange"};
  file.exchanges = {{.name = "exchange",
                     .kind = "parameter_server",
                     .sends = "",
                     .options = {{"apply", std::string("each")}, {"shards", std::int64_t{2}}}}};
  file.nodes = {{.name = "alpha", .address = "10.0.0.1:4700", .workers = 1},
                {.name = "beta", .address = "10.0.0.2:4700", .workers = 3}};
  const auto plan = make_plan(file, 60'000);
  CHECK(plan.servers() == 2);
  const auto& exchange = plan.exchanges[0];
  CHECK(exchange.ids() == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
  CHECK(plan.node_of(5) == 0);
  REQUIRE(plan.actors.size() == 17);
  CHECK(plan.actors[13].name == "exchange server 1");
  CHECK(plan.actors[13].what == role::server);
  CHECK(plan.actors[13].rank == 5);
  CHECK(plan.actors[13].node == 0);
  CHECK(exchange.bytes_held(0) + exchange.bytes_held(1) == 4 * static_cast<std::uint64_t>(plan.layout.parameter_end));
  CHECK(plan.stores() == std::vector{&exchange});
  const auto text = describe(plan);
  CAPTURE(text);
  CHECK(text.find("sends the gradient, answers with the parameters") != std::string::npos);
  CHECK(text.find("2 servers on alpha, holding ") != std::string::npos);
  CHECK(text.find("worker 3 → server 1   1 message, ") != std::string::npos);
  CHECK(text.find(", from beta to alpha") != std::string::npos);
  CHECK(text.find("result      the servers' parameters\n") != std::string::npos);
  CHECK(text.find("; 2 servers; evaluator") != std::string::npos);
  CHECK(text.find("no: the exchange \"exchange\" merges updates in order of arrival") != std::string::npos);
  CHECK(describe_json(plan).find("\"id\": 5") != std::string::npos);
}

TEST_CASE("a check of gossip shows its mixing matrix and how fast it mixes") {
  auto file = four_workers();
  file.exchanges = {{.name = "exchange", .kind = "gossip", .sends = "", .options = {}}};
  const auto text = describe(make_plan(file, 60'000));
  CAPTURE(text);
  CHECK(text.find("W = 0.3333  0.3333  0       0.3333\n") != std::string::npos);
  CHECK(text.find("    0.3333  0       0.3333  0.3333\n") != std::string::npos);
  CHECK(text.find("spectral gap of W: 0.666667") != std::string::npos);  // 1 − |(1 + 2 cos π) / 3| = 1 − 1/3
  CHECK(text.find("result      the average of all workers' parameters\n") != std::string::npos);
  CHECK(describe_json(make_plan(file, 60'000)).find("\"spectral_gap\": 0.66666") != std::string::npos);
  file.workers.count = 12;
  const auto twelve = make_plan(file, 60'000);
  CHECK(describe(twelve).find("W = ") == std::string::npos);
  CHECK(describe(twelve).find("spectral gap of W: ") != std::string::npos);
  CHECK(describe_json(twelve).find("\"mixing_matrix\": [") != std::string::npos);
  file.workers.count = 65;
  CHECK(describe_json(make_plan(file, 60'000)).find("\"mixing_matrix\": null") != std::string::npos);
  CHECK(describe_json(make_plan(four_workers(), 60'000)).find("\"mixing_matrix\": null") != std::string::npos);
}

TEST_CASE("groups exchange over their leaders, and a plan says who they are and when") {
  auto file = four_workers();
  file.workers.loop = {"gradient", "left", "right", "apply", "between"};
  file.exchanges = {{.name = "left",
                     .kind = "all_reduce",
                     .sends = "",
                     .members = {"w0", "w1"},
                     .options = {{"route", std::string("auto")}}},
                    {.name = "right",
                     .kind = "all_reduce",
                     .sends = "",
                     .members = {"w2", "w3"},
                     .options = {{"route", std::string("auto")}}},
                    {.name = "between",
                     .kind = "gossip",
                     .sends = "",
                     .members = {"left", "right"},
                     .every = {.count = 8},
                     .options = {}}};
  const auto plan = make_plan(file, 60'000);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const auto& edge : plan.exchanges[2].edges) edges.emplace_back(edge.from, edge.to);
  std::sort(edges.begin(), edges.end());
  CHECK(edges == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 3}, {3, 2}});
  const auto text = describe(plan);
  CAPTURE(text);
  CHECK(text.find("member right: workers 2 and 3, led by worker 2\n") != std::string::npos);
  CHECK(text.find("among workers 0 and 1\n") != std::string::npos);
  CHECK(text.find("gossip, sends the parameters, every 8 steps") != std::string::npos);
  CHECK(text.find("W = 0.5     0.5\n") != std::string::npos);
  CHECK(text.find("and a port for each exchange that it takes part in") != std::string::npos);
}

TEST_CASE("nodes that do not hold all workers are refused") {
  auto file = four_workers();
  file.nodes = {{.name = "alpha", .workers = 3}};
  CHECK(refusal(file) ==
        "four.toml: workers.count is 4, but the nodes have 3 workers in total; use 3, or remove workers.count, which "
        "defaults to their sum");
  file.nodes.push_back({.name = "beta", .workers = 2});
  CHECK(refusal(file).starts_with("four.toml: workers.count is 4, but the nodes have 5 workers in total"));
  file.nodes[1] = {.name = "beta", .workers = 0};
  CHECK(refusal(file).starts_with("four.toml: node.beta.workers is 0; expected an integer from 1 to "));
  file.nodes[1] = {.name = "beta", .address = "here"};
  CHECK(refusal(file).starts_with("four.toml: node.beta.address is \"here\"; expected host:port"));
}

TEST_CASE("a run without epochs and steps is one epoch") {
  auto file = four_workers();
  file.run.epochs.reset();
  CHECK(make_plan(file, 60'000).steps == 937);
}

TEST_CASE("a run of no steps is legal") {
  auto file = four_workers();
  file.run.epochs.reset();
  file.run.steps = 0;
  CHECK(make_plan(file, 60'000).steps == 0);
}

TEST_CASE("an evaluation interval counts in steps or in epochs") {
  auto file = four_workers();
  file.evaluate.every = {.count = 100, .in_epochs = false};
  CHECK(make_plan(file, 60'000).evaluate_every == 100);
  file.evaluate.every = {.count = 2, .in_epochs = true};
  CHECK(make_plan(file, 60'000).evaluate_every == 1874);
}

TEST_CASE("a global batch is divided among the workers") {
  auto file = four_workers();
  file.data.global_batch_size = 256;
  CHECK(make_plan(file, 60'000).sampling.batch_size == 64);
  file.data.global_batch_size = 255;
  CHECK(
      refusal(file) ==
      "four.toml: data.global_batch_size is 255, which 4 workers cannot share equally; expected a multiple of 4, such "
      "as 252 or 256");
  file.data.global_batch_size = 3;
  CHECK(refusal(file).ends_with("expected a multiple of 4, such as 4"));
}

TEST_CASE("a batch larger than a worker's share is refused with the largest that fits") {
  auto file = four_workers();
  file.data.batch_size = 9000;
  CHECK(refusal(file, 12'000) ==
        "four.toml: data.batch_size = 9000 with workers.count = 4 gives no full batch, because there are only 12000 "
        "samples; use at most "
        "3000");
  file.data.split = "all";
  CHECK(make_plan(file, 12'000).steps_per_epoch == 1);
  file.data.split = "strided";
  file.data.global_batch_size = 36'000;
  CHECK(refusal(file, 12'000) ==
        "four.toml: data.global_batch_size = 36000 with workers.count = 4 gives no full batch, because there are only "
        "12000 samples; use at "
        "most 12000");
}

TEST_CASE("a model returns scores for each sample, or for each position where these have targets") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model.name = "gpt";
  file.model.layers = 1;
  file.model.width = 8;
  file.model.heads = 2;
  data_facts facts{128};
  facts.kind = models::sample_kind::characters;
  facts.sample_shape = {6};
  facts.class_names = {"a", "b", "c"};
  CHECK(refusal(file, facts) ==
        "four.toml: model.name = \"gpt\" does not fit data.name = \"tensors\": for 2 samples of 6 it returns [2×6×3], "
        "but the loss cross_entropy requires [2×3]; change its last layer, or model.loss");
  facts.sequences = true;
  CHECK(refusal(file, facts) == "accepted");
  CHECK(describe(make_plan(file, facts)).find("128 training samples of 6 positions, 3 classes per position") !=
        std::string::npos);
}

TEST_CASE("a description says what the extents of samples count") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model = {};
  file.model.name = "mlp";
  data_facts facts{128};
  const auto said = [&](models::sample_kind kind, std::vector<std::int64_t> shape) {
    facts.kind = kind;
    facts.sample_shape = std::move(shape);
    return describe(make_plan(file, facts));
  };
  using models::sample_kind;
  CHECK(said(sample_kind::numbers, {7}).find("of 7 features, numeric targets\n") != std::string::npos);
  CHECK(said(sample_kind::numbers, {7, 5}).find("of 7×5, numeric targets\n") != std::string::npos);
  CHECK(said(sample_kind::images, {1, 4, 4}).find("of 1×4×4, numeric targets, not normalised") != std::string::npos);
  file.model = {};
  file.model.name = "matrix_completion";
  CHECK(said(sample_kind::sparse, {7, 5}).find("of 7×5 (users × items), numeric targets\n") != std::string::npos);
  file.model = {};
  file.model.name = "logistic";
  facts.class_names = {"-1", "1"};
  CHECK(said(sample_kind::sparse, {7}).find("of 7 columns, 2 classes\n") != std::string::npos);
}

TEST_CASE("more workers than samples are refused") {
  auto file = four_workers();
  file.workers.count = 13;
  CHECK(refusal(file, 12) ==
        "four.toml: workers.count = 13 leaves a worker without samples: mnist has only 12; use at most 12 workers");
}

TEST_CASE("epochs with more steps than can be counted are refused") {
  auto file = four_workers();
  file.run.epochs = 1'000'000;
  CHECK(refusal(file, 1'000'000'000'000).find("run.epochs = 1000000 is too many; use at most ") != std::string::npos);
  file.run.epochs = 1'000'001;
  CHECK(refusal(file) == "four.toml: run.epochs is 1000001; expected an integer from 0 to 1000000");
}

TEST_CASE("inputs are scaled as published, as given, or not at all") {
  auto file = four_workers();
  file.data.mean = {0.5};
  file.data.std = {0.25};
  CHECK(make_plan(file, 60'000).scale.std == std::vector{0.25});
  file.data.std = {0};
  CHECK(refusal(file) == "four.toml: data.std is [0.0]; expected a list of numbers, each above 0 and at most 1000000");
  file.data.std = {};
  CHECK(refusal(file) == "four.toml: data.mean is set without data.std; expected both");
  file.data.mean = {0.1, 0.2, 0.3};
  file.data.std = {1};
  CHECK(refusal(file) == "four.toml: data.mean has 3 numbers; expected 1, one for each channel of mnist");
  file.data.normalize = false;
  CHECK(refusal(file) == "four.toml: data.mean has no effect with data.normalize = false; remove one of the two keys");
  file.data.mean = file.data.std = {};
  CHECK(make_plan(file, 60'000).scale.mean.empty());
}

TEST_CASE("a name that no registry knows is refused with those it does") {
  auto file = four_workers();
  file.model.name = "convent";
  CHECK(refusal(file).starts_with("four.toml: model.name is \"convent\"; expected \"convnet\", \"lenet\""));
  CHECK(refusal(file).ends_with("did you mean \"convnet\"?)"));
  file = four_workers();
  file.exchanges[0].kind = "gossip_girl";
  CHECK(refusal(file).starts_with("four.toml: exchange.kind is \"gossip_girl\"; expected \"star\""));
  file.exchanges[0].kind = "";
  CHECK(refusal(file).starts_with("four.toml: exchange.kind is \"\"; expected \"star\""));
  file = four_workers();
  file.exchanges[0].sends = "regards";
  CHECK(refusal(file) == "four.toml: exchange.sends is \"regards\"; expected \"gradient\" or \"parameters\"");
}

TEST_CASE("a missing data folder is wrong input") {
  auto file = four_workers();
  file.data.dir = "no-such-folder";
  CHECK_THROWS_AS(load_data(file), input_error);
}

namespace {

/// A build with CUDA on a machine with so many GPUs.
device::census machine_with(std::size_t gpus) {
  return {.compiled = true,
          .version = "13.0",
          .gpus = std::vector<std::string>(gpus, "Test GPU"),
          .problem = gpus == 0 ? "no driver" : ""};
}

std::string refusal_on(const topology::topology& file, const device::census& machine) {
  try {
    make_plan(file, 60'000, machine);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

std::string dealt(const std::vector<std::string>& device, std::size_t gpus) {
  auto file = four_workers();
  file.workers.device = device;
  std::string text;
  for (const auto& each : make_plan(file, 60'000, machine_with(gpus)).devices) text += each.str() + " ";
  return text;
}

}  // namespace

TEST_CASE("devices are dealt to the workers in turn") {
  CHECK(dealt({"auto"}, 0) == "cpu cpu cpu cpu ");
  CHECK(dealt({"auto"}, 1) == "cuda:0 cuda:0 cuda:0 cuda:0 ");
  CHECK(dealt({"cuda"}, 3) == "cuda:0 cuda:1 cuda:2 cuda:0 ");
  CHECK(dealt({"cuda:1"}, 2) == "cuda:1 cuda:1 cuda:1 cuda:1 ");
  CHECK(dealt({"cuda:1", "cpu"}, 2) == "cuda:1 cpu cuda:1 cpu ");
  CHECK(dealt({"cpu"}, 2) == "cpu cpu cpu cpu ");
}

TEST_CASE("devices are dealt anew in each node") {
  auto file = four_workers();
  file.workers.device = {"cuda"};
  file.nodes = {{.name = "a", .workers = 1}, {.name = "b", .workers = 3}};
  std::string text;
  for (const auto& each : make_plan(file, 60'000, machine_with(2)).devices) text += each.str() + " ";
  CHECK(text == "cuda:0 cuda:0 cuda:1 cuda:0 ");
}

TEST_CASE("a device that is not there is refused with what there is") {
  auto file = four_workers();
  file.workers.device = {"cuda:0"};
  CHECK(refusal_on(file, {}) ==
        "four.toml: workers.device = \"cuda:0\" requires CUDA, but this build does not include it; use \"cpu\", or a "
        "build with "
        "the CMake preset cuda");
  CHECK(refusal_on(file, machine_with(0)) ==
        "four.toml: workers.device = \"cuda:0\" requires a GPU, but CUDA finds none: no driver; use \"cpu\", or check "
        "that "
        "nvidia-smi lists the GPU");
  file.workers.device = {"cuda:0", "cuda:2"};
  CHECK(refusal_on(file, machine_with(2)) ==
        "four.toml: workers.device = [\"cuda:0\", \"cuda:2\"] names cuda:2, but this machine has 2 GPUs, cuda:0 and "
        "cuda:1; use one of these, or \"cuda\" for all of them");
  file.workers.device = {"tpu"};
  CHECK(refusal_on(file, machine_with(2)).find("workers.device is \"tpu\"; expected \"auto\"") != std::string::npos);
  file.workers.device = {};
  CHECK(refusal_on(file, machine_with(2)).find("workers.device is []; expected \"auto\"") != std::string::npos);
}

TEST_CASE("NCCL is refused where it cannot add up, with what to use instead") {
  auto file = four_workers();
  file.exchanges.front().options = {{"route", std::string("auto")}, {"engine", std::string("nccl")}};
  file.workers.device = {"cuda"};
  CHECK(refusal_on(file, machine_with(4)) == "accepted");
  CHECK(refusal_on(file, machine_with(2)) ==
        "four.toml: exchange: engine = \"nccl\" requires one GPU per worker, but workers 0 and 2 share cuda:0; use "
        "engine = "
        "\"troupe\", or give each worker its own GPU");
  auto mixed = file;
  mixed.workers.device = {"cuda:0", "cpu"};
  CHECK(refusal_on(mixed, machine_with(4)) ==
        "four.toml: exchange: engine = \"nccl\" requires GPUs, but worker 1 computes on the cpu; use engine = "
        "\"troupe\"");
  auto apart = file;
  apart.nodes = {{.name = "a", .workers = 2}, {.name = "b", .workers = 2}};
  CHECK(refusal_on(apart, machine_with(4)).find("does not support several [[node]]s") != std::string::npos);
  auto plain = file;
  plain.workers.device = {"cpu"};
  CHECK(refusal_on(plain, {}) ==
        "four.toml: exchange: engine = \"nccl\" requires CUDA, but this build does not include it; use engine = "
        "\"troupe\"");
}

TEST_CASE("the plan says where workers compute, and that GPUs keep no bits") {
  auto file = four_workers();
  file.workers.device = {"cuda"};
  const auto plan = make_plan(file, 60'000, machine_with(2));
  CHECK_FALSE(plan.promises_bits());
  CHECK(plan.deterministic());
  CHECK(describe(plan).find("on cuda:0 (2 workers), cuda:1 (2 workers)") != std::string::npos);
  CHECK(describe(plan).find("same bits   no: cuda:0 (2 workers), cuda:1 (2 workers) may sum in a different order") !=
        std::string::npos);
  file.workers.device = {"cpu", "cpu"};
  CHECK(describe(make_plan(file, 60'000, machine_with(2))).find("device cpu") != std::string::npos);
  CHECK(make_plan(file, 60'000, machine_with(2)).promises_bits());
  file.workers.device = {"cuda"};
  file.exchanges.front().options = {{"route", std::string("auto")}, {"engine", std::string("nccl")}};
  CHECK(describe(make_plan(file, 60'000, machine_with(4))).find("no: exchange (NCCL) may sum in a different order") !=
        std::string::npos);
}

namespace {

/// The same on ResNet-20, which has batch norm.
topology::topology four_residual() {
  auto file = four_workers();
  file.model.name = "resnet20";
  file.exchanges[0].options = {{"route", std::string("auto")}, {"send", std::string("bucket")}, {"bucket_mb", 0.25}};
  return file;
}

}  // namespace

TEST_CASE("buckets cover the parameters once, from the back, and carry as many bytes as the whole") {
  auto file = four_residual();
  const auto plan = make_plan(file, 60'000);
  const auto& buckets = plan.exchanges[0].buckets;
  REQUIRE(buckets.size() >= 4);
  auto end = plan.layout.parameter_end;
  for (const auto& bucket : buckets) {  // gradients come in the reverse order of registration here
    CHECK(bucket.first + bucket.count == end);
    end = bucket.first;
  }
  CHECK(end == 0);
  file.exchanges[0].options["send"] = std::string("whole");
  const auto whole = make_plan(file, 60'000);
  CHECK(whole.exchanges[0].buckets.empty());
  CHECK(plan.bytes_per_step() == whole.bytes_per_step());
  CHECK(plan.messages_per_step() > whole.messages_per_step());
}

TEST_CASE("synchronised norms are an exchange of their own, of each layer forward and backward") {
  auto file = four_residual();
  file.model.sync_batch_norm = true;
  const auto plan = make_plan(file, 60'000);
  REQUIRE(plan.norms());
  CHECK(plan.norms()->name == "batch_norm");
  CHECK(plan.norms()->buckets.size() == 2 * 21);  // the stem, 18 in blocks, 2 where blocks change their width
  CHECK(plan.buffers_agree());
  CHECK(plan.replicas_agree());
  file.model.sync_batch_norm = false;
  CHECK_FALSE(make_plan(file, 60'000).buffers_agree());
}

TEST_CASE("synchronised norms are refused where workers do not go through their layers together") {
  auto file = four_residual();
  file.model.sync_batch_norm = true;
  SUBCASE("a model without them") {
    file.model.name = "lenet";
    CHECK(refusal(file).find("lenet has no batch norm") != std::string::npos);
    return;
  }
  SUBCASE("no exchange") {
    file.exchanges.clear();
    file.workers.loop = {"gradient", "apply"};
  }
  SUBCASE("parameters") {
    file.exchanges[0] = {.name = "exchange", .kind = "all_reduce", .sends = "parameters", .options = {}};
    file.exchanges[0].options = {{"route", std::string("auto")}};
  }
  SUBCASE("some of the workers") {
    file.exchanges[0].members = {"w0", "w1"};
  }
  SUBCASE("not each step") {
    file.exchanges[0].every = {2, false};
  }
  CHECK(refusal(file).find("requires every worker to run forward and backward in lockstep") != std::string::npos);
}

TEST_CASE("micro-batches divide a worker's batch") {
  auto file = four_workers();
  file.data.micro_batch_size = 4;
  CHECK(make_plan(file, 60'000).micro_batches == 4);
  file.data.micro_batch_size = 5;
  CHECK(refusal(file).find(
            "data.micro_batch_size is 5, which does not divide a worker's batch of 16; expected for instance 4") !=
        std::string::npos);
}

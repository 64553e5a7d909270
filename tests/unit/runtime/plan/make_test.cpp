#include "tests/support/doctest.hpp"
#include "tests/support/one_peer.hpp"
#include "tests/support/plan_refusal.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plan_make_test {

using namespace troupe;
using testing::four_workers;
using testing::refusal;

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
  const auto chain = make_plan(file, 60'000).traffic[0];
  CHECK(chain.peers.at(0) == indices{1});
  CHECK(chain.peers.at(2) == indices{1, 3});
  file.exchanges[0] = {.name = "exchange", .kind = "gossip", .members = {"w1", "w2", "w3"}};
  file.exchanges[0].options = {{"graph", std::string("line")}};
  file.workers.loop = {"gradient", "exchange", "apply"};
  const auto line = make_plan(file, 60'000).traffic[0];
  CHECK(line.peers.at(0) == indices{1});
  CHECK(line.peers.at(1) == indices{0, 2});
  file.exchanges[0] = {.name = "exchange",
                       .kind = "parameter_server",
                       .options = {{"apply", std::string("all")}, {"shards", std::int64_t{2}}}};
  file.workers.loop = {"gradient", "exchange"};
  const auto served = make_plan(file, 60'000).traffic[0];
  CHECK(served.peers.at(3) == indices{4, 5});
  CHECK(served.peers.at(5) == indices{0, 1, 2, 3});
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

TEST_CASE("a graph that changes is described by its period") {
  struct changing final : common_facts {
    rules::mixing_schedule schedule;
    explicit changing(std::uint32_t members) : schedule(tests::one_peer_schedule(members)) {}
    const rules::mixing_schedule* mixing() const override { return &schedule; }
  };
  const auto text_for = [](std::int64_t members) {
    auto file = four_workers();
    file.workers.count = members;
    file.exchanges[0] = {.name = "exchange", .kind = "gossip"};
    auto plan = make_plan(file, 60'000);
    plan.exchanges[0].common = std::make_shared<changing>(static_cast<std::uint32_t>(members));
    return describe(plan);
  };
  const std::string changes = "the mixing matrix W changes; it repeats after ";
  CHECK(text_for(4).find(changes + "2 exchanges, after which all members have the mean\n") != std::string::npos);
  CHECK(text_for(3).find(changes + "2 exchanges, which multiply the distance to the mean by at most 0.25\n") !=
        std::string::npos);
}

TEST_CASE("checkpoints are planned in steps") {
  auto file = four_workers();
  CHECK(make_plan(file, 60'000).when.checkpoint_every == 0);
  file.checkpoint.every = {2, true};
  CHECK(make_plan(file, 60'000).when.checkpoint_every == 2 * 937);
  file.checkpoint.every = {500, false};
  CHECK(make_plan(file, 60'000).when.checkpoint_every == 500);
  CHECK(describe(make_plan(file, 60'000)).find("checkpoints every 500 steps; the newest 2 are kept") !=
        std::string::npos);
}

TEST_CASE("replicas are compared only where the wiring keeps them equal") {
  auto file = four_workers();
  CHECK(make_plan(file, 60'000).when.verify_every == 100);
  CHECK(describe(make_plan(file, 60'000)).find("all workers agree, compared every 100 steps") != std::string::npos);
  file.run.verify_every = 0;
  CHECK(make_plan(file, 60'000).when.verify_every == 0);
  file.run.verify_every = 7;
  CHECK(make_plan(file, 60'000).when.verify_every == 7);
  file.exchanges.front().every = {2, false};
  CHECK(make_plan(file, 60'000).when.verify_every == 0);
}

TEST_CASE("replicas are compared up to the step from which the workers train apart") {
  auto file = four_workers();
  file.exchanges.push_back(file.exchanges.front());
  file.exchanges[1].name = "average";
  file.exchanges[1].sends = "parameters";
  file.exchanges[1].every = {8, false};
  file.workers.loop = {"gradient", "exchange", "apply", "average"};
  const auto apart_from = [&](std::optional<std::uint64_t> until, std::optional<std::uint64_t> from) {
    if (until) file.exchanges[0].until = {*until, false};
    if (from) file.exchanges[1].from = {*from, false};
    return make_plan(file, 60'000);
  };
  CHECK(apart_from({}, {}).when.verify_every == 0);  // an average of equal parameters rounds, from the start
  CHECK(apart_from({}, 300).when.verify_until == 300);
  const auto plan = apart_from(250, 300);
  CHECK(plan.when.verify_until == 250);
  CHECK(plan.when.verified_at(200));
  CHECK_FALSE(plan.when.verified_at(300));
  CHECK_FALSE(plan.replicas_agree());
  CHECK(describe(plan).find("parameters; up to step 250 all workers agree, compared every 100 steps") !=
        std::string::npos);
}

TEST_CASE("a plan counts steps, elements and actors") {
  const auto plan = make_plan(four_workers(), 60'000);
  CHECK(plan.workers == 4);
  CHECK(plan.steps_per_epoch == 937);  // floor(floor(60000 / 4) / 16)
  CHECK(plan.steps == 2811);
  CHECK(plan.when.evaluate_every == 937);
  CHECK(plan.layout.parameter_count == 21'840);  // 260 + 5020 + 16050 + 510
  CHECK(plan.layout.parameter_end == 21'904);    // each tensor padded to 16 elements
  CHECK(plan.loss == models::loss_function::nll);
  CHECK(plan.scale.mean == std::vector{0.1307});
  REQUIRE(plan.actors.size() == 15);
  CHECK(plan.actors[2].label.name == "worker 2");
  CHECK(plan.actors[6].label.name == "compute 2");
  CHECK(plan.actors[10].label.name == "exchange 2");
  CHECK(plan.actors[10].label.id.what == role::port);
  CHECK(plan.actors[10].label.id.rank == 2);
  CHECK(plan.actors[12].label.name == "evaluator");
  CHECK(plan.actors[13].label.name == "coordinator");
  CHECK(plan.actors[14].label.name == "recorder");
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
  for (const auto& edge : plan.traffic[0].edges) {
    bytes += edge.bytes;
    messages += edge.messages;
  }
  CHECK(bytes > 0);
  CHECK(plan.bytes_per_step() == 2 * bytes);
  CHECK(plan.messages_per_step() == 2 * messages);
  CHECK(plan.actors.size() == 19);
  CHECK(plan.actors[13].label.name == "second 1");
}

TEST_CASE("ranks count through the nodes, and the first has what is there but once") {
  auto file = four_workers();
  file.nodes = {{.name = "alpha", .address = "10.0.0.1:4700", .listen = "0.0.0.0:4700", .workers = 1},
                {.name = "beta", .address = "[::1]:0", .listen = "", .workers = 3}};
  const auto plan = make_plan(file, 60'000);
  REQUIRE(plan.nodes.size() == 2);
  CHECK(plan.nodes[0].address == endpoint{"10.0.0.1", 4700});
  CHECK(plan.nodes[0].listen == endpoint{"0.0.0.0", 4700});
  CHECK(plan.nodes[1].name == "beta");
  CHECK(plan.nodes[1].listen == endpoint{"::1", 0});
  CHECK(plan.nodes[1].first_rank == 1);
  CHECK(plan.nodes[1].workers == 3);
  CHECK(plan.node_of(0) == 0);
  CHECK(plan.node_of(1) == 1);
  CHECK(plan.node_of(3) == 1);
  for (const auto& actor : plan.actors) {
    CAPTURE(actor.label.name);
    CHECK(actor.node == (actor.label.id.what < role::evaluator && actor.label.id.rank > 0 ? 1 : 0));
  }
  // Two edges of the ring 0 → 1 → 2 → 3 → 0 cross nodes, with six messages each: 2 · 3 chunks.
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
  CHECK(plan.actors[13].label.name == "exchange server 1");
  CHECK(plan.actors[13].label.id.what == role::server);
  CHECK(plan.actors[13].label.id.rank == 1);
  CHECK(plan.actors[13].node == 0);
  CHECK(plan.bytes_held(exchange, 0) + plan.bytes_held(exchange, 1) ==
        4 * static_cast<std::uint64_t>(plan.layout.parameter_end));
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
  for (const auto& edge : plan.traffic[2].edges) edges.emplace_back(edge.from, edge.to);
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
  for (const auto& bucket : buckets) {  // this network produces gradients in the reverse order of registration
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

TEST_CASE("where the workers are does not change the route of encoded messages") {
  const auto edges = [](bool on_two_nodes) {
    auto file = four_workers();
    file.exchanges[0].encoding = "bf16";
    file.exchanges[0].options = {{"route", std::string("auto")}};
    if (on_two_nodes) file.nodes = {{.name = "alpha", .workers = 2}, {.name = "beta", .workers = 2}};
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
    const auto plan = make_plan(file, 60'000);
    for (const auto& edge : plan.traffic[0].edges) ends.emplace_back(edge.from, edge.to);
    return ends;
  };
  CHECK(edges(false) == edges(true));
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

}  // namespace plan_make_test

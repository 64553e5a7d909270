// The settings of gossip. Settings that do not define a mixing matrix are rejected with a message.
#include "tests/support/doctest.hpp"
#include "tests/support/gossip_wirings.hpp"

#include "troupe/algorithms/exchange/gossip/gossip.hpp"
#include "troupe/algorithms/exchange/gossip/gossip_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gossip_settings_test {

namespace {

using namespace troupe;
using namespace troupe::tests;

/// Returns gossip's objection to these settings as "key: text", or "" if there is none.
std::string said_of(const setting_values& settings, std::size_t n) {
  const auto why = gossip_kind().check(names(n), settings);
  return why ? why->key + ": " + why->text : "";
}

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("gossip without a word is a ring with metropolis weights") {
  CHECK(mixing_of(names(5), {}).graph().hears == rules::ring_graph(5).hears);
  for (const std::size_t n : {1, 2, 3, 4096}) CHECK(said_of({}, n).empty());
}

TEST_CASE("names of members become their indices for those who do not know them") {
  const std::vector<std::string> called{"left", "middle", "right"};
  const setting_values settings{{"edges", pairs{{"left", "middle"}, {"right", "middle"}}}};
  const auto renamed = gossip_kind().by_index(called, settings);
  CHECK((std::get<pairs>(renamed.at("edges")) == pairs{{"w0", "w1"}, {"w2", "w1"}}));
  CHECK(mixing_of(called, settings).graph().hears == mixing_of(names(3), renamed).graph().hears);
}

TEST_CASE("settings that make no mixing matrix are refused in words") {
  struct mistake {
    std::size_t n;
    setting_values settings;
    std::string key, words;
  };
  const setting_value two{std::int64_t{2}}, three{std::int64_t{3}}, one{std::int64_t{1}};
  const std::string uniform = "uniform", ring = "ring", torus = "torus", regular = "random_regular";
  const std::vector<mistake> mistakes{
      {4, {{"graph", ring}, {"edges", pairs{{"w0", "w1"}}}}, "edges", "remove one of them"},
      {2, {{"graph", ring}, {"weights", matrix{{1, 0}, {0, 1}}}}, "weights", "remove one of them"},
      {2, {{"edges", pairs{}}, {"weights", matrix{{1, 0}, {0, 1}}}}, "weights", "weights and edges cannot be combined"},
      {4, {{"rows", two}}, "rows", "only when graph = \"torus\""},
      {4,
       {{"graph", torus}, {"rows", two}, {"columns", two}, {"degree", two}},
       "degree",
       "only when graph = \"random_regular\""},
      {4, {{"edges", pairs{{"w0", "w1"}}}, {"graph_seed", one}}, "graph_seed", "only when graph = \"random_regular\""},
      {6, {{"graph", torus}, {"rows", two}}, "columns", "such as rows = 2 and columns = 3"},
      {6, {{"graph", torus}, {"rows", two}, {"columns", two}}, "rows", "2 rows and 2 columns does not fit 6 members"},
      {5, {{"graph", regular}}, "degree", "requires degree"},
      {5, {{"graph", regular}, {"degree", three}}, "degree", "5 members cannot have 3 neighbours each"},
      {3, {{"graph", regular}, {"degree", three}}, "degree", "each of 3 members has only 2 others"},
      {4, {{"graph", regular}, {"degree", one}}, "degree", "at least 2"},
      {4, {{"graph", std::string{"star"}}, {"weights", uniform}}, "weights", "\"w0\" has 3 and \"w1\" has 1; expected"},
      {3,
       {{"edges", pairs{{"w0", "w3"}}}},
       "edges",
       "\"w3\", which is not a member; expected names from \"w0\" to \"w2\""},
      {3, {{"edges", pairs{{"w0", "w0"}}}}, "edges", "from \"w0\" to itself"},
      {4, {{"edges", pairs{{"w0", "w1"}, {"w2", "w3"}}}}, "edges", "nothing from \"w0\" ever reaches \"w2\""},
      {2, {{"edges", pairs{}}}, "edges", "nothing from \"w0\" ever reaches \"w1\""},
      {3, {{"weights", matrix{{1, 0}, {0, 1}}}}, "weights", "has 2 rows, but there are 3 members"},
      {2, {{"weights", matrix{{1}, {1}}}}, "weights", "a row of weights has 1 number; expected 2"},
      {2, {{"weights", matrix{{1.5, -0.5}, {-0.5, 1.5}}}}, "weights", "contains -0.5"},
      {2,
       {{"weights", matrix{{0.5, 0.5}, {0.5, 0.4}}}},
       "weights",
       "the row of \"w1\" in the matrix of weights sums to 0.9"},
      {2, {{"weights", matrix{{0.5, 0.5}, {0.25, 0.75}}}}, "weights", "the column of \"w0\""},
      {2, {{"weights", matrix{{1, 0}, {0, 1}}}}, "weights", "nothing from \"w0\" ever reaches \"w1\""},
  };
  for (const auto& each : mistakes) {
    CAPTURE(each.words);
    const auto said = said_of(each.settings, each.n);
    CAPTURE(said);
    CHECK(said.starts_with(each.key + ": "));
    CHECK(holds(said, each.words));
    CHECK((holds(said, "; expected") || holds(said, "; use") || holds(said, "; set") || holds(said, "; remove")));
    CHECK_THROWS_AS(mixing_of(names(each.n), each.settings), unfit_setting);
  }
}

TEST_CASE("a matrix under which the members never agree is refused, with the reason and what helps") {
  const auto said = said_of(circle, 3);
  CHECK(said.starts_with("weights: with these weights, the members swap their parameters in cycles of 3"));
  CHECK(holds(said, "cycles of 3 exchanges and never agree"));
  CHECK(holds(said, "expected at least one positive number on the diagonal"));
  CHECK(holds(said_of({{"weights", matrix{{0, 1}, {1, 0}}}}, 2), "cycles of 2 exchanges and never agree"));
  const matrix bipartite{{0, 0.5, 0, 0.5}, {0.5, 0, 0.5, 0}, {0, 0.5, 0, 0.5}, {0.5, 0, 0.5, 0}};
  CHECK(holds(said_of({{"weights", bipartite}}, 4), "cycles of 2 exchanges and never agree"));
  CHECK(said_of({{"weights", matrix{{0, 0.5, 0.5}, {0.5, 0, 0.5}, {0.5, 0.5, 0}}}}, 3) == "");
  CHECK(said_of({{"weights", matrix{{0.5, 0, 0.5}, {0.5, 0, 0.5}, {0, 1, 0}}}}, 3) == "");
}

TEST_CASE("settings that fit are not refused") {
  for (const auto& [n, settings] : wirings())
    if (settings != circle) CHECK(said_of(settings, n) == "");
  CHECK(said_of({{"graph", std::string{"ring"}}, {"weights", std::string{"uniform"}}}, 5) == "");
  CHECK(said_of({{"graph", std::string{"exponential"}}, {"weights", std::string{"uniform"}}}, 7) == "");
  CHECK(said_of({{"edges", pairs{}}}, 1) == "");
  CHECK(said_of({{"weights", matrix{{1}}}}, 1) == "");
}

TEST_CASE("gossip gives all the same where every row of W is the same") {
  const auto same = [](const setting_values& settings) { return nature_of(gossip_kind(), settings).same_for_all; };
  CHECK(same(named("complete")));
  CHECK_FALSE(same(named("ring")));
  CHECK_FALSE(same({}));
  CHECK_FALSE(same({{"edges", pairs{{"w0", "w1"}}}}));
  CHECK(same({{"weights", matrix{{0.5, 0.5}, {0.5, 0.5}}}}));
  CHECK_FALSE(same(circle));
  CHECK(nature_of(gossip_kind(), circle).deterministic);
  CHECK(nature_of(gossip_kind(), circle).servers == 0);
}

}  // namespace gossip_settings_test

#include "troupe/runtime/topology/reference.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/schema.hpp"

#include <fstream>
#include <iterator>
#include <string>

namespace topology_reference_test {

using namespace troupe;

TEST_CASE("docs/topology.md is what the table of keys makes") {
  std::ifstream stream(std::string(TROUPE_SOURCE_DIR) + "/docs/topology.md");
  const std::string committed{std::istreambuf_iterator<char>(stream), {}};
  CHECK_MESSAGE(committed == topology::reference_page(),
                "renew it: build/troupe explain --markdown > docs/topology.md");
}

TEST_CASE("the table of exchanges in docs/algorithms.md is what their facts make") {
  std::ifstream stream(std::string(TROUPE_SOURCE_DIR) + "/docs/algorithms.md");
  const std::string committed{std::istreambuf_iterator<char>(stream), {}};
  CHECK_MESSAGE(committed.find("\n\n" + topology::exchange_table() + "\n") != std::string::npos,
                "renew it with the output of: build/troupe list exchanges --markdown");
}

TEST_CASE("the JSON Schema of a key says its type, range, default and meaning") {
  setting row;
  row.name = "momentum";
  row.type = setting_type::real;
  row.default_text = "0.5";
  row.explanation = "What it is.";
  row.minimum = 0;
  row.maximum = 1;
  row.maximum_excluded = true;
  CHECK(topology::json_schema(row) ==
        R"({"type":"number","minimum":0.0,"exclusiveMaximum":1.0,"default":0.5,"description":"What it is."})");
}

TEST_CASE("the JSON Schema of a matrix allows its words too, that of pairs two strings each") {
  setting row;
  row.name = "weights";
  row.type = setting_type::choice_or_matrix;
  row.choices = {"uniform"};
  row.minimum = 0;
  CHECK(topology::json_schema(row) ==
        R"({"oneOf":[{"type":"string","enum":["uniform"]},{"type":"array","items":{"type":"array","items":)"
        R"({"type":"number","minimum":0.0}}}],"description":""})");
  row = {};
  row.name = "edges";
  row.type = setting_type::pairs;
  CHECK(topology::json_schema(row) ==
        R"({"type":"array","items":{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":2},)"
        R"("description":""})");
}

TEST_CASE("the JSON Schema of the file knows every key") {
  const std::string schema = topology::json_schema();
  for (const topology::section& section : topology::sections()) {
    for (const topology::key& key : section.keys) {
      CAPTURE(key.row.name);
      CHECK(schema.find('"' + key.row.name + "\": {") != std::string::npos);
    }
  }
}

}  // namespace topology_reference_test

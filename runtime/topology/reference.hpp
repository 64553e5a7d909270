// The table of keys as documentation and as a JSON Schema.
#pragma once

#include "troupe/algorithms/exchange/kinds/catalogue.hpp"
#include "troupe/files/setting.hpp"

#include <string>
#include <vector>

namespace troupe::topology {

/// Returns the text of docs/topology.md.
std::string reference_page();

/// A text about some variants of a kind of exchange.
struct conditional_text {
  std::string when{};  ///< Settings of these variants; empty if the text is about all of them.
  std::string text{};
};

/// Returns one column, with the variants that have the same text merged.
std::vector<conditional_text> grouped(const exchange_facts& facts, std::string exchange_variant::*column);

/// Returns the tests of all variants, each once.
std::vector<std::string> tests_of(const exchange_facts& facts);

/// Returns the table of exchanges in docs/algorithms.md.
std::string exchange_table();

/// Returns the JSON Schema (draft 2020-12) of a topology file, for editors that validate TOML.
std::string json_schema();

/// Returns the part of the JSON Schema that describes one key.
std::string json_schema(const setting& row);

}  // namespace troupe::topology

// Writes topology files of exchanges that are drawn from the registry, for tests/processes/registry.py:
//     drawn_exchanges FOLDER [COUNT]
// Writes COUNT deterministic exchanges, or all of them. FOLDER/12.one.toml has its workers in one process,
// FOLDER/12.more.toml has them on several nodes. Prints a description of each exchange.
#include "tests/support/drawn_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::tests;

bool repeats(const drawn_exchange& one) {
  return plan_of(one, false)->deterministic();
}

/// Returns all exchanges with reproducible bits, or `count` of them, of as many kinds as possible.
std::vector<drawn_exchange> chosen(std::size_t count) {
  auto kinds = draw_exchanges(count);
  std::size_t most = 0;
  for (auto& kind : kinds) {
    std::erase_if(kind.accepted, [](const auto& one) { return !repeats(one); });
    most = std::max(most, kind.accepted.size());
  }
  std::vector<drawn_exchange> all;
  for (std::size_t i = 0; i < most; ++i)
    for (const auto& kind : kinds)
      if (i < kind.accepted.size() && (count == 0 || all.size() < count)) all.push_back(kind.accepted[i]);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  const auto all = chosen(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto on_nodes : {false, true})
      std::ofstream(folder / (std::to_string(i) + (on_nodes ? ".more.toml" : ".one.toml")))
          << file_of(all[i], on_nodes);
    std::cout << i << " " << name_of(all[i]) << "\n";
  }
}

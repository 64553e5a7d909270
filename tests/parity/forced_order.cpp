// `forced_order FILE OUT 0,2,1,…` works as `troupe run FILE --out OUT`, but its servers process the contributions in
// this order of workers, whatever the order of arrival. A script can thus compare every step of an asynchronous run.
#include "tests/support/watched.hpp"

#include "troupe/apps/command.hpp"

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

int main(int count, char** words) {
  if (count != 4) return std::cerr << "usage: forced_order FILE OUT 0,2,1,...\n", 2;
  std::vector<std::uint32_t> order;
  std::istringstream text{words[3]};
  for (std::string word; std::getline(text, word, ',');) order.push_back(static_cast<std::uint32_t>(std::stoul(word)));
  for (const std::string kind : {"parameter_server", "elastic"})
    troupe::register_exchange(troupe::tests::in_order(*troupe::find_exchange(kind), order));
  std::vector<std::string> command{"troupe", "run", words[1], "--out", words[2], "--quiet", "--overwrite"};
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(word.data());
  return troupe::apps::command(static_cast<int>(arguments.size()), arguments.data());
}

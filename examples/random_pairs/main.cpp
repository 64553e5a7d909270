// The `troupe` command, with one more exchange.
#include "pairs.hpp"

#include "troupe/command.hpp"

int main(int count, char** words) {
  troupe::register_exchange(random_pairs_kind());
  return troupe::apps::command(count, words);
}

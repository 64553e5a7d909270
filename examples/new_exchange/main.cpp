// The `troupe` command, with one more exchange.
#include "median.hpp"

#include "troupe/command.hpp"

int main(int count, char** words) {
  troupe::register_exchange(median_kind());
  return troupe::apps::command(count, words);
}

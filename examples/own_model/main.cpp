// The `troupe` command, plus a model, a data set, a loss and an optimizer.
#include "troupe/command.hpp"

void register_spirals();  // in spirals.cpp

int main(int count, char** words) {
  register_spirals();
  return troupe::apps::command(count, words);
}

// The `troupe` command, with a model, a data set, a loss and an optimizer more.
#include "troupe/command.hpp"

void register_spirals();  // in spirals.cpp

int main(int count, char** words) {
  register_spirals();
  return troupe::apps::command(count, words);
}

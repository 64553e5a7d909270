// The `troupe` command. A program with its own exchanges looks the same, except that it registers them first.
#include "troupe/apps/command.hpp"

int main(int count, char** words) {
  return troupe::apps::command(count, words);
}

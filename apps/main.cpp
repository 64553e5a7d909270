// The `troupe` command. A program with exchanges of its own looks the same, but for what it registers before.
#include "troupe/apps/command.hpp"

int main(int count, char** words) {
  return troupe::apps::command(count, words);
}

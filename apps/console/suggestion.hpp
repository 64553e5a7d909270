// Suggestions for mistyped options of the command line.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

/// Returns a suggestion for the first option in `words` that `command` does not have, or "": a similar option, or --set
/// with a key of the topology file if the command has that option.
std::string suggestion(const CLI::App& command, const std::vector<std::string>& words);

}  // namespace troupe::apps

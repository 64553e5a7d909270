#include "troupe/apps/console/plugin_option.hpp"

#include "troupe/runtime/topology/schema.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace troupe::apps {

void add_plugin_option(CLI::App& command) {
  const std::function<void(const std::vector<std::string>&)> load = [](const std::vector<std::string>& files) {
    topology::load_plugins({files.begin(), files.end()});
  };
  command.add_option_function("--plugin", load, "Shared library that registers kinds of its own; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace troupe::apps

// The option --plugin of commands that read no topology file, in which plug-ins could be named.
#pragma once

namespace CLI {
class App;
}

namespace troupe::apps {

/// Adds the option, which loads plug-ins before the command is executed. Throws input_error then, naming the file.
void add_plugin_option(CLI::App& command);

}  // namespace troupe::apps

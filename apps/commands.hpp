// The subcommands of `troupe`, one thin file each. Each adds itself to the command line and, when it is the one that
// was called, leaves the exit status in `status`: 0 done, 1 the run failed, 2 the input was wrong, 130 or 143
// interrupted. Wrong input is thrown as input_error; command() prints it.
#pragma once

namespace CLI {
class App;
}

namespace troupe::apps {

void add_run(CLI::App& app, int& status);
void add_node(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_graph(CLI::App& app, int& status);
void add_eval(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_data(CLI::App& app, int& status);

}  // namespace troupe::apps

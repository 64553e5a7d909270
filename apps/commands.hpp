// The subcommands of `troupe`, one thin file each. Each function adds its subcommand to the command line. When that
// subcommand is called, it stores the exit status in `status`: 0 success, 1 the run failed, 2 invalid input, 128 + the
// number of the signal if interrupted. Invalid input is thrown as input_error; command() prints it.
#pragma once

namespace CLI {
class App;
}

namespace troupe {
class signal_watch;
}

namespace troupe::apps {

/// Returns the watch for signals of this process while command() runs. Until a subcommand installs a handler, a signal
/// ends the process after one line of text. Install a handler as soon as there is something to save.
signal_watch& signals_of_command();

void add_help(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_node(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_graph(CLI::App& app, int& status);
void add_eval(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_explain_run(CLI::App& app, int& status);
void add_data(CLI::App& app, int& status);
void add_certs(CLI::App& app, int& status);
void add_simulate(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_tune(CLI::App& app, int& status);
void add_top(CLI::App& app, int& status);
void add_completions(CLI::App& app, int& status);
void add_man(CLI::App& app, int& status);

}  // namespace troupe::apps

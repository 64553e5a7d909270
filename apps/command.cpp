// Passes the command line to a subcommand and turns errors into one message and an exit status.
#include "troupe/apps/command.hpp"

#include "troupe/actors/wire/error.hpp"
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/command_line.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/shell_words.hpp"
#include "troupe/apps/console/suggestion.hpp"
#include "troupe/apps/help.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/activity.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>
#include <caf/config.hpp>
#include <torch/headeronly/version.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <map>
#include <poll.h>
#include <regex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

extern "C" {
/// Options of jemalloc, which reads them before main() begins (decision 0010). Freed memory is kept for the next step
/// instead of being returned to the system, and large blocks are on huge pages: a training step causes no page faults.
const char* malloc_conf = "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1";
}

namespace troupe::apps {

namespace {

constexpr void (*command_adders[])(CLI::App&, int&) = {
    add_run,         add_node, add_check,       add_graph,    add_eval,     add_list,   add_explain,
    add_explain_run, add_data, add_certs,       add_simulate, add_timeline, add_replay, add_compare,
    add_tune,        add_top,  add_completions, add_man,      add_help};

/// Returns the lines that describe the machine, each after a line break.
std::string lines_of(std::map<std::string, std::string> machine) {
  std::string text;
  for (const auto* name : {"CUDA", "CPU", "CPU capability", "arithmetic", "bfloat16 arithmetic", "kernel selection"})
    text += std::string("\n") + name + " " + machine[name];
  return text;
}

std::string versions() {
  const auto caf = [](int unit) { return std::to_string(CAF_VERSION / unit % 100); };
  return "troupe " + troupe::version() + "\nLibTorch " + TORCH_VERSION + "\nCAF " + caf(10000) + "." + caf(100) + "." +
         caf(1) + lines_of(fingerprint());
}

/// Rewrites a message of CLI11 (2.3) in the style of this program.
std::string rephrased(const std::string& message) {
  static const std::vector<std::pair<std::regex, std::string>> phrases{
      {std::regex(R"(^The following arguments? \w+ not expected: (?:.* )?(--?[^ ]+)$)"), "unknown option $1"},
      {std::regex(R"(^The following arguments? \w+ not expected: (?:.* )?([^ ]+)$)"), "unexpected argument \"$1\""},
      {std::regex(R"(^(--?[\w-]+): \d+ required \w+ missing$)"), "$1 requires a value"},
      {std::regex(R"(^(--?[\w-]+): At Most 1 required but received \d+$)"), "$1 is given more than once"},
      {std::regex(R"(^(--?[\w-]+): Value (.*) not in range (.*)$)"), "$1 is \"$2\"; expected a number from $3"},
      {std::regex(R"(^(--?[\w-]+): Value (.*) is not (a whole number .*)$)"), "$1 is \"$2\"; expected $3"},
      {std::regex(R"(^Could not convert: (--?[\w-]+) = (.*)$)"), "$1 is \"$2\"; expected a number"},
      {std::regex(R"(^A subcommand is required$)"), "a command is missing"}};
  static const std::regex decimals(R"((\d)\.0+(?!\d))");  // CLI11 prints 1 as 1.000000
  static const std::regex one_of(R"(^(--?[\w-]+): (.*) not in \{(.*)\}$)");
  for (const auto& [pattern, phrase] : phrases)
    if (std::smatch match; std::regex_match(message, match, pattern))
      return std::regex_replace(match.format(phrase), decimals, "$1");
  if (std::smatch match; std::regex_match(message, match, one_of))
    return match.format("$1 is \"$2\"; expected ") + text::listed(CLI::detail::split(match.str(3), ','));
  return message;
}

/// Describes what is wrong with the command line.
std::string explain(const CLI::App& app, const CLI::ParseError& error, int count, char** words) {
  const bool called = !app.get_subcommands().empty();
  const std::string first = count > 1 ? words[1] : "";
  if (called) {
    const auto* command = app.get_subcommands().front();
    std::string name = command->get_name();
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().front();
      name += " " + command->get_name();
    }
    return rephrased(error.what()) + "; run \"troupe " + name + " --help\" for usage" +
           suggestion(*command, {words + 2, words + count});
  }
  if (first.starts_with('-'))
    return "\"" + first + "\" is not a command; \"troupe --help\" lists the commands and options";
  return "unknown command \"" + first + "\"; \"troupe --help\" lists the commands" + meant_command(app, first);
}

}  // namespace

namespace {

signal_watch* watching = nullptr;

/// Returns whether standard output is a pipe that no longer has a reader.
bool reader_is_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/// Flushes standard output. Returns the exit status: that of the command, unless the output could not be written.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.flush()) return status;
  if (reader_is_gone()) return 128 + SIGPIPE;  // such as `head`, which has read enough
  print_error("standard output cannot be written");
  return 1;
}

/// Ends the process although the main thread has not returned from an operation.
[[noreturn]] void end_because_late(const std::string& why) {
  constexpr int invalid_input = 2;
  print_error(why + "; expected code that returns, or a longer limit");
  std::_Exit(invalid_input);
}

}  // namespace

signal_watch& signals_of_command() {
  return *watching;
}

int command(int count, char** words) {
  // Otherwise, the first file or socket of the run would take the place of a closed standard stream.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return 1;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that disappears does not end a run
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is treated like a full disk
  signal_watch signals;           // before any other thread starts, because threads inherit blocked signals
  watching = &signals;
  if (count > 0) set_program_name(words[0]);
  const activity_watch activities{{.note = print_note, .end = end_because_late}};
  CLI::App app("Distributed SGD training, described by a topology file and run by actors.", "troupe");
  app.set_version_flag(
      "--version", versions,
      "Print the versions of Troupe, LibTorch and CAF, and what the bits of a result depend on: the CUDA devices, the "
      "processor and its arithmetic, and the environment variables that change it");
  app.require_subcommand(0, 1);
  int status = 0;
  for (const auto add : command_adders) add(app, status);
  name_values(app);
  try {
    app.parse(count, words);
    if (app.get_subcommands().empty()) {
      print_help(app.help());
      std::cout << std::flush;
      print_error("no command given; \"troupe COMMAND --help\" describes a command");
      return 2;
    }
    // A run writes its results to files. The other commands have no result but the text that they print.
    if (status == 0 && !app.got_subcommand("run") && !app.got_subcommand("node")) return flushed(status);
    return status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      if (error.get_name() == "CallForHelp")
        print_help(app.help());
      else
        app.exit(error);
      return flushed(0);
    }
    print_error(explain(app, error, count, words));
    return 2;
  } catch (const input_error& error) {
    print_error(error.what());
    return 2;
  } catch (const files::unreadable& error) {
    print_error(error.what());
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {  // such as exists() of a link to itself
    print_error(error.path1().string() + ": " + error.code().message());
    return 2;
  } catch (const std::exception&) {
    print_error(describe(std::current_exception()));
    return 1;
  }
}

}  // namespace troupe::apps

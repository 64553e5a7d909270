// troupe top [ADDRESS]: watches a run in the terminal, through the dashboard that it serves.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/top_text.hpp"
#include "troupe/apps/running/dashboard.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/tools/watching/http_client.hpp"
#include "troupe/tools/watching/seen_run.hpp"

#include <CLI/CLI.hpp>

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

namespace troupe::apps {

namespace {

struct top_options {
  std::string address{default_dashboard};
  bool once{false}, json{false};
};

/// The alternate screen of a terminal, on which a page is drawn repeatedly. The primary screen is restored at the end.
class screen {
 public:
  explicit screen(signal_watch& signals) : signals_(signals) {
    signals.before_exit([] { [[maybe_unused]] const auto count = ::write(STDOUT_FILENO, back.data(), back.size()); });
    std::cout << "\x1b[?1049h\x1b[?25l\x1b[?7l";
  }
  ~screen() {
    std::cout << back << std::flush;
    signals_.before_exit({});
  }
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  void draw(const watching::seen_run& run) {
    std::string text = "\x1b[H";
    const auto lines = top_lines(
        run, {.columns = page_columns(), .rows = rows_of(STDOUT_FILENO, 24), .coloured = shows_colours(STDOUT_FILENO)});
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\n") + lines[i] + "\x1b[K";
    std::cout << text << "\x1b[J" << std::flush;
  }

 private:
  static constexpr std::string_view back{"\x1b[?7h\x1b[?25h\x1b[?1049l"};

  signal_watch& signals_;
};

void print(const watching::seen_run& run) {
  for (const auto& line : top_lines(run, {.columns = page_columns(), .coloured = shows_colours(STDOUT_FILENO)}))
    std::cout << line << "\n";
}

watching::seen_run parse(const std::string& address, std::string_view text) {
  auto run = watching::parse_seen_run(text);
  if (run) return *std::move(run);
  throw std::runtime_error(for_terminal(address) +
                           ": this is not the dashboard of a run; expected the address that a run with --dashboard has "
                           "printed");
}

/// Prints the current state of the run once.
void look(const top_options& given, const watching::dashboard_address& where, const watching::keep_on& goes_on) {
  const auto text = fetch(where, "/data.json", goes_on);
  if (!text) return;
  const auto run = parse(given.address, *text);
  if (given.json)
    std::cout << watching::clean_json(*text) << "\n";
  else
    print(run);
}

/// Draws the run until it ends or `goes_on` returns false, then prints its last state. Returns the exit status.
int watch(const top_options& given, const watching::dashboard_address& where, const watching::keep_on& goes_on,
          signal_watch& signals) {
  std::optional<watching::seen_run> latest;
  bool interrupted = false;
  {
    std::optional<screen> shown;
    follow(
        where, "/events.json",
        [&](std::string_view text) {
          latest = parse(given.address, text);
          if (!shown) shown.emplace(signals);
          shown->draw(*latest);
        },
        [&] { return !(interrupted = !goes_on()) && !(latest && latest->has_ended()); });
  }
  if (latest) print(*latest);
  if (interrupted || (latest && latest->has_ended())) return 0;
  print_error(for_terminal(given.address) + ": the connection was lost before the run had ended");
  return 1;
}

int top(const top_options& given) {
  auto& signals = signals_of_command();
  std::atomic<int> signal{0};
  const signal_handler interrupting{signals, [&](int received) { signal = received; }};
  const auto where = watching::parse_dashboard_address(given.address);
  if (!where)
    throw input_error("\"" + given.address + "\" is not the address of a dashboard; expected one such as " +
                      default_dashboard + ", or the URL that the run has printed");
  const auto goes_on = [&] { return signal == 0; };
  int status = 0;
  if (given.once || given.json || !is_terminal(STDOUT_FILENO))
    look(given, *where, goes_on);
  else
    status = watch(given, *where, goes_on, signals);
  // Ctrl-C is the usual way to leave. Other signals are reported as for other commands.
  return signal == 0 || signal == SIGINT ? status : 128 + signal;
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("top", "Watch a run in the terminal, through the dashboard that it serves");
  auto given = std::make_shared<top_options>();
  command
      ->add_option("ADDRESS", given->address,
                   "Address of the dashboard, HOST:PORT, or the URL that the run has printed, with its token")
      ->capture_default_str();
  command->add_flag("--once", given->once, "Print the current state once, as when the output is not a terminal");
  command->add_flag("--json", given->json, "Print the current state once, as one JSON object");
  command->callback([given, &status] { status = top(*given); });
}

}  // namespace troupe::apps

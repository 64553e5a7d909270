// troupe top [ADDRESS]: watches a run in the terminal, through the dashboard that it serves or its entrance for guests.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/top_text.hpp"
#include "troupe/apps/running/dashboard.hpp"
#include "troupe/files/error.hpp"
#include "troupe/net/guests/attach.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/tools/watching/http_client.hpp"
#include "troupe/tools/watching/seen_run.hpp"

#include <CLI/CLI.hpp>
#include <caf/all.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

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
                           "printed, or the results folder of a run with --actors");
}

/// Where the figures of a run come from.
class source {
 public:
  virtual ~source() = default;

  /// Returns the figures, or nothing if `goes_on` returned false.
  virtual std::optional<std::string> look(const watching::keep_on& goes_on) = 0;

  /// Calls `take` with the figures whenever they have changed, until the connection ends or `goes_on` returns false.
  virtual void follow(const std::function<void(std::string_view)>& take, const watching::keep_on& goes_on) = 0;
};

/// The dashboard of a run.
class dashboard_source final : public source {
 public:
  explicit dashboard_source(watching::dashboard_address where) : where_(std::move(where)) {}

  std::optional<std::string> look(const watching::keep_on& goes_on) override {
    return fetch(where_, "/data.json", goes_on);
  }
  void follow(const std::function<void(std::string_view)>& take, const watching::keep_on& goes_on) override {
    watching::follow(where_, "/events.json", take, goes_on);
  }

 private:
  watching::dashboard_address where_;
};

/// The entrance of a run for guests.
class entrance_source final : public source {
 public:
  explicit entrance_source(const std::filesystem::path& out) : run_(attach(system_, out, "top")) {}

  std::optional<std::string> look(const watching::keep_on& goes_on) override {
    std::optional<std::string> text;
    if (!goes_on()) return text;
    caf::scoped_actor self{system_};
    self->request(run_.observer, patience, figures_request{})
        .receive([&](figures& all) { text = std::move(all.json); }, [](const caf::error&) {});
    if (!text) throw std::runtime_error("the run does not answer");
    if (text->empty()) throw std::runtime_error("the figures of the run are too large for a message; use --dashboard");
    return text;
  }

  void follow(const std::function<void(std::string_view)>& take, const watching::keep_on& goes_on) override {
    const auto seen = std::make_shared<state>();
    const auto follower = system_.spawn([seen, run = run_.observer](caf::event_based_actor* self) -> caf::behavior {
      troupe::follow(
          self, run, [seen](const news& all) { seen->note(all.over, false); },
          [seen](const caf::error&) { seen->note(false, true); });
      return {[](caf::unit_t) {}};
    });
    while (goes_on()) {
      const auto [changed, over, lost] = seen->wait(between_draws);
      if (lost) break;
      if (changed) take(*look([] { return true; }));
      if (over) break;
    }
    caf::anon_send_exit(follower, caf::exit_reason::user_shutdown);
  }

 private:
  static constexpr std::chrono::milliseconds patience{5'000}, between_draws{200};

  struct config : caf::actor_system_config {
    config() { prepare_to_attach(*this); }
  };

  /// What the actor that follows the run has heard.
  struct state {
    std::mutex mutex;
    bool changed{true}, over{false}, lost{false};

    void note(bool is_over, bool is_lost) {
      const std::lock_guard lock{mutex};
      changed = true;
      over = over || is_over;
      lost = lost || is_lost;
    }
    std::tuple<bool, bool, bool> wait(std::chrono::milliseconds time) {
      std::this_thread::sleep_for(time);
      const std::lock_guard lock{mutex};
      return {std::exchange(changed, false), over, lost};
    }
  };

  config config_;
  caf::actor_system system_{config_};
  run_handle run_;
};

/// Prints the current state of the run once.
void look(const top_options& given, source& from, const watching::keep_on& goes_on) {
  const auto text = from.look(goes_on);
  if (!text) return;
  const auto run = parse(given.address, *text);
  if (given.json)
    std::cout << watching::clean_json(*text) << "\n";
  else
    print(run);
}

/// Draws the run until it ends or `goes_on` returns false, then prints its last state. Returns the exit status.
int watch(const top_options& given, source& from, const watching::keep_on& goes_on, signal_watch& signals) {
  std::optional<watching::seen_run> latest;
  bool interrupted = false;
  {
    std::optional<screen> shown;
    from.follow(
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

std::unique_ptr<source> source_at(const std::string& address) {
  if (const auto where = watching::parse_dashboard_address(address)) return std::make_unique<dashboard_source>(*where);
  std::error_code failed;
  if (std::filesystem::is_directory(address, failed)) return std::make_unique<entrance_source>(address);
  throw input_error("\"" + address +
                    "\" is neither the address of a dashboard nor a results folder; expected an address such as " +
                    default_dashboard + ", the URL that the run has printed, or the folder of a run with --actors");
}

int top(const top_options& given) {
  auto& signals = signals_of_command();
  std::atomic<int> signal{0};
  const signal_handler interrupting{signals, [&](int received) { signal = received; }};
  const auto from = source_at(given.address);
  const auto goes_on = [&] { return signal == 0; };
  int status = 0;
  if (given.once || given.json || !is_terminal(STDOUT_FILENO))
    look(given, *from, goes_on);
  else
    status = watch(given, *from, goes_on, signals);
  // Ctrl-C is the usual way to leave. Other signals are reported as for other commands.
  return signal == 0 || signal == SIGINT ? status : 128 + signal;
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("top", "Watch a run in the terminal, through its dashboard or its entrance for guests");
  auto given = std::make_shared<top_options>();
  command
      ->add_option("ADDRESS", given->address,
                   "Address of the dashboard, HOST:PORT, or the URL that the run has printed, with its token; or the "
                   "results folder of a run with --actors on this host")
      ->capture_default_str();
  command->add_flag("--once", given->once, "Print the current state once, as when the output is not a terminal");
  command->add_flag("--json", given->json, "Print the current state once, as one JSON object");
  command->callback([given, &status] { status = top(*given); });
}

}  // namespace troupe::apps

#include "troupe/tools/watching/watched_display.hpp"

#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/tools/watching/http_server.hpp"
#include "troupe/tools/watching/page.hpp"
#include "troupe/tools/watching/summary.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string_view>
#include <utility>

namespace troupe::watching {

namespace {

class watched_display final : public telemetry::display {
 public:
  watched_display(std::unique_ptr<telemetry::display> shown, watch_options options)
      : shown_(std::move(shown)),
        options_(std::move(options)),
        run_(std::make_shared<history>(!options_.facts.simulated, std::chrono::steady_clock::now, options_.traffic)) {
    if (options_.continues) read_lines();
    if (options_.feed) give_figures();
    if (options_.dashboard) serve(*options_.dashboard);
  }

  void write(const record& line) override {
    shown_->write(line);
    run_->write(line);
    if (line.event == "end") write_report();
  }

  void progress(std::uint64_t step) override {
    shown_->progress(step);
    run_->progress(step);
    tell_of_waits();
  }

  void progress_by_worker(const std::vector<std::uint64_t>& steps) override {
    shown_->progress_by_worker(steps);
    run_->progress_by_worker(steps);
  }

  void make_room() override { shown_->make_room(); }

 private:
  /// Lets guests have what the dashboard serves.
  void give_figures() {
    const auto figures = std::make_shared<site>(site_options{.facts = options_.facts, .run = run_, .token = {}});
    options_.feed->set_figures([=, facts = options_.facts, run = run_,
                                mutex = std::make_shared<std::mutex>()](bool over) {
      if (over) return json_of(facts, run->state());
      const std::lock_guard lock{*mutex};
      return figures->answer({.method = "GET", .target = "/data.json", .host = "localhost", .authorization = {}}).body;
    });
  }

  /// Tells guests which workers wait for which, if there are guests, and at most once per second.
  void tell_of_waits() {
    if (!options_.feed || !options_.feed->has_readers()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_waits_) return;
    next_waits_ = now + std::chrono::seconds{1};
    options_.feed->set_waits(waiting_text(run_->state()).value_or(""));
  }

  /// Reads the lines that the run wrote before it was continued.
  void read_lines() {
    auto& about = options_.facts.origin;
    about.continued = std::exchange(about.begun, "");
    const auto text = read_text(options_.facts.folder / "metrics.jsonl");
    for (const auto& line : telemetry::records_of(text)) run_->write(line);
    about.begun = telemetry::begun_in(std::string_view{text}.substr(0, text.find('\n')));
  }

  void serve(endpoint where) {
    const auto token = is_loopback(where) ? std::string() : security::make_secret();
    server_ =
        std::make_unique<http_server>(where, site(site_options{.facts = options_.facts, .run = run_, .token = token}));
    where.port = server_->port();
    options_.print("dashboard: http://" + print_endpoint(where) + "/" + (token.empty() ? "" : "?token=" + token));
  }

  void write_report() {
    options_.outputs->write(report_name, [this] {
      const auto& facts = options_.facts;
      write_aside(facts.folder / report_name, report_of(facts, run_->state(), drawing_in(facts.folder)));
    });
  }

  std::unique_ptr<telemetry::display> shown_;
  watch_options options_;
  std::shared_ptr<history> run_;
  std::unique_ptr<http_server> server_;
  std::chrono::steady_clock::time_point next_waits_{};
};

}  // namespace

std::unique_ptr<telemetry::display> make_watched_display(std::unique_ptr<telemetry::display> shown,
                                                         watch_options options) {
  return std::make_unique<watched_display>(std::move(shown), std::move(options));
}

}  // namespace troupe::watching

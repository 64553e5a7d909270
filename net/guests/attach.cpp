#include "troupe/net/guests/attach.hpp"

#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"
#include "troupe/net/basp/pump.hpp"
#include "troupe/net/basp/small_system.hpp"
#include "troupe/net/guests/dial.hpp"
#include "troupe/net/guests/greeting.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <pthread.h>
#include <thread>
#include <utility>

namespace troupe {

namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

/// How long a run may take to answer.
constexpr milliseconds patience{10'000};

/// How often both sides show that they are alive, and how long the run may be silent.
constexpr milliseconds beat{500}, silence{10'000};

/// A connection to a run, and the thread that moves its bytes.
class open_connection {
 public:
  open_connection(const std::shared_ptr<asio::io_context>& io, guests::dialled&& to, int local)
      : io_(io),
        pump_(std::make_shared<basp::pump>(
            io_, std::move(to.socket), std::move(to.bytes), local, basp::gate_options{.accepts = false},
            basp::pump_limits{.silence = silence, .stall = silence}, [](const basp::pump_end&) {})),
        work_(asio::make_work_guard(*io_)) {
    pump_->start(std::move(to.already));
    thread_ = std::thread{[io = io_] {
      pthread_setname_np(pthread_self(), "troupe guest");
      io->run();
    }};
  }

  ~open_connection() {
    asio::post(*io_, [this] {
      pump_->close();
      work_.reset();
    });
    thread_.join();
  }

  open_connection(const open_connection&) = delete;
  open_connection& operator=(const open_connection&) = delete;

 private:
  std::shared_ptr<asio::io_context> io_;
  std::shared_ptr<basp::pump> pump_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// Greets the run and gets the actors that it offers.
run_handle attach_over(caf::actor_system& system, const guests::run_address& where, const std::string& name) try {
  if (!system.has_middleman())
    throw attach_error("the actor system has no network module; call prepare_to_attach() with its configuration");
  const auto how = where.how();
  auto to = guests::dial(how, {.name = name, .as = guests::purpose::actors, .caf = guests::caf_version()});
  run_handle run{.observer = {}, .control = {}, .node = to.answer.node, .version = to.answer.version, .connection = {}};
  const auto pair = basp::make_socket_pair();
  run.connection = std::make_shared<open_connection>(how.io, std::move(to), pair.ours);
  const auto actor =
      caf::actor_cast<run_actor>(basp::ask_for_actor(system, pair.theirs, system.message_types<run_actor>(), patience));
  run.observer = actor;
  run.control = actor;
  return run;
} catch (const attach_error&) {
  throw;
} catch (const std::exception& problem) {
  throw attach_error("cannot attach to the run at " + where.text + ": " + problem.what());
}

void ask(caf::event_based_actor* self, const run_observer& run, const news_after& last,
         const std::shared_ptr<const std::function<void(const news&)>>& heard,
         const std::shared_ptr<const std::function<void(const caf::error&)>>& lost) {
  self->request(run, caf::infinite, last)
      .then(
          [=](const news& all) {
            (*heard)(all);
            if (!all.over) ask(self, run, {all.next, all.version}, heard, lost);
          },
          [=](const caf::error& why) {
            if (*lost) (*lost)(why);
          });
}

}  // namespace

void prepare_to_attach(caf::actor_system_config& config) {
  basp::prepare(config, beat);
  guests::add_messages(config);
}

run_handle attach(caf::actor_system& system, const std::filesystem::path& out, const std::string& name) {
  return attach_over(system, guests::run_in(out), name);
}

run_handle attach(caf::actor_system& system, const std::string& address, const guest_credentials& who) {
  const auto run = guests::run_at(address, who);
  return attach_over(system, run, run.name);
}

void follow(caf::event_based_actor* self, const run_observer& run, std::function<void(const news&)> heard,
            std::function<void(const caf::error&)> lost) {
  // A request that is under way when a connection ends gets no answer, so the actor is monitored as well.
  const auto told = std::make_shared<const std::function<void(const caf::error&)>>(std::move(lost));
  self->monitor(run);
  self->set_down_handler([=](const caf::down_msg& down) {
    if (down.source == run.address() && *told) (*told)(down.reason);
  });
  ask(self, run, {}, std::make_shared<const std::function<void(const news&)>>(std::move(heard)), told);
}

std::optional<double> number_in(std::string_view line, const char* key) {
  const auto object = files::parse_json(line);
  return object.is_object() ? files::number_at(object, key) : std::nullopt;
}

std::string text_in(std::string_view line, const char* key) {
  const auto object = files::parse_json(line);
  if (!object.is_object()) return {};
  const auto entry = object.find(key);
  return entry != object.end() && entry->is_string() ? entry->get<std::string>() : std::string();
}

}  // namespace troupe

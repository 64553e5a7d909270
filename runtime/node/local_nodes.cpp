#include "troupe/runtime/node/local_nodes.hpp"

#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/node/child_process.hpp"
#include "troupe/runtime/node/process_handle.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/tcp/free_ports.hpp"
#include "troupe/runtime/tcp/listen.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// After one node has failed: the time until the others are asked to end, and until they are killed. When the first
/// node has ended, they are asked at once, because it has waited for them.
constexpr std::chrono::milliseconds time_to_ask{500}, time_to_kill{2000};

/// Text without an end of line is forwarded in pieces of this many bytes.
constexpr std::size_t longest_line = 4096;

struct child {
  std::string name;
  pid_t process{-1};
  int output{-1};            ///< The pipe with its output; -1 after it is closed.
  std::string line{};        ///< The line that has begun and not ended.
  bool asked_to_end{false};  ///< It was asked to end, or killed, so its exit status is not that of the run.
};

/// Returns the result of a system call. Throws std::runtime_error if it failed.
int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

child start(const local_node& node, bool has_stdout) {
  int ends[2];
  checked(pipe2(ends, O_CLOEXEC), "pipe");
  child result{.name = node.name, .output = ends[0]};
  try {
    result.process = start_child(node.arguments, {.output = ends[1], .shares_stdout = has_stdout});
  } catch (...) {
    for (const auto end : ends) close(end);
    throw;
  }
  close(ends[1]);
  return result;
}

void print_line(child& who) {
  std::fprintf(stderr, "%s | %s\n", who.name.c_str(), data::printable_utf8(who.line).c_str());
  who.line.clear();
}

/// Forwards whole lines of a node's output, each prefixed with the name of the node.
void forward_output(child& who) {
  char bytes[4096];
  const auto count = read(who.output, bytes, sizeof(bytes));
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    close(who.output);
    who.output = -1;
    if (!who.line.empty()) print_line(who);
    return;
  }
  for (const char c : std::string_view{bytes, static_cast<std::size_t>(count)}) {
    if (c != '\n') who.line += c;
    if (c == '\n' || who.line.size() == longest_line) print_line(who);
  }
}

/// Returns the exit status of a process that has closed its output. Reports a signal that terminated it.
int status_of(child& who) {
  int status = 0;
  pid_t result = -1;
  do result = waitpid(who.process, &status, 0);
  while (result < 0 && errno == EINTR);
  who.process = -1;
  if (result < 0) return 1;  // it has been reaped already
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  if (!who.asked_to_end)
    std::fprintf(stderr, "error: node %s was terminated by signal %d (%s)\n", who.name.c_str(), WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
  return 1;
}

/// Returns whether a process is stopped (SIGSTOP, a debugger), so that it cannot react to signals.
bool is_stopped(pid_t process) {
  const auto state = state_of_process(process);
  return state == 'T' || state == 't';
}

/// All child processes. The destructor kills those that remain.
struct child_processes {
  std::vector<child> children;

  ~child_processes() {
    for (auto& node : children) {
      if (node.process > 0) kill(node.process, SIGKILL);
      if (node.process > 0) waitpid(node.process, nullptr, 0);
      if (node.output >= 0) close(node.output);
    }
  }

  /// Asks the remaining processes to end, and kills those that are stopped. `failed`: whether the run has failed.
  void ask_to_end(bool failed) {
    for (auto& node : children) {
      const auto already = std::exchange(node.asked_to_end, true);
      if (node.process < 0 || already) continue;
      const auto stopped = is_stopped(node.process);
      if (stopped)
        std::fprintf(stderr, "%s: node %s was suspended (SIGSTOP or a debugger) and has been killed\n",
                     failed ? "error" : "warning", node.name.c_str());
      kill(node.process, stopped ? SIGKILL : SIGTERM);
    }
  }

  void kill_all(bool failed) {
    for (auto& node : children) {
      if (node.process < 0) continue;
      std::fprintf(stderr, "%s: node %s did not exit with the other nodes and has been killed\n",
                   failed ? "error" : "warning", node.name.c_str());
      node.asked_to_end = true;
      kill(node.process, SIGKILL);
    }
  }

  bool ended() const {
    return std::all_of(children.begin(), children.end(), [](const child& node) { return node.process < 0; });
  }
};

/// Continues the nodes whenever this process continues, because they stop with it.
class continuing {
 public:
  continuing(signal_watch& signals, const child_processes& all) : signals_(signals) {
    for (const auto& node : all.children) nodes_.push_back(std::make_unique<process_handle>(node.process));
    signals_.on_continue([this] {
      for (const auto& node : nodes_) node->send(SIGCONT);
    });
  }
  ~continuing() { signals_.on_continue({}); }
  continuing(const continuing&) = delete;
  continuing& operator=(const continuing&) = delete;

 private:
  signal_watch& signals_;
  std::vector<std::unique_ptr<process_handle>> nodes_;
};

/// Sets the port that other nodes dial and, if the node listens at the same endpoint, the port that is bound.
void set_port(planned_node& node, std::uint16_t port) {
  const auto listens_there = node.listen == node.address;
  node.address.port = port;
  if (listens_there) node.listen.port = port;
}

}  // namespace

void check_this_host(const plan& plan) {
  for (const auto& node : plan.nodes)
    if (!transport::is_of_this_host(node.address))
      refuse(plan.file, "node." + node.name + ".address",
             "node." + node.name + ".address is \"" + print_endpoint(node.address) +
                 "\", which is not an address of this host, where `troupe run` would start all nodes; start each node "
                 "on its own host with `troupe node`");
}

void choose_ports(std::vector<planned_node>& nodes) {
  transport::free_ports free;
  for (auto& node : nodes) {
    if (node.address.port == 0) {
      set_port(node, free.next(node.address.host));
      continue;
    }
    transport::check_free(node.listen);
  }
}

std::vector<std::string> chosen_ports(const plan& plan, const std::vector<planned_node>& nodes) {
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (plan.nodes[i].address.port == 0) chosen.push_back(nodes[i].name + "=" + std::to_string(nodes[i].address.port));
  return chosen;
}

void assign_ports(plan& plan, const std::vector<std::string>& chosen) {
  for (const auto& text : chosen) {
    const auto equals = std::min(text.find('='), text.size());
    const auto named = [&](const planned_node& node) { return node.name == std::string_view(text).substr(0, equals); };
    const auto node = std::find_if(plan.nodes.begin(), plan.nodes.end(), named);
    std::uint16_t port = 0;
    const auto* end = text.data() + text.size();
    const auto* begin = text.data() + std::min(equals + 1, text.size());
    const auto [last, error] = std::from_chars(begin, end, port);
    if (node == plan.nodes.end() || error != std::errc{} || last != end || port == 0)
      throw input_error("--port " + text + " is not the port of a node; expected NAME=PORT");
    set_port(*node, port);
  }
}

int run_local_nodes(const std::vector<local_node>& nodes, signal_watch& signals) {
  std::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD is inherited, and discards exit statuses
  become_launcher();              // the nodes are in groups of their own, which Ctrl-Z does not stop
  child_processes processes;
  for (const auto& node : nodes) processes.children.push_back(start(node, processes.children.empty()));
  const process_handle first{processes.children.front().process};
  const signal_handler to_first{signals, [&first](int signal) { first.send(signal); }};
  const continuing continue_all{signals, processes};

  int status = 0;
  constexpr auto never = clock::time_point::max();
  auto ask_at = never, kill_at = never;
  const auto limit = [](clock::time_point& when, clock::duration delay) {
    when = std::min(when, clock::now() + delay);
  };
  while (!processes.ended()) {
    std::vector<pollfd> waiting;
    for (const auto& node : processes.children) waiting.push_back({node.output, POLLIN, 0});
    if (clock::now() >= ask_at) {
      processes.ask_to_end(status != 0);
      ask_at = never;
    }
    if (clock::now() >= kill_at) {
      processes.kill_all(status != 0);
      kill_at = never;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(ask_at, kill_at) - clock::now()).count();
    const auto timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    if (poll(waiting.data(), waiting.size(), timeout_ms) < 0 && errno != EINTR) checked(-1, "poll");
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      auto& node = processes.children[i];
      if (waiting[i].revents == 0 || node.output < 0) continue;
      forward_output(node);
      if (node.output >= 0) continue;
      const auto ended = status_of(node);
      if (status == 0 && !(node.asked_to_end && i > 0)) status = ended;
      if (ended == 0 && i > 0) continue;
      // A node that was refused or interrupted does not wait for anything: the others are asked to end at once.
      if (ended > 1 && !node.asked_to_end) processes.ask_to_end(true);
      limit(ask_at, i == 0 ? std::chrono::milliseconds{0} : time_to_ask);
      limit(kill_at, time_to_kill);
    }
  }
  return status;
}

}  // namespace troupe

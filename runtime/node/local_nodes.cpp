#include "troupe/runtime/node/local_nodes.hpp"

#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/transport/free_ports.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// How long the others may take once one has failed: until they are told to go, and until they are killed. Once the
/// first has ended they are told at once: it has waited for them.
constexpr std::chrono::milliseconds until_told{500}, until_killed{2000};

/// What comes without an end of line is passed on in pieces of so many bytes.
constexpr std::size_t longest_line = 4096;

struct child {
  std::string name;
  pid_t process{-1};
  int output{-1};        ///< What it says, until it ends.
  std::string line{};    ///< Begun, not ended.
  bool sent_off{false};  ///< Told to go, or killed: how it ends says nothing of the run.
};

/// A system call that did not work ends the run.
int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

/// What the new process does until it is the command. No allocation, no lock: only this thread has come along.
[[noreturn]] void become(char* const* arguments, int output, bool has_stdout, pid_t parent) {
  setpgid(0, 0);                  // signals of the terminal are the parent's
  std::signal(SIGTTOU, SIG_IGN);  // and the first node may write there all the same
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDERR_FILENO);
  if (!has_stdout) dup2(output, STDOUT_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

child start(const local_node& node, bool has_stdout) {
  int ends[2];
  checked(pipe2(ends, O_CLOEXEC), "pipe");
  std::vector<char*> arguments;
  for (const auto& argument : node.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const auto parent = getpid();
  const auto process = fork();
  if (process == 0) become(arguments.data(), ends[1], has_stdout, parent);
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    checked(-1, "fork");
  }
  return {.name = node.name, .process = process, .output = ends[0]};
}

void pass_on(child& who) {
  std::fprintf(stderr, "%s | %s\n", who.name.c_str(), who.line.c_str());
  who.line.clear();
}

/// Passes on whole lines, each under the name of who said it.
void hear(child& who) {
  char bytes[4096];
  const auto count = read(who.output, bytes, sizeof(bytes));
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    close(who.output);
    who.output = -1;
    if (!who.line.empty()) pass_on(who);
    return;
  }
  for (const char c : std::string_view{bytes, static_cast<std::size_t>(count)}) {
    if (c != '\n') who.line += c;
    if (c == '\n' || who.line.size() == longest_line) pass_on(who);
  }
}

/// Returns the exit status of a process that has closed its output, and says so where it did not end by itself.
int status_of(child& who) {
  int status = 0;
  while (waitpid(who.process, &status, 0) < 0 && errno == EINTR) {
  }
  who.process = -1;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  if (!who.sent_off)
    std::fprintf(stderr, "error: node %s was terminated by signal %d (%s)\n", who.name.c_str(), WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
  return 1;
}

/// Whether a process is stopped (SIGSTOP, a debugger): it can hear of nothing.
bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto state = text.rfind(") ");  // the name before it may hold anything
  return state != std::string::npos && state + 2 < text.size() && (text[state + 2] == 'T' || text[state + 2] == 't');
}

/// All children, none of which outlives it.
struct family {
  std::vector<child> members;

  ~family() {
    for (auto& one : members) {
      if (one.process > 0) kill(one.process, SIGKILL);
      if (one.process > 0) waitpid(one.process, nullptr, 0);
      if (one.output >= 0) close(one.output);
    }
  }

  /// Tells those that are there still to go, and kills those that cannot hear it. `failed`: the run has.
  void tell_to_go(bool failed) {
    for (auto& one : members) {
      const auto told = std::exchange(one.sent_off, true);
      if (one.process < 0 || told) continue;
      const auto stopped = is_stopped(one.process);
      if (stopped)
        std::fprintf(stderr, "%s: node %s was suspended (SIGSTOP or a debugger) and has been killed\n",
                     failed ? "error" : "warning", one.name.c_str());
      kill(one.process, stopped ? SIGKILL : SIGTERM);
    }
  }

  void kill_all(bool failed) {
    for (auto& one : members) {
      if (one.process < 0) continue;
      std::fprintf(stderr, "%s: node %s did not exit with the other nodes and has been killed\n",
                   failed ? "error" : "warning", one.name.c_str());
      one.sent_off = true;
      kill(one.process, SIGKILL);
    }
  }

  bool ended() const {
    return std::all_of(members.begin(), members.end(), [](const child& one) { return one.process < 0; });
  }
};

}  // namespace

void check_one_host(const plan& plan) {
  for (const auto& node : plan.nodes)
    for (const auto& [key, address] : {std::pair{"address", node.address}, {"listen", node.listen}})
      if (!node.name.empty() && !topology::is_loopback(address))
        refuse(plan.file, "node." + node.name + "." + key,
               "node." + node.name + "." + key + " is \"" + topology::print_endpoint(address) +
                   "\"; all nodes must be on one host in this version; expected a loopback address, such as "
                   "\"127.0.0.1:4700\"");
}

void choose_ports(std::vector<planned_node>& nodes) {
  transport::free_ports free;
  for (auto& node : nodes) {
    if (node.address.port == 0) {
      node.address.port = free.next(node.address.host);
      continue;
    }
    auto tensors = node.listen;
    tensors.port += 1;
    transport::check_free(tensors);
    if (&node == &nodes.front()) transport::check_free(node.listen);
  }
}

int run_local_nodes(const std::vector<local_node>& nodes, signal_watch& signals) {
  family all;
  for (const auto& node : nodes) all.members.push_back(start(node, all.members.empty()));
  const auto first = all.members.front().process;
  const signal_handler to_first{signals, [first](int signal) { kill(first, signal); }};

  int status = 0;
  constexpr auto never = clock::time_point::max();
  auto told = never, killed = never;
  const auto limit = [](clock::time_point& when, clock::duration patience) {
    when = std::min(when, clock::now() + patience);
  };
  while (!all.ended()) {
    std::vector<pollfd> waiting;
    for (const auto& one : all.members) waiting.push_back({one.output, POLLIN, 0});
    if (clock::now() >= told) {
      all.tell_to_go(status != 0);
      told = never;
    }
    if (clock::now() >= killed) {
      all.kill_all(status != 0);
      killed = never;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(told, killed) - clock::now()).count();
    const auto patience = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    if (poll(waiting.data(), waiting.size(), patience) < 0 && errno != EINTR) checked(-1, "poll");
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      auto& one = all.members[i];
      if (waiting[i].revents == 0 || one.output < 0) continue;
      hear(one);
      if (one.output >= 0) continue;
      const auto ended = status_of(one);
      if (status == 0 && !(one.sent_off && i > 0)) status = ended;
      if (ended == 0 && i > 0) continue;
      // One that was refused or interrupted has nothing to find out: the others go at once.
      if (ended > 1 && !one.sent_off) all.tell_to_go(true);
      limit(told, i == 0 ? std::chrono::milliseconds{0} : until_told);
      limit(killed, until_killed);
    }
  }
  return status;
}

}  // namespace troupe

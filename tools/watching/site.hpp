// The answers of the dashboard's server: a function of a request and the state of the run, without sockets. All
// addresses are fixed, so no path reaches a file. Texts that are costly to make are kept, and made again at most twice
// per second and during at most about 1 % of the time, whatever is requested. Used by one thread.
#pragma once

#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::watching {

/// The parts of an HTTP request that matter.
struct http_request {
  std::string method, target;
  std::string host, authorization;  ///< Header fields; empty if missing.
  bool has_body{false};
};

/// What is sent repeatedly on one connection until the run ends.
enum class feed : std::uint8_t {
  none,
  page,  ///< Updates of the page.
  data,  ///< The numbers of /data.json.
};

struct http_answer {
  unsigned status{200};
  std::string type{"text/plain; charset=utf-8"};
  std::string body{};
  std::vector<std::pair<std::string, std::string>> fields{};  ///< Further header fields.
  feed follows{feed::none};                                   ///< Feed that is sent after the answer.
};

struct site_options {
  run_facts facts{};
  std::shared_ptr<const history> run{};
  std::string token{};  ///< Required in all requests except /healthz; empty if no token is required.
};

class site {
 public:
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit site(site_options options, clock now = std::chrono::steady_clock::now);

  /// Answers a request. Without a token, the host must be a loopback name, so that no page of another host whose name
  /// is made to point here can read anything (DNS rebinding).
  http_answer answer(const http_request& request);

  /// Returns the newest update of the page, or the newest numbers, as a server-sent event.
  const std::string& update(feed of) { return update(of, false); }

  /// Returns the same, but makes it even if the last one is recent.
  const std::string& last_update(feed of) { return update(of, true); }

 private:
  /// A text, and when it was made.
  struct kept {
    std::string text{};
    std::uint64_t version{0};
    std::chrono::steady_clock::time_point next{};  ///< Not made again before this time.
    bool is_made{false};
  };

  const std::string& update(feed of, bool now);
  const std::string& fresh(kept& one, const std::function<std::string()>& make, bool now = false);
  http_answer route(const std::string& path);
  bool has_wiring() const;

  site_options options_;
  clock now_;
  kept page_, update_, metrics_, json_, data_update_, csv_;
  std::string wiring_;
};

/// Returns whether a Host field names this host by a loopback name or address.
bool is_loopback_host(std::string_view host);

/// Returns the value of a parameter in the query of a target, or "".
std::string parameter_of(std::string_view target, std::string_view name);

}  // namespace troupe::watching

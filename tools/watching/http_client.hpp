// Reads what a dashboard serves, for `troupe top`. The server is not trusted: its answers must have a bounded size and
// arrive in time, and their text must not be printed to a terminal as it is. Used by one thread.
#pragma once

#include "troupe/net/channels/endpoint.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::watching {

/// Where a dashboard is served, and the token that it requires; empty for none.
struct dashboard_address {
  endpoint where;
  std::string token{};
};

/// Parses HOST:PORT or the URL that a run has printed. Returns nothing for other text.
std::optional<dashboard_address> parse_dashboard_address(std::string_view text);

struct client_limits {
  std::size_t bytes{8u << 20u};                ///< Maximum size of an answer, or of one event.
  std::chrono::milliseconds to_answer{5'000};  ///< Time to connect, and time for a header or the whole answer.
  std::chrono::milliseconds silence{40'000};   ///< Maximum silence; a dashboard sends something every 15 seconds.
};

/// Returns whether to continue reading. Called several times per second.
using keep_on = std::function<bool()>;

/// Returns the answer to GET `path`, or nothing if `goes_on` has returned false. Throws std::runtime_error, which
/// states what to do, if nothing listens there or it is not a dashboard.
std::optional<std::string> fetch(const dashboard_address& from, const std::string& path, const keep_on& goes_on,
                                 const client_limits& limits = {});

/// Calls `take` with the text of each event of `path` until the server closes the connection or `goes_on` returns
/// false. Throws as fetch() does.
void follow(const dashboard_address& from, const std::string& path, const std::function<void(std::string_view)>& take,
            const keep_on& goes_on, const client_limits& limits = {});

/// Separates server-sent events.
class event_reader {
 public:
  explicit event_reader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Takes bytes of any number of events; returns the data of those that they complete. Throws std::length_error if
  /// one is too long.
  std::vector<std::string> read(std::string_view bytes);

 private:
  void take_line(std::vector<std::string>& complete);

  std::size_t bytes_max_;
  std::string line_, data_;
};

}  // namespace troupe::watching

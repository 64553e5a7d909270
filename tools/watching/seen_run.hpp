// A run as its dashboard describes it in /data.json, read back. The text is not trusted: what does not fit is left out,
// and names are short and safe to print.
#pragma once

#include "troupe/tools/watching/summary.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::watching {

struct seen_worker {
  std::uint64_t steps{0}, samples{0}, bytes_sent{0};
  std::optional<time_shares> shares{};
};

/// An emulated link, or an edge of the wiring.
struct seen_link {
  std::string name;
  std::optional<double> bytes{}, rate{};               ///< In total, and per second.
  std::optional<double> busy{}, queue{}, wait_mean{};  ///< See link_traffic.
  std::optional<double> staleness{};
};

struct seen_run {
  std::string title, model, data, status, waiting;
  bool simulated{false};
  std::uint64_t steps{0}, step{0}, bytes_sent{0};
  std::optional<double> seconds{}, seconds_left{}, samples_per_second{};
  std::optional<double> train_loss{}, train_accuracy{}, val_loss{}, val_accuracy{}, lr{};
  std::optional<double> consensus_distance{}, staleness_mean{};
  std::vector<seen_worker> workers{};
  std::vector<seen_link> links{}, edges{};

  bool has_ended() const { return status != "waiting" && status != "training"; }
};

/// Parses the text of /data.json, or returns nothing if it is not that of a dashboard.
std::optional<seen_run> parse_seen_run(std::string_view text);

/// Returns the same text as JSON on one line, with nothing but ASCII characters; "" if it is not JSON.
std::string clean_json(std::string_view text);

}  // namespace troupe::watching

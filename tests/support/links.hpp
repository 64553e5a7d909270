// Emulated links, as a topology file describes them.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

struct link_keys {
  std::optional<topology::byte_rate> bandwidth{};
  std::optional<std::chrono::microseconds> latency{}, jitter{};
  std::optional<double> loss{};
};

inline topology::link_settings made(const link_keys& keys) {
  topology::link_settings made;
  made.bandwidth = keys.bandwidth;
  made.latency = keys.latency;
  made.jitter = keys.jitter;
  made.loss = keys.loss;
  return made;
}

inline topology::link_settings at(const std::string& place, const link_keys& keys = {}) {
  auto link = made(keys);
  link.at = place;
  return link;
}

inline topology::link_settings between(const std::string& a, const std::string& b, const link_keys& keys = {}) {
  auto link = made(keys);
  link.between = {a, b};
  return link;
}

inline void set_links(plan& of, std::vector<topology::link_settings> links) {
  of.file.links = std::move(links);
  of.links = plan_links(of);
}

}  // namespace troupe::testing

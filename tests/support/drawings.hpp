// Plans of well-known shapes, and functions that read their drawings.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// A kind without settings. Each test sets its own edges.
inline exchange_kind kind_of(const std::string& name) {
  exchange_kind kind;
  kind.name = name;
  return kind;
}

/// Returns a plan of `workers` workers of a small model, with `edges` between them.
inline plan plan_of(std::uint32_t workers, std::vector<planned_edge> edges) {
  static const auto kind = kind_of("test_exchange");
  static const models::network_kind model{"convnet", "", nullptr};
  static const data::dataset_kind data{.name = "mnist",
                                       .explanation = "",
                                       .folder = "",
                                       .sample_shape = {1, 28, 28},
                                       .classes = 10,
                                       .published = {},
                                       .load = nullptr};
  plan plan;
  plan.file.file = "topologies/a & b.toml";
  plan.file.workers.loop = {"gradient", "exchange", "apply"};
  plan.model = &model;
  plan.data = &data;
  plan.sampling.batch_size = 16;
  plan.layout.parameter_count = 21'840;
  plan.workers = workers;
  plan.exchanges = {{.name = "exchange", .kind = &kind, .first_server = workers}};
  plan.traffic = {{.edges = std::move(edges)}};
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    plan.exchanges[0].members.push_back({.name = "w" + std::to_string(rank), .ranks = {rank}});
  plan.actors.resize(3 * workers + 3);
  return plan;
}

inline plan ring(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 0; rank < workers; ++rank) edges.push_back({rank, (rank + 1) % workers, 2, 2048});
  return plan_of(workers, edges);
}

inline plan star(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 1; rank < workers; ++rank) {
    edges.push_back({rank, 0, 1, 1024});
    edges.push_back({0, rank, 1, 1024});
  }
  return plan_of(workers, edges);
}

inline plan mesh(std::uint32_t workers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t from = 0; from < workers; ++from)
    for (std::uint32_t to = 0; to < workers; ++to)
      if (from != to) edges.push_back({from, to, 2, 512});
  return plan_of(workers, edges);
}

/// All workers with each of `servers` servers, 1 KiB each way.
inline plan served(std::uint32_t workers, std::uint32_t servers) {
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    for (std::uint32_t i = 0; i < servers; ++i) {
      edges.push_back({rank, workers + i, 1, 1024});
      edges.push_back({.from = workers + i, .to = rank, .messages = 1, .bytes = 1024, .elements = 256});
    }
  auto plan = plan_of(workers, edges);
  plan.exchanges[0].nature.servers = servers;
  plan.exchanges[0].carries.answers = slot::parameters;
  plan.actors.resize(plan.actors.size() + servers);
  return plan;
}

/// Pairs of workers that reduce among themselves and exchange with each other through their leaders.
inline plan pairs(std::uint32_t groups) {
  std::vector<planned_edge> edges;
  for (std::uint32_t group = 0; group < groups; ++group) {
    const auto leader = 2 * group;
    edges.push_back({leader + 1, leader, 1, 1024});
    edges.push_back({leader, leader + 1, 1, 1024});
    edges.push_back({leader, (leader + 2) % (2 * groups), 1, 1024});
  }
  auto plan = plan_of(2 * groups, edges);
  plan.exchanges[0].members.clear();
  for (std::uint32_t group = 0; group < groups; ++group)
    plan.exchanges[0].members.push_back({.name = "pair " + std::to_string(group), .ranks = {2 * group, 2 * group + 1}});
  return plan;
}

/// Returns the same plan on nodes of so many workers each.
inline plan on_nodes(plan plan, const std::vector<std::uint32_t>& workers) {
  plan.nodes.clear();
  std::uint32_t placed = 0;
  for (const auto count : workers) {
    const auto port = static_cast<std::uint16_t>(4700 + 10 * plan.nodes.size());
    const endpoint address{.host = "127.0.0.1", .port = port};
    plan.nodes.push_back({.name = "node-" + std::to_string(plan.nodes.size()),
                          .address = address,
                          .listen = address,
                          .first_rank = placed,
                          .workers = count});
    placed += count;
  }
  return plan;
}

/// Returns how often `what` occurs in `text`.
inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// A rectangle, by its centre.
struct box {
  double x, y, width, height;
};

/// Returns the boxes of a drawing whose name matches this regular expression.
inline std::vector<box> boxes_of(const std::string& dot, const std::string& name = "w\\d+") {
  const std::regex pattern("\"" + name + "\" \\[pos=\"([-.0-9]+),([-.0-9]+)\", width=([.0-9]+), height=([.0-9]+)");
  std::vector<box> boxes;
  for (auto at = std::sregex_iterator(dot.begin(), dot.end(), pattern); at != std::sregex_iterator(); ++at)
    boxes.push_back({std::stod((*at)[1]), std::stod((*at)[2]), 72 * std::stod((*at)[3]), 72 * std::stod((*at)[4])});
  return boxes;
}

/// Returns whether the boxes are more than `gap` apart.
inline bool apart(const box& a, const box& b, double gap) {
  return std::abs(a.x - b.x) > (a.width + b.width) / 2 + gap || std::abs(a.y - b.y) > (a.height + b.height) / 2 + gap;
}

}  // namespace troupe::testing

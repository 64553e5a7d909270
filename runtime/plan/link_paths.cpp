#include "troupe/runtime/plan/link_paths.hpp"

namespace troupe {

link_paths::link_paths(const planned_wiring& plan, bool real) : workers_(plan.workers) {
  for (const auto& link : plan.links)
    if (real || !link.given.real) links_.push_back(link);
  for (std::uint32_t id = 0; id < plan.workers + plan.servers(); ++id) node_of_.push_back(plan.node_of(id));
  for (const auto& node : plan.nodes) node_names_.push_back(node.name);
}

std::string link_paths::name_of_id(std::uint32_t id) const {
  return id < workers_ ? "w" + std::to_string(id) : "s" + std::to_string(id - workers_);
}

std::string link_paths::name_of(const wire_id& wire) const {
  switch (wire.to) {
    case wire_id::belongs::to_id:
      return name_of_id(wire.which);
    case wire_id::belongs::to_node:
      return node_names_[wire.which];
    case wire_id::belongs::to_link:
      return wire.between_nodes ? node_names_[wire.which] + " to " + node_names_[wire.other]
                                : name_of_id(wire.which) + " to " + name_of_id(wire.other);
  }
  return {};
}

/// Returns whether the interface at `where` carries messages of `id` to or from `other`.
bool link_paths::is_at(const link_end& where, std::uint32_t id, std::uint32_t other) const {
  if (where.node) return node_of_[id] == *where.node && node_of_[other] != *where.node;
  return where.everywhere || where.id == id;
}

bool link_paths::leads_between(const planned_link& which, std::uint32_t from, std::uint32_t to) const {
  const auto matches = [&](const link_end& where, std::uint32_t id) {
    return where.node ? node_of_[id] == *where.node : where.id == id;
  };
  const auto& ends = which.ends;
  return (matches(ends[0], from) && matches(ends[1], to)) || (matches(ends[1], from) && matches(ends[0], to));
}

wire_id link_paths::interface_of(const link_end& where, std::uint32_t id, bool sends) {
  return {.to = where.node ? wire_id::belongs::to_node : wire_id::belongs::to_id,
          .sends = sends,
          .which = where.node.value_or(id)};
}

link_path link_paths::between(std::uint32_t from, std::uint32_t to) const {
  link_path path;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto& link = links_[i];
    const auto& given = link.given;
    const auto direct = link.ends.size() == 2;
    const auto sends = direct ? leads_between(link, from, to) : is_at(link.ends[0], from, to);
    const auto receives = direct ? false : is_at(link.ends[0], to, from);
    if (!sends && !receives) continue;
    if (given.latency) path.latency = given.latency;
    if (given.jitter) path.jitter = given.jitter;
    if (given.loss) path.loss = given.loss;
    if (!given.bandwidth) continue;
    const auto rate = given.bandwidth->bytes_per_second;
    if (direct) {  // a dedicated link, on which no other messages wait
      const auto of_nodes = link.ends[0].node || link.ends[1].node;
      path.sending = {.to = wire_id::belongs::to_link,
                      .which = of_nodes ? node_of_[from] : from,
                      .other = of_nodes ? node_of_[to] : to,
                      .link = i,
                      .between_nodes = of_nodes};
      path.send_rate = rate;
      path.receiving.reset();
      continue;
    }
    if (sends) path.sending = interface_of(link.ends[0], from, true), path.send_rate = rate;
    if (receives) path.receiving = interface_of(link.ends[0], to, false), path.receive_rate = rate;
  }
  return path;
}

}  // namespace troupe

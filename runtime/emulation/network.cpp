#include "troupe/runtime/emulation/network.hpp"

#include "troupe/data/random/random.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::emulation {

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t packet_bytes = 1500;

/// Separates the draws for links from other draws with the same seed.
constexpr std::uint64_t of_links = 0x6c696e6b73;

/// Limit on the time that a message takes on any part of its way, so that no time overflows, whatever rates and delays
/// the file has. A simulation in which a message takes this long, more than a hundred years, ends with an error.
constexpr time longest = 24h * 36'890;

time limited(double nanoseconds) {
  if (!(nanoseconds < static_cast<double>(longest.count()))) return longest;
  return time{std::llround(nanoseconds)};
}

time length_of(std::int64_t bytes, double rate) {
  return limited(1e9 * static_cast<double>(bytes) / rate);
}

/// Returns the number of packets lost out of `packets`, each with this probability. Gaps between losses are geometric.
std::uint64_t losses(data::random_stream& random, std::uint64_t packets, double probability) {
  if (probability <= 0) return 0;
  std::uint64_t lost = 0;
  for (double at = 0;; ++lost) {
    at += 1 + std::floor(std::log(1 - random.between(0, 1)) / std::log1p(-probability));
    if (!(at <= static_cast<double>(packets))) return lost;
  }
}

}  // namespace

wire::wire(std::string name, bool sends, std::shared_ptr<trace_sink> sink)
    : usage_{.name = std::move(name), .sends = sends}, sink_(std::move(sink)) {}

time wire::occupy(time earliest, time length, std::int64_t bytes) {
  const std::lock_guard lock{mutex_};
  earliest = std::min(earliest, latest);
  const auto begin = std::min(std::max(earliest, free_), latest);
  free_ = begin + length;
  usage_.messages += 1;
  usage_.bytes += bytes;
  usage_.busy = std::min(usage_.busy + length, latest);
  usage_.waited = std::min(usage_.waited + (begin - earliest), latest);
  usage_.longest_wait = std::max(usage_.longest_wait, begin - earliest);
  if (!sink_) return begin;
  if (!track_) track_ = {sink_, "interface of " + usage_.name + (usage_.sends ? ", sending" : ", receiving")};
  track_.add(usage_.sends ? "send" : "receive", begin, free_, {{"bytes", bytes}});
  return begin;
}

wire_usage wire::usage() const {
  const std::lock_guard lock{mutex_};
  return usage_;
}

/// Returns the latency of the message with this number, including its jitter and its losses.
time sender::delay_of(std::int64_t bytes, std::uint64_t number) const {
  const auto link = std::uint64_t{over_.from} << 32 | over_.to;
  data::random_stream random{data::keyed(seed_ ^ of_links, data::purpose::exchange, link, number)};
  const auto delay =
      over_.latency + time{static_cast<std::int64_t>(random.between(0, static_cast<double>(over_.jitter.count())))};
  const auto packets = static_cast<std::uint64_t>((bytes + packet_bytes - 1) / packet_bytes);
  const auto lost = static_cast<double>(losses(random, packets, over_.loss));
  return delay + limited(2 * static_cast<double>(over_.latency.count()) * lost);
}

time sender::send(std::int64_t bytes, time now) const {
  const auto length = over_.sending ? length_of(bytes, over_.send_rate) : time{0};
  const auto leave = [&] { return over_.sending ? over_.sending->occupy(now, length, bytes) : now; };
  if (!over_.order) return leave() + over_.latency;
  return over_.order->next(length, [&](std::uint64_t number) { return leave() + delay_of(bytes, number); });
}

time receive(const route& over, std::int64_t bytes, time first) {
  const auto sent = over.sending ? first + length_of(bytes, over.send_rate) : first;
  if (!over.receiving) return sent;
  const auto length = length_of(bytes, over.receive_rate);
  return std::max(sent, over.receiving->occupy(first, length, bytes) + length);
}

network::network(const plan& plan, std::uint64_t seed, std::shared_ptr<trace_sink> sink, realm where)
    : links_(plan, where == realm::simulation), workers_(plan.workers), seed_(seed), sink_(std::move(sink)) {
  std::size_t edges = 0;
  for (const auto& exchange : plan.exchanges) edges += plan.traffic_of(exchange).edges.size();
  counts_ = edges > 0 && edges <= counted_max;
}

std::shared_ptr<wire> network::wire_of(const wire_id& id) {
  auto& cached = wire_by_id_[id];
  if (cached) return cached;
  cached = std::make_shared<wire>(links_.name_of(id), id.sends, sink_);
  const std::lock_guard lock{mutex_};
  wires_.push_back(cached);
  return cached;
}

std::shared_ptr<edge_meter> network::meter_of(std::uint32_t from, std::uint32_t to,
                                              const std::shared_ptr<wire>& sending) {
  if (!counts_) return nullptr;
  const std::lock_guard lock{mutex_};
  auto& edge = edges_[{from, to}];
  if (!edge.meter) edge.meter = std::make_shared<edge_meter>();
  if (sending) edge.wire = sending->usage().name;
  return edge.meter;
}

traffic network::counted() const {
  traffic all;
  if (!counts_) return all;
  all.wires = usage();
  const std::lock_guard lock{mutex_};
  for (const auto& [ends, edge] : edges_)
    if (const auto& meter = *edge.meter; meter.messages() > 0)
      all.edges.push_back({.from = ends.first,
                           .to = ends.second,
                           .messages = meter.messages(),
                           .bytes = meter.bytes(),
                           .staleness = meter.staleness(),
                           .wire = edge.wire});
  return all;
}

std::vector<wire_usage> network::usage() const {
  const std::lock_guard lock{mutex_};
  std::vector<wire_usage> all;
  for (const auto& direction : wires_)
    if (auto used = direction->usage(); used.messages > 0) all.push_back(std::move(used));
  return all;
}

route network::between(std::uint32_t from, std::uint32_t to) {
  const auto path = links_.between(from, to);
  route result{.from = from, .to = to, .send_rate = path.send_rate, .receive_rate = path.receive_rate};
  if (path.sending) result.sending = wire_of(*path.sending);
  if (path.receiving) result.receiving = wire_of(*path.receiving);
  result.latency = path.latency.value_or(std::chrono::microseconds{0});
  result.jitter = path.jitter.value_or(std::chrono::microseconds{0});
  result.loss = path.loss.value_or(0);
  if (result.jitter.count() == 0 && result.loss == 0) return result;
  auto& order = orders_[{from, to}];
  if (!order) order = std::make_shared<message_order>();
  result.order = order;
  return result;
}

std::shared_ptr<network> make_network(const plan& plan, std::uint64_t seed, realm where,
                                      std::shared_ptr<trace_sink> sink) {
  auto result = std::make_shared<network>(plan, seed, std::move(sink), where);
  return result->is_emulated() || result->counts() ? result : nullptr;
}

}  // namespace troupe::emulation

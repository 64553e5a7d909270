#include "troupe/tools/timeline/timeline.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

namespace troupe::timeline {

namespace {

/// Maximum number of steps that are searched for an exchange.
constexpr std::uint64_t most_steps_before = 10'000;

/// Assumed for a file without durations and links, so that its messages can be told apart.
constexpr auto* assumed_gradient = "10ms";

topology::link_settings assumed_link() {
  topology::link_settings link;
  link.at = "*";
  link.bandwidth = topology::byte_rate{"200MB/s", 200e6};
  link.latency = std::chrono::microseconds{1500};
  return link;
}

/// A span of the trace.
struct span_copy {
  std::uint32_t track{0};
  std::string what;
  time begin{0}, end{0};
  std::map<std::string, std::int64_t> details;
  trace_span::arrow with{};
  std::uint64_t arrow_id{0};

  std::int64_t detail(const char* name) const {
    const auto entry = details.find(name);
    return entry == details.end() ? 0 : entry->second;
  }
};

/// Keeps all spans of a simulated run.
class kept_trace final : public trace_sink {
 public:
  std::uint32_t track(const std::string& name) override {
    const std::lock_guard lock{mutex_};
    const auto found = std::find(tracks.begin(), tracks.end(), name);
    if (found == tracks.end()) return tracks.push_back(name), static_cast<std::uint32_t>(tracks.size() - 1);
    return static_cast<std::uint32_t>(found - tracks.begin());
  }

  void add(const trace_span& span) override {
    const std::lock_guard lock{mutex_};
    spans.push_back({.track = span.track,
                     .what = span.what,
                     .begin = span.begin,
                     .end = span.end,
                     .details = {span.details.begin(), span.details.end()},
                     .with = span.with,
                     .arrow_id = span.arrow_id});
  }

  std::vector<std::string> tracks;
  std::vector<span_copy> spans;

 private:
  std::mutex mutex_;
};

/// The port to which a track of the trace belongs.
struct port_track {
  std::size_t exchange{0};
  std::uint32_t id{0};
};

/// Turns the spans of a trace into rows and messages.
class reading {
 public:
  reading(const plan& plan, const kept_trace& trace, const window& shown) : plan_(plan), trace_(trace), shown_(shown) {
    made_.first_step = shown.first_step;
    made_.last_step = shown.last_step;
  }

  timeline read() && {
    add_rows();
    for (const auto& span : trace_.spans) add_box(span);
    add_messages();
    cut();
    return std::move(made_);
  }

 private:
  void add_rows() {
    for (std::uint32_t rank = 0; rank < plan_.workers; ++rank) {
      const auto name = label_of_worker(rank).name;
      rows_[label_of_compute(rank).name] = rows_[name] = made_.rows.size();
      made_.rows.push_back({.name = name, .worker = rank});
    }
    computed_.resize(plan_.workers);
    for (std::uint32_t place = 0; place < plan_.exchanges.size(); ++place) {
      const auto& exchange = plan_.exchanges[place];
      const bool is_only = plan_.exchanges.size() == 1;
      for (const auto id : exchange.ids()) {
        const auto port = label_of_port(plan_, place, id).name;
        ports_[port + " parts"] = {place, id};
        if (id < plan_.workers) continue;
        const auto name = "server " + std::to_string(id - exchange.first_server);
        rows_[port] = servers_[id] = made_.rows.size();
        made_.rows.push_back({.name = exchange.nature.in_loop ? (is_only ? "" : exchange.name + " ") + name : "memory",
                              .is_memory = !exchange.nature.in_loop});
      }
    }
    // Lanes on which the ports of workers add what they receive have rows of their own, below their workers.
    for (const auto& span : trace_.spans) {
      const auto& lane = trace_.tracks[span.track];
      const auto port = ports_.find(lane + " parts");
      if (span.what != "fold" || rows_.contains(lane) || port == ports_.end()) continue;
      rows_[lane] = made_.rows.size();
      made_.rows.push_back({.name = lane + ", lane", .worker = port->second.id});
    }
  }

  void add_box(const span_copy& span) {
    const auto& track = trace_.tracks[span.track];
    const auto entry = rows_.find(track);
    if (entry == rows_.end()) return;
    auto& boxes = made_.rows[entry->second].boxes;
    if (span.what == "gradient" || span.what == "step") {
      // A job in a shared memory has many steps, which take equally long.
      const auto count = span.detail("gradients");
      auto& computed = computed_.at(entry->second);
      for (std::int64_t i = 0; i < count; ++i)
        boxes.push_back({.what = activity::computes,
                         .step = ++computed,
                         .begin = span.begin + (span.end - span.begin) * i / count,
                         .end = span.begin + (span.end - span.begin) * (i + 1) / count});
    } else if (span.what == "wait for exchange" || span.what == "wait for batches") {
      boxes.push_back({.what = activity::waits, .begin = span.begin, .end = span.end});
    } else if (span.what == "fold") {
      boxes.push_back({.what = activity::folds, .begin = span.begin, .end = span.end});
    }
  }

  void add_messages() {
    std::map<std::uint64_t, std::size_t> sent;  // index of the message by the number of its arrow
    const auto row_of = [&](std::uint32_t id) { return id < plan_.workers ? id : servers_.at(id); };
    for (const auto& span : trace_.spans) {
      const auto port = ports_.find(trace_.tracks[span.track]);
      if (port == ports_.end() || span.with != trace_span::arrow::begins) continue;
      const auto& exchange = plan_.exchanges[port->second.exchange];
      sent.emplace(span.arrow_id, made_.messages.size());
      made_.messages.push_back({.exchange = port->second.exchange,
                                .step = static_cast<std::uint64_t>(span.detail("step")) + 1 - exchange.due.lead,
                                .from = row_of(port->second.id),
                                .to = row_of(static_cast<std::uint32_t>(span.detail("to"))),
                                .sent = span.begin,
                                .received = span.begin,
                                .at = static_cast<stage>(span.detail("stage")),
                                .elements = {span.detail("first"), span.detail("elements")},
                                .bytes = static_cast<std::uint64_t>(span.detail("bytes"))});
    }
    for (const auto& span : trace_.spans)
      if (const auto entry = sent.find(span.arrow_id);
          span.with == trace_span::arrow::ends && ports_.contains(trace_.tracks[span.track]) && entry != sent.end())
        made_.messages[entry->second].received = span.begin;
    std::stable_sort(made_.messages.begin(), made_.messages.end(), [](const message& a, const message& b) {
      return std::tie(a.sent, a.received, a.from, a.to) < std::tie(b.sent, b.received, b.from, b.to);
    });
  }

  /// Removes what belongs to other steps.
  void cut() {
    const auto is_shown = [&](std::uint64_t step) { return step >= shown_.first_step && step <= shown_.last_step; };
    std::erase_if(made_.messages, [&](const message& delivered) { return !is_shown(delivered.step); });
    auto begin = time::max(), end = time::min();
    const auto include = [&](time from, time to) { begin = std::min(begin, from), end = std::max(end, to); };
    for (const auto& delivered : made_.messages) include(delivered.sent, delivered.received);
    for (const auto& row : made_.rows)
      for (const auto& box : row.boxes)
        if (box.what == activity::computes && is_shown(box.step)) include(box.begin, box.end);
    if (begin > end) begin = end = time{0};
    made_.begin = begin;
    made_.end = end;
    for (auto& row : made_.rows) {
      std::erase_if(row.boxes, [&](const box& candidate) {
        if (candidate.what == activity::computes) return !is_shown(candidate.step);
        return candidate.end <= begin || candidate.begin >= end;
      });
      for (auto& box : row.boxes) box.begin = std::max(box.begin, begin), box.end = std::min(box.end, end);
      std::sort(row.boxes.begin(), row.boxes.end(), [](const box& a, const box& b) { return a.begin < b.begin; });
      // Times of jobs are in whole microseconds, other times in nanoseconds, so boxes may overlap slightly.
      for (std::size_t i = 1; i < row.boxes.size(); ++i)
        row.boxes[i].begin = std::max(row.boxes[i].begin, row.boxes[i - 1].end);
    }
  }

  const plan& plan_;
  const kept_trace& trace_;
  const window& shown_;
  timeline made_{};
  std::map<std::string, std::size_t> rows_{};       ///< By the name of a track.
  std::map<std::string, port_track> ports_{};       ///< By the name of a track.
  std::map<std::uint32_t, std::size_t> servers_{};  ///< Rows by id.
  std::vector<std::uint64_t> computed_{};           ///< Steps of each worker so far.
};

}  // namespace

window window_of(const plan& plan, std::uint64_t steps) {
  // Returns whether the exchange happens in one of the `steps` steps that end with `last`. Stamps count from 0.
  const auto happens = [&](const planned_exchange& exchange, std::uint64_t last) {
    if (!exchange.nature.in_loop) return true;
    const auto stamp_of_first = last - steps + exchange.due.lead;
    return exchange.due.next_due(stamp_of_first) < stamp_of_first + steps;
  };
  const auto happening = [&](std::uint64_t last) {
    return static_cast<std::size_t>(std::count_if(plan.exchanges.begin(), plan.exchanges.end(),
                                                  [&](const auto& exchange) { return happens(exchange, last); }));
  };
  // The first steps with as many of the exchanges as possible.
  window result;
  result.last_step = steps;
  auto most = happening(steps);
  for (auto last = steps + 1; last <= most_steps_before + steps && most < plan.exchanges.size(); ++last) {
    if (happening(last) <= most) continue;
    result.last_step = last;
    most = happening(last);
  }
  for (const auto& exchange : plan.exchanges)
    if (!happens(exchange, result.last_step)) result.left_out.push_back(exchange.name);
  if (const auto* norms = plan.norms())
    result.left_out.push_back("the messages of " + norms->name + ", which are sent while gradients are computed");
  if (!plan.faults.empty()) result.left_out.emplace_back("faults");
  result.first_step = result.last_step - steps + 1;
  const auto total = plan.file.run.budget == "total" ? result.last_step * plan.workers : result.last_step;
  result.overrides = {"run.steps=" + std::to_string(total),
                      "evaluate.every=" + std::to_string(result.last_step) + " steps"};
  if (plan.file.simulate.gradient == "measure") {
    result.overrides.push_back(std::string("simulate.gradient=") + assumed_gradient);
    result.assumed.emplace_back("gradients of 10 ms");
  }
  const auto sends = [](const planned_exchange& exchange) { return exchange.nature.in_loop; };
  if (plan.file.links.empty() && !plan.exchanges.empty() &&
      std::all_of(plan.exchanges.begin(), plan.exchanges.end(), sends)) {
    result.assumes_links = true;
    result.assumed.emplace_back("links of 200 MB/s with a latency of 1.5 ms");
  }
  return result;
}

timeline make_timeline(plan plan, const data::dataset_pair& data, const window& shown) {
  if (shown.assumes_links) {  // set only now, so that they do not change the routes that exchanges have chosen
    plan.file.links = {assumed_link()};
    plan.links = plan_links(plan);
  }
  plan.file.run.max_seconds.reset();
  models::buffer_pool pool;
  const auto initial = initial_weights(plan, pool);
  const auto trace = std::make_shared<kept_trace>();
  simulate_timing(plan, data, initial, pool, {.trace = trace});
  return reading{plan, *trace, shown}.read();
}

timeline only_workers(timeline all, const std::vector<std::uint32_t>& workers) {
  std::vector<bool> kept;
  std::vector<std::size_t> place;
  std::vector<row> rows;
  for (auto& candidate : all.rows) {
    kept.push_back(!candidate.worker || std::find(workers.begin(), workers.end(), *candidate.worker) != workers.end());
    place.push_back(rows.size());
    if (kept.back()) rows.push_back(std::move(candidate));
  }
  std::erase_if(all.messages, [&](const message& delivered) { return !kept[delivered.from] || !kept[delivered.to]; });
  for (auto& delivered : all.messages) delivered.from = place[delivered.from], delivered.to = place[delivered.to];
  all.rows = std::move(rows);
  return all;
}

const char* name_of(stage at) {
  return at == stage::contribution ? "contribution" : at == stage::partial ? "partial" : "result";
}

std::string cargo_of(const plan& plan, const message& one) {
  const auto& exchange = plan.exchanges.at(one.exchange);
  const auto [first, count] = one.elements;
  const bool is_whole = first == 0 && count >= exchange.layout.parameter_count;
  const auto tensor = name_of(exchange.carries.sends);
  std::string text = one.at == stage::partial  ? "partial sum"
                     : one.at == stage::result ? "result"
                     : is_whole                ? tensor
                                               : "chunk of the " + tensor;
  if (!is_whole)
    text += ", elements " + grouped(static_cast<std::uint64_t>(first)) + " to " +
            grouped(static_cast<std::uint64_t>(first + count - 1));
  return text;
}

}  // namespace troupe::timeline

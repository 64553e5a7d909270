#include "troupe/runtime/plan/faults.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace troupe {

namespace {

using kind = planned_fault::kind;

/// Resolves one fault, whose table has this path ("fault.0").
class resolving {
 public:
  resolving(const planned_work& plan, const topology::fault_settings& given, std::string path)
      : plan_(plan), given_(given), path_(std::move(path)) {}

  planned_fault run() {
    planned_fault fault{.given = given_, .what = kind_of()};
    set_time(fault);
    const auto of_one = fault.what == kind::kill || fault.what == kind::freeze;
    if (of_one && !given_.between.empty()) refuse("between", "concerns one node; expected node instead of between");
    if (given_.between.empty() == given_.node.empty())
      refuse(given_.between.empty() ? "" : "between",
             of_one ? "requires a node; expected node = " + topology::to_toml(plan_.nodes.back().name)
                    : "is between nodes; expected either node or between = [" +
                          text::joined(text::in_quotes({plan_.nodes[0].name, plan_.nodes[1].name}), ", ") + "]");
    if (!given_.node.empty()) fault.nodes.push_back(node_of("node", given_.node));
    for (const auto& name : given_.between) fault.nodes.push_back(node_of("between", name));
    if (!given_.between.empty() && (fault.nodes.size() != 2 || fault.nodes[0] == fault.nodes[1]))
      refuse("between", "is between two nodes; expected the names of two different ones");
    check_lengths(fault.what);
    return fault;
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
    troupe::refuse(plan_.file, key.empty() ? path_ : path_ + "." + key,
                   path_ + ", of kind " + topology::to_toml(given_.kind) + ", " + problem);
  }

  kind kind_of() const {
    if (given_.kind == "kill") return kind::kill;
    if (given_.kind == "freeze") return kind::freeze;
    return given_.kind == "partition" ? kind::partition : kind::slow;
  }

  void set_time(planned_fault& fault) const {
    constexpr std::string_view word = "step ";
    const std::string_view text = given_.at;
    if (text.starts_with(word)) {
      std::uint64_t step = 0;
      const auto* end = text.data() + text.size();
      const auto [last, error] = std::from_chars(text.data() + word.size(), end, step);
      if (error == std::errc{} && last == end) {
        if (step >= plan_.steps)
          refuse("at", "is at step " + std::to_string(step) + ", but the run ends after " +
                           std::to_string(plan_.steps) + (plan_.steps == 1 ? " step" : " steps") +
                           "; expected an earlier one");
        fault.at_step = step;
        return;
      }
    } else if (const auto delay = topology::parse_delay(text)) {
      fault.at_time = *delay;
      return;
    }
    refuse(given_.at.empty() ? "" : "at", (given_.at.empty() ? "has no at" : "is at " + topology::to_toml(given_.at)) +
                                              "; expected at = \"step 100\", or a time such as \"20s\"");
  }

  std::uint32_t node_of(const std::string& key, const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& node : plan_.nodes) names.push_back(node.name);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      refuse(key, "names " + topology::to_toml(name) + "; expected " + text::listed(text::in_quotes(names)) +
                      topology::did_you_mean(name, names));
    return static_cast<std::uint32_t>(found - names.begin());
  }

  void check_lengths(kind what) const {
    if (given_.lasts && what == kind::kill) refuse("lasts", "lasts to the end of the run; remove lasts");
    if (given_.lasts && given_.lasts->count() == 0) refuse("lasts", "lasts 0s; expected a longer time, or no lasts");
    if (given_.latency.has_value() == (what == kind::slow)) return;
    if (what != kind::slow) refuse("latency", "uses no latency; expected kind = \"slow\", or no latency");
    refuse("", "requires a latency; expected for example latency = \"20ms\"");
  }

  const planned_work& plan_;
  const topology::fault_settings& given_;
  std::string path_;
};

}  // namespace

std::vector<planned_fault> plan_faults(const planned_work& plan) {
  const auto& given = plan.file.faults;
  if (!given.empty() && plan.nodes.size() < 2)
    refuse(plan.file, "fault.0",
           "[[fault]] concerns the nodes of a run, but this file has " +
               std::string(plan.file.nodes.empty() ? "none" : "one") + "; expected at least two [[node]] sections");
  std::vector<planned_fault> faults;
  for (std::size_t i = 0; i < given.size(); ++i)
    faults.push_back(resolving{plan, given[i], topology::table_path("fault", i)}.run());
  return faults;
}

void check_no_faults(const plan& plan) {
  if (!plan.faults.empty())
    refuse(
        plan.file, "fault.0",
        "[[fault]] works only in `troupe simulate`; expected a file without it. To try a real fault, kill the process "
        "of a node, or stop it with SIGSTOP");
}

std::string describe(const planned_fault& fault) {
  const auto& given = fault.given;
  auto text = given.kind + " ";
  text += given.node.empty() ? given.between.front() + " ↔ " + given.between.back() : given.node;
  if (given.latency) text += " by " + topology::print_delay(*given.latency);
  text += " at " + given.at;
  return given.lasts ? text + " for " + topology::print_delay(*given.lasts) : text;
}

}  // namespace troupe

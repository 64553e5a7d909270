#include "troupe/runtime/topology/validate_exchanges.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/exchange/shared/shared.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/constraints.hpp"
#include "troupe/runtime/topology/members.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/validate.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe::topology {

namespace {

// The table of legal loops: what each operation of the loop needs and what it leaves behind. A loop is legal if each
// operation has what it needs, and if no gradient is left over at the end. -----------------------------------------

enum class word : std::uint8_t { gradient, apply, exchange };

/// State of the gradient after an operation: whether there is one that is yet to be applied.
enum class leaves : std::uint8_t { a_gradient, none, as_it_was };

struct rule {
  word what;
  slot sends, answers;  ///< Used only for exchanges.
  bool needs_gradient;
  leaves after;
};

constexpr rule rules[] = {
    {word::gradient, {}, {}, false, leaves::a_gradient},
    {word::apply, {}, {}, true, leaves::none},
    {word::exchange, slot::gradient, slot::gradient, true, leaves::a_gradient},
    {word::exchange, slot::gradient, slot::parameters, true, leaves::none},
    {word::exchange, slot::parameters, slot::parameters, false, leaves::as_it_was},
};

const rule* find_rule(word what, slot sends = {}, slot answers = {}) {
  const auto found = std::find_if(std::begin(rules), std::end(rules), [&](const rule& candidate) {
    return candidate.what == what &&
           (what != word::exchange || (candidate.sends == sends && candidate.answers == answers));
  });
  return found == std::end(rules) ? nullptr : found;
}

std::string quoted_list(const std::vector<std::string>& words) {
  return to_toml(words);
}

class exchange_checker {
 public:
  exchange_checker(topology& file, const places& known, mistakes& found)
      : file_(file), known_(known), refuse_(refusal_at(known, found)) {}

  void run(bool settled) {
    const bool named = names();
    sends();
    if (named && settled) members();
    if (named && settled) memories();
    if (named && one_step()) loop();
  }

 private:
  void refuse(const std::string& path, const std::string& text) { refuse_(path, text); }

  static std::string exchange_path(std::size_t index) { return table_path("exchange", index); }

  /// Returns whether all exchanges have valid and distinct names.
  bool names() {
    bool good = true;
    const auto refuse = [&](const std::string& path, const std::string& text) {
      refuse_(path, text);
      good = false;
    };
    const bool several = file_.exchanges.size() > 1;
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const std::string& name = file_.exchanges[i].name;
      if (several && !known_.has(exchange_path(i) + ".name")) {
        refuse(exchange_path(i),
               "one of several exchanges has no name; expected name = \"…\", so that the loop can "
               "refer to it");
        continue;
      }
      static const std::set<std::string> taken{"gradient",  "apply",       "worker",  "compute",
                                               "evaluator", "coordinator", "recorder"};
      const bool like_worker =
          name.size() > 1 && name[0] == 'w' &&
          std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); });
      if (taken.contains(name) || like_worker)
        refuse(exchange_path(i) + ".name", "an exchange cannot be called " + to_toml(name) + ", which already means " +
                                               (like_worker ? "a worker" : "something else") +
                                               "; expected another name");
      else if (!legal_name(name))
        refuse(exchange_path(i) + ".name",
               "an exchange cannot be called " + to_toml(name) + "; expected letters, digits, - and _ only");
      for (std::size_t k = 0; k < i; ++k) {
        if (file_.exchanges[k].name != name) continue;
        refuse(exchange_path(i) + ".name",
               "two exchanges are called " + to_toml(name) + "; expected a different name for each");
        break;
      }
    }
    return good;
  }

  void sends() {
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      exchange_settings& exchange = file_.exchanges[i];
      const exchange_kind* kind = find_exchange(exchange.kind);
      if (kind != nullptr && exchange.sends.empty()) exchange.sends = name_of(kind->carries.front().sends);
      check_sends(file_, i, refuse_);
    }
  }

  void members() {
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const std::string path = exchange_path(i) + ".members";
      if (known_.has(path) && file_.exchanges[i].members.empty())
        refuse(path,
               "an exchange needs at least one member; use for instance [\"w0\", \"w1\"], or remove the key to "
               "include all workers");
      check_exchange(file_, i, refuse_);
    }
  }

  /// Returns whether the exchange holds the parameters of its members (a shared memory).
  static bool is_memory(const exchange_settings& exchange) {
    const exchange_kind* kind = find_exchange(exchange.kind);
    return kind != nullptr && !nature_of(*kind, exchange.options).in_loop;
  }

  /// Returns whether an exchange has several workers that all share one memory. `memory_of` maps ranks to exchanges.
  bool within_one(std::size_t index, const std::map<std::uint32_t, std::size_t>& memory_of) const {
    std::set<std::size_t> memories;
    std::size_t workers = 0;
    for (const exchange_member& member : members_of(file_, index))
      for (const auto rank : member.ranks) {
        memories.insert(memory_of.at(rank));
        ++workers;
      }
    return workers > 1 && memories.size() == 1;
  }

  static bool can_send(const exchange_settings& exchange, slot what) {
    const exchange_kind* kind = find_exchange(exchange.kind);
    return kind != nullptr && std::any_of(kind->carries.begin(), kind->carries.end(),
                                          [&](const carriage& carried) { return carried.sends == what; });
  }

  /// Checks shared memories: if there are any, each worker uses exactly one, and at most one worker of each memory
  /// takes part in another exchange.
  void memories() try {
    std::map<std::uint32_t, std::size_t> memory_of;  // from ranks to indices of exchanges
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const exchange_settings& exchange = file_.exchanges[i];
      if (!is_memory(exchange)) continue;
      for (const exchange_member& member : members_of(file_, i)) {
        if (member.ranks.size() > 1)
          return refuse(
              exchange_path(i) + ".members",
              to_toml(member.name) + " is a group, but only single workers can share a memory; expected w0, w1, …");
        if (!memory_of.emplace(member.ranks.front(), i).second)
          return refuse(exchange_path(i) + ".members",
                        member.name + " already uses the memory " +
                            to_toml(file_.exchanges[memory_of[member.ranks.front()]].name) +
                            "; expected each worker in one exchange of kind \"shared\"");
      }
      if (exchange.every != interval{1, false} && replicas_of(exchange.options) == replicas::machine)
        refuse(exchange_path(i) + ".every",
               "every sets how often replicas are averaged, but there is only one; use replicas = \"node\" or "
               "\"core\", or remove the key");
      if ((exchange.from || exchange.until) && replicas_of(exchange.options) == replicas::machine)
        refuse(exchange_path(i) + (exchange.from ? ".from" : ".until"),
               "the workers use the shared memory from the first step to the last; remove the key");
      if (exchange.growth && replicas_of(exchange.options) == replicas::machine)
        refuse(exchange_path(i) + ".growth",
               "growth sets how often replicas are averaged, but there is only one; use replicas = \"node\" or "
               "\"core\", or remove the key");
      if (known_.has(exchange_path(i) + ".members") && replicas_of(exchange.options) != replicas::machine)
        refuse(exchange_path(i) + ".replicas", "replicas divides the workers itself; expected it without members");
    }
    if (memory_of.empty()) return;
    for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(file_.workers.count); ++rank)
      if (!memory_of.contains(rank))
        return refuse(
            exchange_path(memory_of.begin()->second) + ".members",
            "w" + std::to_string(rank) +
                " has no memory, but other workers share one; expected each worker in one exchange of kind \"shared\"");
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const exchange_settings& exchange = file_.exchanges[i];
      if (is_memory(exchange)) continue;
      if (within_one(i, memory_of))
        return refuse(
            exchange_path(i),
            to_toml(exchange.name) + " has nothing to exchange, because its members share one memory; remove it");
      if (exchange.sends != "parameters")
        return refuse(exchange_path(i),
                      to_toml(exchange.name) + " sends the " + exchange.sends +
                          ", but workers that share a memory apply their gradients independently; " +
                          (can_send(exchange, slot::parameters) ? "set sends = \"parameters\""
                                                                : "use a kind that can send parameters"));
      std::map<std::size_t, std::uint32_t> taking_part;  // by memory
      for (const exchange_member& member : members_of(file_, i))
        for (const auto rank : member.ranks) {
          const auto [other, alone] = taking_part.emplace(memory_of.at(rank), rank);
          if (!alone)
            return refuse(exchange_path(i) + ".members",
                          "w" + std::to_string(other->second) + " and w" + std::to_string(rank) +
                              " share a memory, to which " + to_toml(exchange.name) +
                              " would write its answer twice; set members to one worker of each memory");
        }
    }
  } catch (const member_error&) {  // refused already
  }

  /// Returns the loop of a file that does not set one.
  std::vector<std::string> default_loop() const {
    std::vector<std::string> words = {"gradient"}, steps, after_step;
    for (const exchange_settings& exchange : file_.exchanges) {
      if (is_memory(exchange)) continue;
      const carriage* carried = carriage_of(exchange);
      const bool makes_step = carried != nullptr && carried->makes_step();
      (makes_step ? steps : carried != nullptr && carried->behind_apply ? after_step : words).push_back(exchange.name);
    }
    if (steps.empty()) steps.emplace_back("apply");
    words.insert(words.end(), steps.begin(), steps.end());
    words.insert(words.end(), after_step.begin(), after_step.end());
    return words;
  }

  std::string loop_path(std::size_t index) const { return "workers.loop." + std::to_string(index); }

  void loop() {
    std::vector<std::string>& words = file_.workers.loop;
    if (words.empty()) {
      if (known_.has("workers.loop")) {
        return refuse("workers.loop", "workers.loop is empty; expected for instance " + quoted_list(default_loop()));
      }
      words = default_loop();
    }
    bool has_gradient = false;
    std::string applied_by;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const rule* matching = known_word(i);
      if (matching == nullptr) return;
      if (!seen.insert(words[i]).second) {
        return refuse(loop_path(i), "the loop contains " + to_toml(words[i]) + " twice; expected each operation once");
      }
      if (matching->needs_gradient && !has_gradient) {
        return refuse(loop_path(i), seen.contains("gradient")
                                        ? to_toml(words[i]) + " needs a gradient, but " + to_toml(applied_by) +
                                              " has already applied it; remove one of the two"
                                        : to_toml(words[i]) + " needs a gradient; expected \"gradient\" before it");
      }
      if (matching->after == leaves::as_it_was) continue;
      has_gradient = matching->after == leaves::a_gradient;
      if (!has_gradient) applied_by = words[i];
    }
    if (!seen.contains("gradient")) {
      return refuse("workers.loop", "the loop computes no gradient, so nothing is learned; expected for instance " +
                                        quoted_list(default_loop()));
    }
    if (has_gradient) {
      return refuse("workers.loop",
                    "the loop computes a gradient but never applies it, so nothing is learned; expected for "
                    "instance " +
                        quoted_list(default_loop()));
    }
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const std::string& name = file_.exchanges[i].name;
      if (seen.contains(name) || is_memory(file_.exchanges[i])) continue;
      refuse(exchange_path(i),
             (file_.exchanges.size() > 1 ? "the exchange " + to_toml(name) : std::string("[exchange]")) +
                 " is never used; add " + to_toml(name) + " to workers.loop, or remove the section");
    }
  }

  /// Returns whether at most one exchange applies the update.
  bool one_step() {
    std::string first;
    for (std::size_t i = 0; i < file_.exchanges.size(); ++i) {
      const carriage* carried = carriage_of(file_.exchanges[i]);
      if (carried == nullptr || !carried->makes_step()) continue;
      if (!first.empty()) {
        refuse(exchange_path(i), to_toml(first) + " and " + to_toml(file_.exchanges[i].name) +
                                     " both apply the gradient; expected only one of them");
        return false;
      }
      first = file_.exchanges[i].name;
    }
    return true;
  }

  /// Returns the rule for an operation of the loop, or nullptr after refusing it.
  const rule* known_word(std::size_t index) {
    const std::string& text = file_.workers.loop[index];
    if (text == "gradient") return find_rule(word::gradient);
    if (text == "apply") return find_rule(word::apply);
    std::vector<std::string> legal = {"gradient", "apply"};
    for (const exchange_settings& exchange : file_.exchanges) {
      if (exchange.name != text) {
        legal.push_back(exchange.name);
        continue;
      }
      const carriage* carried = carriage_of(exchange);
      if (carried == nullptr) return nullptr;  // refused already
      if (is_memory(exchange)) {
        refuse(loop_path(index), to_toml(text) +
                                     " holds the parameters and is not an operation of the loop; expected " +
                                     quoted_list(default_loop()));
        return nullptr;
      }
      if (const rule* found = find_rule(word::exchange, carried->sends, carried->answers)) return found;
      refuse(loop_path(index), to_toml(text) + " sends " + exchange.sends + " and answers with " +
                                   name_of(carried->answers) +
                                   ", which no loop of this build supports; expected another kind");
      return nullptr;
    }
    if (text == "exchange" && file_.exchanges.empty()) {
      refuse(loop_path(index),
             "the loop has an exchange, but the file does not define one; expected a section [exchange] "
             "with kind = " +
                 text::listed(text::in_quotes(kinds())));
    } else if (text == "exchange") {
      legal.erase(legal.begin(), legal.begin() + 2);
      refuse(loop_path(index), "no exchange is called \"exchange\"; expected " + text::listed(text::in_quotes(legal)));
    } else {
      refuse(loop_path(index), to_toml(text) + " is not an operation of the loop; expected " +
                                   text::listed(text::in_quotes(legal)) + did_you_mean(text, legal));
    }
    return nullptr;
  }

  static std::vector<std::string> kinds() {
    std::vector<std::string> names;
    for (const exchange_kind& kind : exchange_kinds()) names.push_back(kind.name);
    return names;
  }

  topology& file_;
  const places& known_;
  refusal refuse_;
};

}  // namespace

bool legal_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

void complete_exchanges(topology& file, const places& known, mistakes& found, bool settled) {
  exchange_checker(file, known, found).run(settled);
}

}  // namespace troupe::topology

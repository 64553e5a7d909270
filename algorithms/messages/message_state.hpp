// Messages as entries of a state_dict, for actors whose state contains some. A run id is not saved, because it belongs
// to the run that continues.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/report.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

/// A field of a record and its name in metrics.jsonl.
using optional_number = std::pair<const char*, std::optional<double> record::*>;

/// Returns the numbers of a record that may be missing.
std::span<const optional_number> optional_numbers();

/// Returns the entries that describe a message. Tensors are references.
state_dict state_of(const snapshot& one);
state_dict state_of(const part& one);
state_dict state_of(const milestone& one);
state_dict state_of(const evaluation& one);
state_dict state_of(const staleness_tally& one);
state_dict state_of(const record& one);  ///< Omits event, status and stopped_by.
/// Omits the evaluation and the replicas to evaluate, which follow from the rest.
state_dict state_of(const rules::report& one);

/// Sets a message to what state_of() returned. Throws state_error if an entry is missing or has the wrong type.
void restore(snapshot& one, const state_dict& from);
void restore(part& one, const state_dict& from);
void restore(milestone& one, const state_dict& from);
void restore(evaluation& one, const state_dict& from);
void restore(staleness_tally& one, const state_dict& from);
void restore(record& one, const state_dict& from);
void restore(rules::report& one, const state_dict& from);

/// Adds the entries of `one` under `name`, unless it is empty.
template <class Message>
void put_if_any(state_dict& into, const std::string& name, const std::optional<Message>& one) {
  if constexpr (std::is_same_v<Message, double>) {
    if (one) into.put_number(name, *one);
  } else if constexpr (std::is_same_v<Message, std::uint64_t>) {
    if (one) into.put_count(name, *one);
  } else {
    if (!one) return;
    into.put_count(name, 1);
    into.put_all(name, state_of(*one));
  }
}

/// Returns what put_if_any() added.
template <class Message>
std::optional<Message> find_if_any(const state_dict& from, const std::string& name) {
  if (!from.has(name)) return std::nullopt;
  if constexpr (std::is_same_v<Message, double>) {
    return from.number(name);
  } else if constexpr (std::is_same_v<Message, std::uint64_t>) {
    return from.count(name);
  } else {
    Message message{};
    restore(message, from.all(name));
    return message;
  }
}

/// Adds all messages of a range under `name`, in order.
template <class Messages>
void put_list(state_dict& into, const std::string& name, const Messages& all) {
  std::uint64_t i = 0;
  for (const auto& message : all) into.put_all(name + "/" + std::to_string(i++), state_of(message));
  into.put_count(name, i);
}

/// Returns what put_list() added.
template <class Message>
std::vector<Message> list_of(const state_dict& from, const std::string& name) {
  std::vector<Message> all(from.count(name));
  for (std::size_t i = 0; i < all.size(); ++i) restore(all[i], from.all(name + "/" + std::to_string(i)));
  return all;
}

/// Adds a list of numbers; NaN keeps its bits.
void put_numbers(state_dict& into, const std::string& name, const std::vector<double>& values);
/// Returns what put_numbers() added.
std::vector<double> numbers_of(const state_dict& from, const std::string& name);

}  // namespace troupe

// The parts of both descriptions of a plan: describe.cpp and describe_exchange.cpp write for people, describe_json.cpp
// for programs.
#pragma once

#include "troupe/algorithms/rules/mixing.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A text for people: labels, and what belongs to each. Further lines are indented to the same column.
class page {
 public:
  void line(const std::string& label, const std::string& text);
  void more(const std::string& text) { line("", text); }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

/// Formats an average count: "0.25 messages", "12 messages".
std::string mean_count(double count, const std::string& noun);

/// Prints an exchange: its settings, members, servers, and the traffic of each edge.
void describe_exchange(page& page, const plan& plan, const planned_exchange& exchange);

/// Returns the smallest and the largest number of classes that any worker sees.
std::pair<std::int64_t, std::int64_t> classes_seen(const plan& plan);

/// Returns the nearest integer.
std::uint64_t rounded(double number);

/// Returns W(i,j) for all i and j.
std::vector<std::vector<double>> dense(const rules::mixing_matrix& mixing);

/// Describes what is evaluated and saved.
std::string result_text(const plan& plan);

}  // namespace troupe

#include "troupe/runtime/topology/suggest.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace troupe::topology {
namespace {

constexpr std::size_t longest = 64;  // longer words are not mistyped names

std::string folded(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Names that other frameworks use for our keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> called_elsewhere{
    {{"learning_rate", "optimizer.lr"},
     {"num_epochs", "run.epochs"},
     {"max_epochs", "run.epochs"},
     {"max_steps", "run.steps"},
     {"num_workers", "workers.count"},
     {"world_size", "workers.count"},
     {"l2", "optimizer.weight_decay"},
     {"wd", "optimizer.weight_decay"},
     {"dataset", "data.name"},
     {"bs", "data.batch_size"},
     {"arch", "model.name"}}};

/// Returns the part after the last dot.
std::string_view last_of(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// Returns the one of `names`, with or without their sections, that other frameworks call `word`, or "".
std::string synonym(std::string_view word, const std::vector<std::string>& names) {
  const auto last = folded(last_of(word));
  for (const auto& [foreign, own] : called_elsewhere) {
    if (foreign != last) continue;
    for (const auto meant : {own, last_of(own)})
      if (const auto found = std::find(names.begin(), names.end(), meant); found != names.end()) return *found;
  }
  return {};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> distance((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return distance[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > longest) return {};
  if (const std::string other = synonym(word, names); !other.empty()) return other;
  constexpr std::size_t shortest_beginning = 4;
  std::string best;
  if (word.size() >= shortest_beginning)
    for (const std::string& name : names)
      if (folded(name).starts_with(folded(word)) && (best.empty() || name.size() < best.size())) best = name;
  if (!best.empty()) return best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(folded(word), folded(name));
    if (distance < least && distance < name.size()) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : " (did you mean \"" + name + "\"?)";
}

}  // namespace troupe::topology

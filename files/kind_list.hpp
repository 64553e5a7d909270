// The kinds of one sort that a topology file can name, such as all optimizers: built-in ones and registered ones.
#pragma once

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

/// A list of kinds, each of which has a member `name`. Adding a kind moves none of the others. Kinds are added while no
/// other thread reads the list: first in main(), or when a topology file is read that lists plug-ins.
template <class Kind>
class kind_list {
 public:
  /// `noun` is what messages call a kind, with its article, such as "an optimizer".
  kind_list(std::string noun, std::deque<Kind> built_in) : noun_(std::move(noun)), kinds_(std::move(built_in)) {}

  const std::deque<Kind>& all() const { return kinds_; }

  /// Returns the kind of this name, or nullptr.
  const Kind* find(const std::string& name) const {
    const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.name == name; });
    return found == kinds_.end() ? nullptr : &*found;
  }

  /// Adds a kind. Throws std::invalid_argument if it has no name, or if the name is taken.
  void add(Kind kind) {
    if (kind.name.empty()) throw std::invalid_argument(noun_ + " has no name; expected one, such as \"mine\"");
    if (find(kind.name) != nullptr)
      throw std::invalid_argument("there is " + noun_ + " called \"" + kind.name + "\" already; expected another name");
    kinds_.push_back(std::move(kind));
  }

 private:
  std::string noun_;
  std::deque<Kind> kinds_;
};

}  // namespace troupe

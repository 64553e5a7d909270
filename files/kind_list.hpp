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

  /// Adds a kind. Throws std::invalid_argument if the name is taken, or if it or the name of a setting is not a bare
  /// key of TOML.
  void add(Kind kind) {
    require_name(noun_, kind.name);
    for (const auto& row : kind.settings) {
      require_name("a setting of " + noun_, row.name);
      const auto has_name = [&](const auto& other) { return other.name == row.name; };
      if (std::count_if(kind.settings.begin(), kind.settings.end(), has_name) > 1)
        throw std::invalid_argument("two settings of \"" + kind.name + "\" are called \"" + row.name + "\"");
    }
    if (find(kind.name) != nullptr)
      throw std::invalid_argument("there is " + noun_ + " called \"" + kind.name + "\" already; expected another name");
    kinds_.push_back(std::move(kind));
  }

 private:
  static void require_name(const std::string& what, const std::string& name) {
    constexpr auto legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (!name.empty() && name.find_first_not_of(legal) == std::string::npos) return;
    throw std::invalid_argument(what + " is called \"" + name + "\"; expected a name of letters, digits, - and _");
  }

  std::string noun_;
  std::deque<Kind> kinds_;
};

}  // namespace troupe

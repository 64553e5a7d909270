// Collects the errors in a topology with their positions, so that all of them are reported at once.
#pragma once

#include "troupe/files/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::topology {

/// A place in the input: a line and column of a file, both from 1, or the n-th override. All zeros mean an unknown
/// place. File 0 is the one that is run; the others are those that it extends.
struct position {
  std::uint32_t override_number{0}, file{0}, line{0}, column{0};
  auto operator<=>(const position&) const = default;
};

/// Positions by path, such as "run.seed", "workers.loop.2", "exchange.0.kind".
class places {
 public:
  void put(const std::string& path, position at);
  /// Returns whether the file or an override sets `path`.
  bool has(const std::string& path) const { return known_.contains(path); }
  /// Returns everything that the file or an override sets, by path.
  const std::map<std::string, position>& all() const { return known_; }
  /// Returns the position of `path`, or that of the nearest section that encloses it, or an unknown place.
  position at(const std::string& path) const;

 private:
  std::map<std::string, position> known_;
};

/// The errors found so far. raise() reports them.
class mistakes {
 public:
  explicit mistakes(std::string file) : files_{std::move(file)} {}
  /// Adds the name of another file and returns its number.
  std::uint32_t add_file(std::string file);
  void add(position at, const std::string& text);
  /// Returns a position as messages show it, such as "FILE:3:1" or "--set #1".
  std::string located(const position& at) const;
  /// Throws input_error with all errors, one per line, in the order of the files. Does nothing if there are none.
  void raise() const;

 private:
  std::vector<std::string> files_;
  std::multimap<position, std::string> found_;
};

}  // namespace troupe::topology

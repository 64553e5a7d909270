// What was found wrong with a topology, and where: collected, so that a person hears of all of it at once.
#pragma once

#include "troupe/runtime/topology/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::topology {

/// Where something stands: a line and column of a file, both from 1, or the n-th override. All 0: nowhere. File 0 is
/// the one that is run, the others those that it extends.
struct position {
  std::uint32_t override_number{0}, file{0}, line{0}, column{0};
  auto operator<=>(const position&) const = default;
};

/// Positions by path: "run.seed", "workers.loop.2", "exchange.0.kind".
class places {
 public:
  void put(const std::string& path, position at);
  /// Whether the file or an override gives it.
  bool has(const std::string& path) const { return known_.contains(path); }
  /// Of `path`, else of what encloses it, else nowhere.
  position at(std::string path) const;

 private:
  std::map<std::string, position> known_;
};

class mistakes {
 public:
  explicit mistakes(std::string file) : files_{std::move(file)} {}
  /// Takes the name of a further file, and returns its number.
  std::uint32_t add_file(std::string file);
  void add(position at, const std::string& text);
  /// Throws input_error with what was added, one to a line, in the order of the files. Does nothing without mistakes.
  void raise() const;

 private:
  std::vector<std::string> files_;
  std::multimap<position, std::string> found_;
};

}  // namespace troupe::topology

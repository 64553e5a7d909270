#include "troupe/runtime/topology/mistakes.hpp"

#include "troupe/runtime/topology/enclosing.hpp"

namespace troupe::topology {
namespace {

constexpr std::size_t most_shown = 8;

}  // namespace

void places::put(const std::string& path, position at) {
  known_.insert_or_assign(path, at);
}

position places::at(const std::string& path) const {
  return of_enclosing(known_, path);
}

std::uint32_t mistakes::add_file(std::string file) {
  files_.push_back(std::move(file));
  return static_cast<std::uint32_t>(files_.size() - 1);
}

std::string mistakes::located(const position& at) const {
  if (at.override_number > 0) return "--set #" + std::to_string(at.override_number);
  const std::string& file = files_.at(at.file);
  if (at.line == 0) return file;
  return file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

void mistakes::add(position at, const std::string& text) {
  found_.emplace(at, text);
}

void mistakes::raise() const {
  if (found_.empty()) return;
  std::string message;
  std::size_t shown = 0;
  for (const auto& [at, text] : found_) {
    if (shown == most_shown) break;
    message += (shown++ > 0 ? "\n" : "") + located(at) + ": " + text;
  }
  if (found_.size() > shown) message += "\n… and " + std::to_string(found_.size() - shown) + " more";
  throw input_error(message);
}

}  // namespace troupe::topology

#include "troupe/algorithms/device/device.hpp"

namespace troupe::device {

std::string text_of(const census& found) {
  if (!found.compiled) return "no";
  if (found.gpus.empty()) return found.version + " (no device: " + found.problem + ")";
  std::string text = found.version;
  for (std::size_t i = 0; i < found.gpus.size(); ++i) text += ", cuda:" + std::to_string(i) + " " + found.gpus[i];
  return text;
}

}  // namespace troupe::device

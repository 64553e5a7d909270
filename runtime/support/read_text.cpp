#include "troupe/runtime/support/read_text.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace troupe {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return text;
}

}  // namespace troupe

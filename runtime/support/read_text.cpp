#include "troupe/runtime/support/read_text.hpp"

#include "troupe/files/input.hpp"

namespace troupe {

std::string read_text(const std::filesystem::path& path) {
  return files::read_all(path);
}

}  // namespace troupe

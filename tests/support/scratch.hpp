// A folder for the files of one test.
#pragma once

#include "tests/support/doctest.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace troupe::testing {

/// A new folder, removed with everything in it at the end of the test.
class scratch {
 public:
  scratch() {
    auto name = (std::filesystem::temp_directory_path() / "troupe_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~scratch() { std::filesystem::remove_all(path_); }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, creates its folder if necessary, and returns its path.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view contents) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream{path_ / name, std::ios::binary} << contents;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::testing

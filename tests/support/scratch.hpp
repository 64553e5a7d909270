// A folder for the files of one test, and functions that read it.
#pragma once

#include "tests/support/doctest.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

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

/// The same, and the current folder of this process for as long as it exists.
class working_folder : public scratch {
 public:
  working_folder() { std::filesystem::current_path(path()); }
  ~working_folder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

/// Returns the content of a file; "" if there is none.
inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the names of the entries of a folder, in order.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder)) names.push_back(each.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace troupe::testing

// Files of sparse rows in a folder of their own, and the data sets that are read from them.
#pragma once

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/formats/sparse_rows.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>
#include <zlib.h>

namespace troupe::testing {

namespace fs = std::filesystem;

/// A folder of files of rows.
class row_folder : public scratch {
 public:
  /// Writes `contents` compressed, `times` over, as one gzip member each.
  fs::path pack(const std::string& name, const std::string& contents, int times = 1) const {
    for (int time = 0; time < times; ++time) {
      const gzFile file = gzopen((path() / name).c_str(), time == 0 ? "wb" : "ab");
      REQUIRE(gzwrite(file, contents.data(), static_cast<unsigned>(contents.size())) ==
              static_cast<int>(contents.size()));
      REQUIRE(gzclose(file) == Z_OK);
    }
    return path() / name;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator{path()}) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
};

/// Returns all bytes of a file.
inline std::string contents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream{file, std::ios::binary}.rdbuf();
  return text.str();
}

inline data::dataset_pair load(const std::string& kind, const fs::path& file, const fs::path& test_file = {},
                               bool mapped = false) {
  data::data_source from;
  from.file = file;
  from.test_file = test_file;
  from.mapped = mapped;
  return data::find_dataset(kind)->load(from);
}

/// Returns the message of the data_error that `act` throws.
inline std::string failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const data::data_error& error) {
    return error.what();
  }
  return "no failure";
}

/// Returns whether `part` occurs in `text`.
inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Returns the rows as text: `column:value …`, one row per line.
inline std::string text_of(const data::dataset& set) {
  std::ostringstream text;
  for (std::int64_t index = 0; index < set.size(); ++index) {
    const auto row = set.rows->at(index);
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero)
      text << (nonzero > 0 ? " " : "") << row.columns[nonzero] << ':' << row.values[nonzero];
    text << '\n';
  }
  return text.str();
}

/// Four samples in LIBSVM's text format.
inline const std::string small = "1 1:0.5 3:-2e-1 7:1\n-1 2:+4\n+1\n-1 7:1e3\n";

}  // namespace troupe::testing

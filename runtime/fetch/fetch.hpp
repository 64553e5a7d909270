// Downloads the files of a data set from their publishers. What arrives is checked before it gets its name; what was
// interrupted is resumed. Blocks; one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::fetch {

struct remote_file {
  std::string name;
  std::uint64_t bytes{0};
  std::string sha256;  ///< 64 hexadecimal digits, lower case.
};

/// Files that lie together, at several places.
struct source {
  std::string name;                  ///< Of the data set, as topology files call it.
  std::vector<std::string> mirrors;  ///< URLs of folders, tried in this order; each ends in a slash.
  std::vector<remote_file> files;
  /// What is to be taken out of the files, which then are archives and go: names and sizes. None: the files are the
  /// set.
  std::vector<remote_file> contents{};
};

/// The data sets that can be downloaded.
const std::vector<source>& sources();

/// Returns the source of this data set, or nullptr.
const source* find_source(const std::string& name);

/// The world stood in the way: no mirror answers, what they hold is not what was published, the disk is full.
struct fetch_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Called now and then with the bytes that are there of a file.
using progress = std::function<void(const remote_file& file, std::uint64_t bytes)>;

/// Fetches into `folder` what is not there yet, and unpacks it; returns how many files were downloaded or unpacked. A
/// downloaded file under its own name is always whole and checked; an unfinished one is called NAME.part. Of an
/// unpacked one, whose archive was checked, only the size is known later. Throws fetch_error, which says what to do by
/// hand, and input_error where the folder cannot be written or holds another file under one of the names.
std::size_t fetch(const source& from, const std::filesystem::path& folder, const progress& tell = {});

}  // namespace troupe::fetch

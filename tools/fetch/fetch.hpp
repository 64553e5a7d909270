// Downloads the files of a data set from their publishers. A file is verified before it gets its name, and interrupted
// downloads are resumed. Functions block and must be called by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::fetch {

/// A file that can be downloaded or unpacked.
struct remote_file {
  std::string name;
  std::uint64_t bytes{0};
  std::string sha256;  ///< 64 hexadecimal digits, lower case.
};

/// Files that are published together, on several mirrors.
struct source {
  std::string name;                  ///< Name of the data set in topology files.
  std::vector<std::string> mirrors;  ///< URLs of folders, tried in this order; each ends in a slash.
  std::vector<remote_file> files;
  /// Names and sizes of the files to unpack, if `files` are archives, which are then removed. If empty, `files` are the
  /// data set.
  std::vector<remote_file> contents{};
};

/// Returns the data sets that can be downloaded.
const std::vector<source>& sources();

/// Returns the source of this data set, or nullptr.
const source* find_source(const std::string& name);

/// A failure outside the program: no mirror answers, none has the published file, or the disk is full.
struct fetch_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Called repeatedly during a download with the number of bytes of the file that are on disk.
using progress = std::function<void(const remote_file& file, std::uint64_t bytes)>;

/// Downloads the files that are missing in `folder` and unpacks them. Returns the number of files downloaded or
/// unpacked. A downloaded file under its own name is always complete and verified; an unfinished one is called
/// NAME.part. Later calls verify only the size of an unpacked file; its archive was verified when it was unpacked.
/// Throws fetch_error, which describes how to continue manually, and input_error if the folder cannot be written or
/// contains a different file under one of the names.
std::size_t fetch(const source& from, const std::filesystem::path& folder, const progress& tell = {});

}  // namespace troupe::fetch

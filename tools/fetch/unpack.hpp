// Extracts the files of a data set from a tar archive, compressed with gzip or not. The archive is not trusted: only
// files with expected names and sizes are written, and they get these names only when all of them are complete.
#pragma once

#include "troupe/tools/fetch/fetch.hpp"

#include <filesystem>
#include <vector>

namespace troupe::fetch {

/// Extracts the files `wanted` into `folder`. They are found by file name, in any folder of the archive; other members
/// are ignored. Throws fetch_error if one of them is missing, occurs twice, is a link or has another size, or if the
/// archive is damaged.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
            const std::vector<remote_file>& wanted);

}  // namespace troupe::fetch

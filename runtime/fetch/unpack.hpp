// Takes the files of a data set out of an archive (tar, compressed or not). Distrusts the archive: nothing is written
// but files of expected names and sizes, and those under their names only once all are whole.
#pragma once

#include "troupe/runtime/fetch/fetch.hpp"

#include <filesystem>
#include <vector>

namespace troupe::fetch {

/// Writes `wanted` into `folder`; members are called by their last name, whatever folder the archive has them in, and
/// others are passed over. Throws fetch_error where one is missing, comes twice, is a link, or has another size, and
/// where the archive is damaged.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
            const std::vector<remote_file>& wanted);

}  // namespace troupe::fetch

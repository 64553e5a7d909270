#include "troupe/runtime/recording/beginning.hpp"

#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/support/sha256.hpp"

#include <system_error>

namespace troupe::recording {

namespace fs = std::filesystem;

namespace {

/// Key of the manifest's digest in origin::digests. The manifest contains the digests of all other files.
constexpr auto* key = "checkpoint";

std::string digest_of_manifest(const fs::path& checkpoint) {
  return sha256_of_file(checkpoint / "manifest.json").value_or("");
}

}  // namespace

void keep_beginning(const fs::path& out, const fs::path& checkpoint, origin& about) {
  fs::remove_all(out / beginning_folder);
  if (checkpoint.empty()) return;
  const auto kept = checkpoint::folder_of(out / beginning_folder) / checkpoint.filename();
  fs::create_directories(kept);
  for (const auto& file : fs::directory_iterator(checkpoint)) {
    const auto to = kept / file.path().filename();
    std::error_code failed;
    fs::create_hard_link(file.path(), to, failed);  // a checkpoint is never written again
    if (failed) fs::copy_file(file.path(), to);
  }
  about.digests[key] = digest_of_manifest(kept);
}

std::optional<checkpoint::loaded_checkpoint> beginning_of(const fs::path& out, const origin& about) {
  const auto digest = about.digests.find(key);
  if (digest == about.digests.end()) return std::nullopt;
  const auto folder = out / beginning_folder;
  const auto kept = checkpoint::checkpoints_in(folder);
  if (kept.empty())
    throw damaged("the recording begins with a checkpoint, which is missing; expected it in " + folder.string());
  if (kept.size() > 1 || digest_of_manifest(kept.front().path) != digest->second)
    throw damaged("the recording begins with another checkpoint than that in " + folder.string());
  try {
    return checkpoint::read_checkpoint(kept.front().path);
  } catch (const checkpoint::damaged& problem) {
    throw damaged("the recording begins with " + kept.front().path.string() +
                  ", a checkpoint that cannot be used: " + problem.what());
  }
}

}  // namespace troupe::recording

#include "troupe/tools/fetch/fetch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/tools/fetch/http_get.hpp"
#include "troupe/tools/fetch/unpack.hpp"

#include <fstream>
#include <string_view>
#include <system_error>

namespace troupe::fetch {

namespace fs = std::filesystem;

namespace {

std::uint64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : bytes;
}

/// How a download ended.
struct ending {
  std::string failure;      ///< What went wrong; empty if the server sent everything.
  bool starts_over{false};  ///< The server cannot resume in the middle of this file.
};

/// Appends the missing bytes to `part`.
ending download(const std::string& url, const fs::path& part, const remote_file& file, const progress& tell) {
  auto bytes = size_of(part);
  std::ofstream out(part, std::ios::binary | std::ios::app);
  if (!out) return {"cannot write " + part.string()};
  bool too_long = false;
  ending end;
  try {
    http_get(url, bytes, [&](std::string_view piece) {
      // A mirror that sends more than the file's size would fill the disk with something else.
      too_long = bytes + piece.size() > file.bytes;
      if (too_long) return false;
      out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
      if (!out) return false;
      bytes += piece.size();
      if (tell) tell(file, bytes);
      return true;
    });
  } catch (const cannot_resume& reason) {
    end = {reason.what(), true};
  } catch (const http_error& reason) {
    end = {reason.what()};
  }
  out.close();
  if (bytes == 0 || too_long) fs::remove(part);
  if (too_long) return {"sent more than the expected " + std::to_string(file.bytes) + " bytes"};
  if (!out) return {"cannot write " + part.string() + ": is the disk full?"};
  return end;
}

/// Completes `part` from one mirror. Returns what went wrong, or "".
std::string fetch_from(const std::string& mirror, const fs::path& part, const remote_file& file, const progress& tell) {
  if (size_of(part) > file.bytes) fs::remove(part);
  // The second round starts over if the remains of an earlier, interrupted download turn out to be unusable.
  for (const bool first : {true, false}) {
    const auto before = size_of(part);
    if (before < file.bytes) {
      const auto end = download(mirror + file.name, part, file, tell);
      if (first && end.starts_over) {
        fs::remove(part);
        continue;
      }
      if (!end.failure.empty()) return end.failure;
    }
    if (size_of(part) < file.bytes)
      return "sent only " + std::to_string(size_of(part)) + " of " + std::to_string(file.bytes) + " bytes";
    if (sha256_of_file(part) == file.sha256) return {};
    fs::remove(part);
    if (before == 0) break;
  }
  return "sent a different file; expected the SHA-256 " + file.sha256;
}

[[noreturn]] void give_up(const source& from, const fs::path& folder, const remote_file& file,
                          const std::string& failures) {
  std::string text = "cannot download " + file.name + ":\n" + failures +
                     "try again later to resume the download, or download these files into " + folder.string() +
                     " yourself:\n";
  for (const auto& wanted : from.files) text += "  " + from.mirrors.front() + wanted.name + "\n";
  text.pop_back();
  if (!from.contents.empty()) text += "\nthen run this command again to unpack them";
  throw fetch_error(text);
}

constexpr auto* how_to_replace = "remove it to download the published file, or choose another folder with --dir";

bool is_there(const fs::path& path, const remote_file& file) {
  if (!fs::exists(path)) return false;
  if (size_of(path) == file.bytes && sha256_of_file(path) == file.sha256) return true;
  throw input_error(path.string() + ": not the published file; expected the SHA-256 " + file.sha256 + "; " +
                    how_to_replace);
}

/// Returns whether all contents of the archives are there. A file of another size is not overwritten, because it may be
/// the user's own.
bool is_unpacked(const source& from, const fs::path& folder) {
  std::size_t present = 0;
  for (const auto& file : from.contents) {
    const auto path = folder / file.name;
    if (!fs::exists(path)) continue;
    if (size_of(path) != file.bytes)
      throw input_error(path.string() + ": not the published file, because it has " + std::to_string(size_of(path)) +
                        " bytes; expected " + std::to_string(file.bytes) + "; " + how_to_replace);
    ++present;
  }
  return present > 0 && present == from.contents.size();
}

std::size_t unpack_all(const source& from, const fs::path& folder) {
  for (const auto& file : from.files) unpack(folder / file.name, folder, from.contents);
  for (const auto& file : from.files) fs::remove(folder / file.name);
  return from.contents.size();
}

}  // namespace

std::size_t fetch(const source& from, const fs::path& folder, const progress& tell) try {
  fs::create_directories(folder);
  std::size_t fetched = 0;
  if (is_unpacked(from, folder)) return fetched;
  for (const auto& file : from.files) {
    const auto path = folder / file.name;
    if (is_there(path, file)) continue;
    auto part = path;
    part += ".part";
    std::string failures;
    bool whole = false;
    for (const auto& mirror : from.mirrors) {
      const auto failure = fetch_from(mirror, part, file, tell);
      whole = failure.empty();
      if (whole) break;
      failures += "  " + mirror + ": " + failure + "\n";
    }
    if (!whole) give_up(from, folder, file, failures);
    fs::rename(part, path);
    ++fetched;
  }
  return from.contents.empty() ? fetched : unpack_all(from, folder);
} catch (const fs::filesystem_error& reason) {
  throw input_error(folder.string() + ": cannot write to this folder: " + reason.code().message() +
                    "; choose another folder with --dir");
}

}  // namespace troupe::fetch

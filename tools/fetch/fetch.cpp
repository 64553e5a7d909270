#include "troupe/tools/fetch/fetch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/tools/fetch/unpack.hpp"

#include <curl/curl.h>

#include <array>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>

namespace troupe::fetch {

namespace fs = std::filesystem;

namespace {

std::uint64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : bytes;
}

/// A download in progress.
struct transfer {
  const remote_file& file;
  const progress& tell;
  std::ofstream out;
  std::uint64_t bytes{0};  ///< Bytes of the file on disk, including those of earlier downloads.
  bool too_long{false};
  bool disk_failed{false};
};

std::size_t receive(char* data, std::size_t size, std::size_t count, void* user) {
  auto& to = *static_cast<transfer*>(user);
  const auto length = size * count;
  // A mirror that sends more than the file's size would fill the disk with something else.
  to.too_long = to.bytes + length > to.file.bytes;
  if (to.too_long) return 0;
  to.out.write(data, static_cast<std::streamsize>(length));
  to.disk_failed = !to.out;
  if (to.disk_failed) return 0;
  to.bytes += length;
  if (to.tell) to.tell(to.file, to.bytes);
  return length;
}

/// How a download ended.
struct ending {
  std::string failure;        ///< What went wrong; empty if the server sent everything.
  bool cannot_resume{false};  ///< The server cannot resume in the middle of this file.
};

/// Appends the missing bytes to `part`.
ending download(const std::string& url, const fs::path& part, const remote_file& file, const progress& tell) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) throw fetch_error("cannot initialise libcurl");
  const auto on_disk = size_of(part);
  transfer to{
      .file = file, .tell = tell, .out = std::ofstream(part, std::ios::binary | std::ios::app), .bytes = on_disk};
  if (!to.out) return {"cannot write " + part.string()};
  std::array<char, CURL_ERROR_SIZE> detail{};
  auto* handle = curl.get();
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);  // less than a byte a second ...
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 30L);  // ... for so long is a stall
  curl_easy_setopt(handle, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(on_disk));
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &receive);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &to);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail.data());
  const auto result = curl_easy_perform(handle);
  to.out.close();
  if (to.bytes == 0) fs::remove(part);
  if (to.too_long) {
    fs::remove(part);
    return {"sent more than the expected " + std::to_string(file.bytes) + " bytes"};
  }
  if (to.disk_failed || !to.out) return {"cannot write " + part.string() + ": is the disk full?"};
  if (result == CURLE_OK) return {};
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  constexpr long range_not_satisfiable = 416;
  return {detail[0] != '\0' ? detail.data() : curl_easy_strerror(result),
          result == CURLE_RANGE_ERROR || status == range_not_satisfiable};
}

/// Completes `part` from one mirror. Returns what went wrong, or "".
std::string fetch_from(const std::string& mirror, const fs::path& part, const remote_file& file, const progress& tell) {
  if (size_of(part) > file.bytes) fs::remove(part);
  // The second round starts over if the remains of an earlier, interrupted download turn out to be unusable.
  for (const bool first : {true, false}) {
    const auto before = size_of(part);
    if (before < file.bytes) {
      const auto end = download(mirror + file.name, part, file, tell);
      if (first && end.cannot_resume) {
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

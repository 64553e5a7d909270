#include "troupe/tools/fetch/unpack.hpp"

#include "troupe/files/input.hpp"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <fstream>
#include <memory>
#include <set>

namespace troupe::fetch {

namespace fs = std::filesystem;

namespace {

class unpacking {
 public:
  unpacking(fs::path archive, fs::path folder)
      : archive_{std::move(archive)}, folder_{std::move(folder)}, input_{archive_} {
    if (!reader_) throw fetch_error("cannot initialise libarchive");
    archive_read_support_format_tar(reader_.get());
    archive_read_support_filter_gzip(reader_.get());
    constexpr std::size_t block = 1u << 16u;
    if (archive_read_open_fd(reader_.get(), input_.descriptor(), block) != ARCHIVE_OK) fail_as_damaged();
  }
  unpacking(const unpacking&) = delete;
  unpacking& operator=(const unpacking&) = delete;
  ~unpacking() {
    std::error_code ignored;  // nothing more can be done about temporary files
    for (const auto& part : parts_) fs::remove(part, ignored);
  }

  void take(const std::vector<remote_file>& wanted) {
    std::set<std::string> taken;
    while (next()) {
      const auto* path = archive_entry_pathname(entry_);
      const auto name = path == nullptr ? std::string() : fs::path(path).filename().string();
      const auto expected =
          std::find_if(wanted.begin(), wanted.end(), [&](const auto& file) { return file.name == name; });
      if (expected == wanted.end()) continue;
      if (!taken.insert(name).second) fail("contains " + name + " twice");
      write(*expected);
    }
    for (const auto& file : wanted)
      if (!taken.contains(file.name)) fail("does not contain " + file.name);
    for (const auto& part : parts_) fs::rename(part, fs::path(part).replace_extension());
    parts_.clear();
  }

 private:
  struct closed {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };

  [[noreturn]] void fail(const std::string& reason) const {
    throw fetch_error("cannot unpack " + archive_.string() + ": it " + reason + "; remove it and try again");
  }

  [[noreturn]] void fail_as_damaged() const {
    const auto* why = archive_error_string(reader_.get());
    fail(std::string("is damaged (") + (why != nullptr ? why : "libarchive") + ")");
  }

  bool next() {
    const auto result = archive_read_next_header(reader_.get(), &entry_);
    if (result == ARCHIVE_EOF) return false;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_as_damaged();
    return true;
  }

  void write(const remote_file& file) {
    if (archive_entry_filetype(entry_) != AE_IFREG || archive_entry_hardlink(entry_) != nullptr)
      fail("contains " + file.name + ", but not as a regular file");
    const auto size = archive_entry_size(entry_);
    if (size < 0 || static_cast<std::uint64_t>(size) != file.bytes)
      fail("contains " + file.name + " with " + std::to_string(size) + " bytes instead of " +
           std::to_string(file.bytes));
    const auto& part = parts_.emplace_back(folder_ / (file.name + ".part"));
    fs::remove(part);  // an existing link must not be followed
    std::ofstream out(part, std::ios::binary);
    std::uint64_t written = 0;
    std::vector<char> block(1u << 16u);
    for (;;) {
      const auto count = archive_read_data(reader_.get(), block.data(), block.size());
      if (count < 0) fail_as_damaged();
      if (count == 0) break;
      written += static_cast<std::uint64_t>(count);
      if (written > file.bytes) fail("contains more bytes of " + file.name + " than its header states");
      out.write(block.data(), count);
    }
    if (written != file.bytes) fail_as_damaged();
    out.close();
    if (!out) throw fetch_error("cannot write " + part.string() + ": is the disk full?");
  }

  fs::path archive_, folder_;
  files::input input_;
  std::unique_ptr<archive, closed> reader_{archive_read_new()};
  archive_entry* entry_{nullptr};
  std::vector<fs::path> parts_;
};

}  // namespace

void unpack(const fs::path& archive, const fs::path& folder, const std::vector<remote_file>& wanted) {
  unpacking(archive, folder).take(wanted);
}

}  // namespace troupe::fetch

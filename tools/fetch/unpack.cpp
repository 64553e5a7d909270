#include "troupe/tools/fetch/unpack.hpp"

#include "troupe/files/input.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unistd.h>
#include <zlib.h>

namespace troupe::fetch {

namespace fs = std::filesystem;

namespace {

/// The header of a member of a tar archive: POSIX.1-2017, pax, "ustar Interchange Format".
class tar_header {
 public:
  static constexpr std::size_t bytes = 512;

  char* data() { return block_.data(); }
  bool is_empty() const {
    return std::all_of(block_.begin(), block_.end(), [](char c) { return c == 0; });
  }
  bool is_intact() const {
    auto block = block_;
    std::fill_n(block.begin() + checksum_at, checksum_bytes, ' ');
    const auto sum = std::accumulate(block.begin(), block.end(), std::uint64_t{0},
                                     [](std::uint64_t sum, char c) { return sum + static_cast<unsigned char>(c); });
    return number(checksum_at, checksum_bytes) == sum;
  }
  std::string name() const { return std::string(text(0, 100)); }
  std::optional<std::uint64_t> size() const { return number(124, 12); }
  /// Returns whether the member is a regular file. Old archives have a zero in place of the digit.
  bool is_file() const { return block_[type_at] == '0' || block_[type_at] == 0; }
  /// Returns whether it describes the next member, as headers of pax and GNU tar do, and is no member itself.
  bool is_about_next() const { return std::string_view("xgLK").find(block_[type_at]) != std::string_view::npos; }
  /// Returns whether the bytes that follow are of this member.
  bool has_content() const { return std::string_view("123456").find(block_[type_at]) == std::string_view::npos; }

 private:
  static constexpr std::size_t checksum_at = 148, checksum_bytes = 8, type_at = 156;

  std::string_view text(std::size_t at, std::size_t most) const {
    const std::string_view field(block_.data() + at, most);
    return field.substr(0, field.find('\0'));
  }
  /// Returns an octal number, or nothing if the field has none.
  std::optional<std::uint64_t> number(std::size_t at, std::size_t most) const {
    auto digits = text(at, most);
    digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
    digits = digits.substr(0, digits.find(' '));
    std::uint64_t value = 0;
    const auto* last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value, 8);
    if (error != std::errc{} || end != last) return {};
    return value;
  }

  std::array<char, bytes> block_{};
};

class unpacking {
 public:
  unpacking(fs::path archive, fs::path folder)
      : archive_{std::move(archive)}, folder_{std::move(folder)}, input_{archive_} {
    if (!file_) fail_as_damaged();
  }
  unpacking(const unpacking&) = delete;
  unpacking& operator=(const unpacking&) = delete;
  ~unpacking() {
    std::error_code ignored;  // nothing more can be done about temporary files
    for (const auto& part : parts_) fs::remove(part, ignored);
  }

  void take(const std::vector<remote_file>& wanted) {
    std::set<std::string> taken;
    while (const auto content = next()) {
      const auto name = fs::path(header_.name()).filename().string();
      const auto expected =
          std::find_if(wanted.begin(), wanted.end(), [&](const auto& file) { return file.name == name; });
      if (expected == wanted.end() || header_.is_about_next()) {
        skip(*content);
        continue;
      }
      if (!taken.insert(name).second) fail("contains " + name + " twice");
      write(*expected, *content);
    }
    for (std::array<char, tar_header::bytes> rest{}; read(rest.data(), rest.size()) > 0;) continue;  // to the checksum
    for (const auto& file : wanted)
      if (!taken.contains(file.name)) fail("does not contain " + file.name);
    for (const auto& part : parts_) fs::rename(part, fs::path(part).replace_extension());
    parts_.clear();
  }

 private:
  struct closed {
    void operator()(gzFile file) const { gzclose(file); }
  };

  [[noreturn]] void fail(const std::string& reason) const {
    throw fetch_error("cannot unpack " + archive_.string() + ": it " + reason + "; remove it and try again");
  }

  [[noreturn]] void fail_as_damaged() const { fail("is damaged"); }

  /// Reads the next bytes; fewer only at the end of the archive.
  std::size_t read(char* into, std::size_t most) {
    const auto got = gzread(file_.get(), into, static_cast<unsigned>(most));
    int error = Z_OK;
    gzerror(file_.get(), &error);
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) fail_as_damaged();
    return static_cast<std::size_t>(got);
  }

  /// Reads the header of the next member. Returns how many bytes of the member follow, or nothing after the last one.
  std::optional<std::uint64_t> next() {
    const auto got = read(header_.data(), tar_header::bytes);
    if (got == 0 || (got == tar_header::bytes && header_.is_empty())) return {};
    const auto size = header_.size();
    if (got < tar_header::bytes || !header_.is_intact() || !size) fail_as_damaged();
    return header_.has_content() ? *size : 0;
  }

  /// Skips what is left of a member, and what fills up its last block.
  void skip(std::uint64_t left) {
    std::array<char, tar_header::bytes> block{};
    for (std::uint64_t at = 0; at < left; at += block.size())
      if (read(block.data(), block.size()) < block.size()) fail_as_damaged();
  }

  /// Writes the member whose header was read, which has `left` bytes.
  void write(const remote_file& file, std::uint64_t left) {
    if (!header_.is_file()) fail("contains " + file.name + ", but not as a regular file");
    if (left != file.bytes)
      fail("contains " + file.name + " with " + std::to_string(left) + " bytes instead of " +
           std::to_string(file.bytes));
    const auto& part = parts_.emplace_back(folder_ / (file.name + ".part"));
    fs::remove(part);  // an existing link must not be followed
    std::ofstream out(part, std::ios::binary);
    std::array<char, tar_header::bytes> block{};
    while (left > 0) {
      if (read(block.data(), block.size()) < block.size()) fail_as_damaged();
      const auto of_file = std::min<std::uint64_t>(left, block.size());
      out.write(block.data(), static_cast<std::streamsize>(of_file));
      left -= of_file;
    }
    out.close();
    if (!out) throw fetch_error("cannot write " + part.string() + ": is the disk full?");
  }

  fs::path archive_, folder_;
  files::input input_;
  std::unique_ptr<gzFile_s, closed> file_{gzdopen(::dup(input_.descriptor()), "rb")};
  tar_header header_;
  std::vector<fs::path> parts_;
};

}  // namespace

void unpack(const fs::path& archive, const fs::path& folder, const std::vector<remote_file>& wanted) {
  unpacking(archive, folder).take(wanted);
}

}  // namespace troupe::fetch

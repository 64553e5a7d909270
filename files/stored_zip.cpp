#include "troupe/files/stored_zip.hpp"

#include "troupe/files/crc32.hpp"
#include "troupe/files/text.hpp"

#include <span>
#include <string_view>
#include <utility>

namespace troupe::files {

namespace {

// Names and numbers as in the format's description: APPNOTE.TXT 6.3, sections 4.3 and 4.5.3. All are little-endian.
constexpr std::string_view local_header{"PK\3\4", 4}, central_header{"PK\1\2", 4}, end_record{"PK\5\6", 4},
    end_record_64{"PK\6\6", 4}, end_locator_64{"PK\6\7", 4};
constexpr std::size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end_64_bytes = 56, locator_64_bytes = 20;
constexpr std::uint16_t extra_64 = 1, encrypted = 1, stored = 0;

constexpr const char* cut_off = "its list of entries is cut off";

/// Takes numbers and texts from the front of some bytes.
class cursor {
 public:
  explicit cursor(std::string_view bytes) : rest_{bytes} {}

  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw zip_error(cut_off);
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  template <class Number>
  Number number() {
    Number value = 0;
    unsigned shift = 0;
    for (const char byte : take(sizeof(Number))) {
      value = static_cast<Number>(value | static_cast<Number>(Number{static_cast<unsigned char>(byte)} << shift));
      shift += 8;
    }
    return value;
  }

  std::uint16_t of_16() { return number<std::uint16_t>(); }
  std::uint32_t of_32() { return number<std::uint32_t>(); }
  std::uint64_t of_64() { return number<std::uint64_t>(); }
  bool at_end() const { return rest_.empty(); }
  bool starts_with(std::string_view signature) const { return rest_.starts_with(signature); }

 private:
  std::string_view rest_;
};

std::string bytes_at(const input& file, std::uint64_t offset, std::uint64_t count) {
  if (offset > file.bytes() || count > file.bytes() - offset) throw zip_error(cut_off);
  std::string bytes(count, '\0');
  bytes.resize(file.read_at(offset, bytes.data(), bytes.size()));
  if (bytes.size() != count) throw zip_error("the file became shorter while it was read");
  return bytes;
}

/// Where the list of entries is.
struct directory {
  std::uint64_t entries{0}, bytes{0}, first{0};
};

directory directory_of(const input& file) {
  if (file.bytes() < end_bytes) throw zip_error("the file is too small for a zip archive");
  const auto end = file.bytes() - end_bytes;
  const auto last = bytes_at(file, end, end_bytes);
  cursor record{last};
  if (!record.starts_with(end_record))
    throw zip_error("the file does not end as a zip archive does; it may be cut off");
  record.take(end_record.size());
  const auto disk = record.of_16(), first_disk = record.of_16(), entries_here = record.of_16();
  directory found{.entries = record.of_16(), .bytes = record.of_32(), .first = record.of_32()};
  if (record.of_16() != 0) throw zip_error("the archive has a comment");
  const auto has_64 = end >= locator_64_bytes && bytes_at(file, end - locator_64_bytes, 4) == end_locator_64;
  if (!has_64) {
    if (disk != 0 || first_disk != 0 || entries_here != found.entries) throw zip_error("it is a part of an archive");
    return found;
  }
  const auto location = bytes_at(file, end - locator_64_bytes, locator_64_bytes);
  cursor locator{location};
  locator.take(end_locator_64.size() + 4);
  const auto record_64 = bytes_at(file, locator.of_64(), end_64_bytes);
  cursor all{record_64};
  if (!all.starts_with(end_record_64)) throw zip_error("its end record is damaged");
  all.take(end_record_64.size() + 8 + 2 + 2);  // the size of the record, and versions
  if (all.of_32() != 0 || all.of_32() != 0) throw zip_error("it is a part of an archive");
  const auto entries = all.of_64();
  if (all.of_64() != entries) throw zip_error("its end record contradicts itself");
  found.entries = entries;
  found.bytes = all.of_64();
  found.first = all.of_64();
  return found;
}

/// Replaces the sizes and the offset that do not fit into 32 bits by those of the extra field for it.
void widen(std::string_view extra, std::uint64_t& size, std::uint64_t& packed, std::uint64_t& offset) {
  constexpr std::uint64_t elsewhere = 0xffffffff;
  for (cursor fields{extra}; !fields.at_end();) {
    const auto kind = fields.of_16();
    cursor field{fields.take(fields.of_16())};
    if (kind != extra_64) continue;
    for (auto* value : {&size, &packed, &offset})
      if (*value == elsewhere) *value = field.of_64();
  }
}

}  // namespace

stored_zip::stored_zip(const std::filesystem::path& path) : file_{path} {
  const auto where = directory_of(file_);
  const auto list = bytes_at(file_, where.first, where.bytes);
  std::uint64_t together = 0;
  for (cursor headers{list}; !headers.at_end();) {
    if (headers.take(central_header.size()) != central_header) throw zip_error("its list of entries is damaged");
    headers.take(4);  // versions
    const auto flags = headers.of_16(), method = headers.of_16();
    headers.take(4);  // date and time
    entry found{.crc = headers.of_32()};
    std::uint64_t packed = headers.of_32();
    found.bytes = headers.of_32();
    const auto name_bytes = headers.of_16(), extra_bytes = headers.of_16(), comment_bytes = headers.of_16();
    headers.take(2 + 2 + 4);  // the disk, and attributes
    std::uint64_t offset = headers.of_32();
    const std::string name{headers.take(name_bytes)};
    widen(headers.take(extra_bytes), found.bytes, packed, offset);
    headers.take(comment_bytes);
    const auto of_entry = "its entry " + text::printable(name);
    found.is_stored = (flags & encrypted) == 0 && method == stored && packed == found.bytes;
    const auto header = bytes_at(file_, offset, local_bytes);
    cursor local{header};
    if (!local.starts_with(local_header)) throw zip_error(of_entry + " is not where the list of entries says");
    local.take(local_bytes - 4);
    const auto local_name = local.of_16(), local_extra = local.of_16();
    found.first = offset + local_bytes + local_name + local_extra;
    if (bytes_at(file_, offset + local_bytes, local_name) != name)
      throw zip_error(of_entry + " is not where the list of entries says");
    if (found.first > file_.bytes() || packed > file_.bytes() - found.first) throw zip_error(of_entry + " is cut off");
    together += packed;
    if (together > file_.bytes()) throw zip_error("its entries overlap");
    if (!entries_.emplace(name, found).second) throw zip_error(of_entry + " is in it twice");
  }
  if (entries_.size() != where.entries) throw zip_error("its list of entries is damaged");
}

const stored_zip::entry* stored_zip::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

void stored_zip::read(const std::string& name, const entry& which, void* into) const {
  if (!which.is_stored) throw zip_error("its entry " + text::printable(name) + " is compressed or encrypted");
  if (file_.read_at(which.first, into, which.bytes) != which.bytes)
    throw zip_error("the file became shorter while it was read");
  if (crc32({static_cast<const std::byte*>(into), which.bytes}) != which.crc)
    throw zip_error("its entry " + text::printable(name) + " does not match its checksum");
}

std::string stored_zip::text(const std::string& name) const {
  const auto* which = find(name);
  if (which == nullptr) throw zip_error("it has no entry " + name);
  std::string bytes(which->is_stored ? which->bytes : 0, '\0');
  read(name, *which, bytes.data());
  return bytes;
}

}  // namespace troupe::files

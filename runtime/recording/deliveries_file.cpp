#include "troupe/runtime/recording/deliveries_file.hpp"

#include "troupe/files/crc32c.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace troupe::recording {

namespace {

static_assert(std::endian::native == std::endian::little, "recordings have the byte order of memory");

constexpr std::array<char, 8> magic{'T', 'R', 'P', 'D', 'E', 'L', 'I', 'V'};
constexpr std::uint32_t format = 1;
constexpr std::size_t largest_header = 64 << 20;

/// What precedes the text of a header and the entries of a block.
struct prefix {
  std::uint64_t index{0};     ///< 0 for the header; blocks are counted from 1.
  std::uint32_t count{0};     ///< Bytes of the text, or number of entries.
  std::uint32_t checksum{0};  ///< CRC-32C of the fields above and of what follows.
};

/// An entry as it is stored.
struct stored_entry {
  std::uint64_t step, at;
  std::uint32_t actor, kind, from, part, taken, given;
};
static_assert(sizeof(prefix) == 16 && sizeof(stored_entry) == 40);

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), begin, begin + sizeof(T));
}

template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::uint32_t checksum_of(const prefix& before, std::span<const std::byte> after) {
  return crc32c(after, crc32c(std::as_bytes(std::span{&before, 1}).first(offsetof(prefix, checksum))));
}

std::vector<std::byte> sealed(prefix before, std::span<const std::byte> after) {
  before.checksum = checksum_of(before, after);
  std::vector<std::byte> bytes;
  append(bytes, before);
  bytes.insert(bytes.end(), after.begin(), after.end());
  return bytes;
}

entry entry_of(const stored_entry& stored, std::size_t offset) {
  if (stored.kind == 0 || stored.kind > static_cast<std::uint32_t>(delivery::last_kind))
    throw damaged("an entry at byte " + std::to_string(offset) + " is of the unknown kind " +
                  std::to_string(stored.kind));
  return {stored.actor,
          {.what = static_cast<delivery::kind>(stored.kind),
           .from = stored.from,
           .part = stored.part,
           .step = stored.step,
           .at = stored.at,
           .taken = stored.taken,
           .given = stored.given}};
}

origin origin_of(std::span<const std::byte> text) {
  const auto json = files::parse_json({reinterpret_cast<const char*>(text.data()), text.size()});
  const auto text_at = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_string())
      throw damaged(std::string("the header has no text \"") + key + "\"");
    return json[key].get<std::string>();
  };
  origin about{.version = text_at("version"), .topology = text_at("topology")};
  if (!json.contains("format") || json["format"] != format)
    throw damaged("its format is not " + std::to_string(format) + ", which this version reads");
  if (!json.contains("digests") || !json["digests"].is_object()) throw damaged("the header has no \"digests\"");
  for (const auto& [name, digest] : json["digests"].items()) {
    if (!digest.is_string()) throw damaged("a digest in the header is not a text");
    about.digests.emplace(name, digest.get<std::string>());
  }
  return about;
}

/// Returns whether the bytes end with the closing block of a complete recording and the number of that block is above
/// `blocks`.
bool ends_complete(std::span<const std::byte> bytes, std::uint64_t blocks) {
  if (bytes.size() < sizeof(prefix)) return false;
  const auto last = at<prefix>(bytes, bytes.size() - sizeof(prefix));
  return last.index > blocks && last.count == 0 && last.checksum == checksum_of(last, {});
}

/// Reads one block at `offset` and advances `offset`. Returns false if the rest is a block that was cut off.
bool read_block(std::span<const std::byte> bytes, std::size_t& offset, std::uint64_t index, contents& into) {
  const auto left = bytes.size() - offset;
  if (left < sizeof(prefix)) return false;
  const auto before = at<prefix>(bytes, offset);
  const auto size = before.count * sizeof(stored_entry);
  const auto name = "block " + std::to_string(index) + " at byte " + std::to_string(offset);
  if (before.index != index) throw damaged(name + " has the number " + std::to_string(before.index));
  if (size > left - sizeof(prefix)) {
    if (ends_complete(bytes.subspan(offset), index))
      throw damaged(name + " is damaged: more of the recording follows than its number of entries allows");
    return false;
  }
  const auto body = bytes.subspan(offset + sizeof(prefix), size);
  if (checksum_of(before, body) != before.checksum) {
    if (size == left - sizeof(prefix)) return false;  // the last block may not have reached the disk completely
    throw damaged(name + " has a wrong checksum, so that its deliveries cannot be believed");
  }
  for (std::size_t i = 0; i < size; i += sizeof(stored_entry))
    into.entries.push_back(entry_of(at<stored_entry>(body, i), offset + sizeof(prefix) + i));
  offset += sizeof(prefix) + size;
  into.complete = before.count == 0;
  return true;
}

}  // namespace

std::vector<std::byte> header_of(const origin& about) {
  const files::json json{
      {"digests", about.digests}, {"format", format}, {"topology", about.topology}, {"version", about.version}};
  const auto text = files::json_text(json, {.ascii = true});
  std::vector<std::byte> bytes;
  append(bytes, magic);
  const auto rest =
      sealed({.index = 0, .count = static_cast<std::uint32_t>(text.size())}, std::as_bytes(std::span{text}));
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

std::vector<std::byte> block_of(std::span<const entry> entries, std::uint64_t index) {
  std::vector<std::byte> body;
  body.reserve(entries.size() * sizeof(stored_entry));
  for (const auto& [actor, delivered] : entries)
    append(body, stored_entry{.step = delivered.step,
                              .at = delivered.at,
                              .actor = actor,
                              .kind = static_cast<std::uint32_t>(delivered.what),
                              .from = delivered.from,
                              .part = delivered.part,
                              .taken = delivered.taken,
                              .given = delivered.given});
  return sealed({.index = index, .count = static_cast<std::uint32_t>(entries.size())}, body);
}

contents parse(std::span<const std::byte> bytes) {
  constexpr auto begin = sizeof(magic) + sizeof(prefix);
  if (bytes.size() < begin || at<std::array<char, 8>>(bytes, 0) != magic) throw damaged("this is not a recording");
  const auto before = at<prefix>(bytes, sizeof(magic));
  if (before.count > largest_header || before.count > bytes.size() - begin) throw damaged("the header is cut off");
  const auto text = bytes.subspan(begin, before.count);
  if (before.index != 0 || checksum_of(before, text) != before.checksum)
    throw damaged("the header has a wrong checksum");
  contents result;
  result.about = origin_of(text);
  auto offset = begin + before.count;
  for (std::uint64_t index = 1; offset < bytes.size() && !result.complete; ++index)
    if (!read_block(bytes, offset, index, result)) break;
  if (result.complete && offset < bytes.size()) throw damaged("something follows the end of the recording");
  return result;
}

contents read(const std::filesystem::path& path) {
  const auto bytes = files::read_all(path);
  return parse(std::as_bytes(std::span{bytes}));
}

}  // namespace troupe::recording

#include "troupe/data/formats/lines.hpp"

#include "troupe/data/formats/data_error.hpp"
#include "troupe/data/formats/encoding.hpp"
#include "troupe/data/formats/reading.hpp"
#include "troupe/data/formats/utf8.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t block = std::size_t{256} << 10;  // initial size of the text buffer, in bytes

std::unique_ptr<files::input> opened(const fs::path& file, const std::string& key) {
  return reading(file, key, "the samples", [](const fs::path& path) { return std::make_unique<files::input>(path); });
}

}  // namespace

struct lines::gzip {
  gzip() {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream, gzip_only) != Z_OK) throw std::bad_alloc{};
  }
  gzip(const gzip&) = delete;
  gzip& operator=(const gzip&) = delete;
  ~gzip() { inflateEnd(&stream); }

  z_stream stream{};
  bool ended{false};  // whether the current member has ended: a gzip file has one or several
  std::array<unsigned char, std::size_t{64} << 10> bytes{};
};

lines::lines(fs::path file, const std::string& key) : file_{std::move(file)}, input_{opened(file_, key)}, text_(block) {
  std::array<unsigned char, 2> magic{};
  if (read_file(magic.data(), magic.size()) == magic.size() && magic[0] == 0x1f && magic[1] == 0x8b)
    packed_ = std::make_unique<gzip>();
  input_->seek(0);
}

lines::~lines() = default;

std::size_t lines::memory() const {
  return text_.capacity() + (packed_ ? sizeof(gzip) : 0);
}

void lines::fail(const std::string& reason) const {
  throw data_error(file_.string() + ":" + std::to_string(number_) + ": " + reason);
}

std::optional<std::string_view> lines::next() {
  ++number_;
  std::size_t seen = 0;  // length of the unread text known to have no newline
  for (;;) {
    const char* first = text_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(first + seen, '\n', end_ - begin_ - seen));
    seen = end_ - begin_;
    if (newline == nullptr && more()) continue;
    first = text_.data() + begin_;
    if (newline == nullptr && begin_ == end_) {
      --number_;
      return std::nullopt;
    }
    std::string_view line{first, newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - first)};
    begin_ += line.size() + (newline == nullptr ? 0 : 1);
    if (number_ == 1) {
      if (const auto why = other_encoding(line, file_); !why.empty()) throw data_error(file_.string() + ": " + why);
      line.remove_prefix(utf8_mark(line));
    }
    if (line.find('\0') != std::string_view::npos) {
      fail("found a zero byte, which cannot occur in text; expected a text file, plain or compressed with gzip");
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
}

bool lines::more() {
  if (begin_ > 0) {
    std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == text_.size()) {
    if (end_ >= longest) {
      fail("the line is longer than " + std::to_string(longest >> 20) +
           " MiB; expected a text file with one sample per line");
    }
    text_.resize(2 * text_.size());
  }
  const std::size_t count = read(text_.data() + end_, text_.size() - end_);
  end_ += count;
  return count > 0;
}

std::size_t lines::read_file(void* into, std::size_t most) {
  try {
    return input_->read(into, most);
  } catch (const files::unreadable& problem) {
    fail(problem.reason());
  }
}

std::size_t lines::read(char* into, std::size_t room) {
  if (!packed_) return read_file(into, room);
  z_stream& stream = packed_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(into);
  stream.avail_out = static_cast<uInt>(room);
  while (stream.avail_out > 0) {
    if (stream.avail_in == 0) {
      stream.next_in = packed_->bytes.data();
      stream.avail_in = static_cast<uInt>(read_file(packed_->bytes.data(), packed_->bytes.size()));
    }
    if (stream.avail_in == 0) {
      if (!packed_->ended) fail("the compressed file is truncated; obtain it again");
      break;
    }
    if (packed_->ended) inflateReset(&stream);
    const int code = inflate(&stream, Z_NO_FLUSH);
    packed_->ended = code == Z_STREAM_END;
    if (code != Z_OK && code != Z_STREAM_END) {
      fail(std::string{"the compressed data is damaged ("} + (stream.msg != nullptr ? stream.msg : "zlib") +
           "); obtain the file again");
    }
  }
  return room - stream.avail_out;
}

std::string quoted(std::string_view text) {
  return "\"" + printable_utf8(clipped(text, 40)) + "\"";
}

std::optional<double> number_in(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // strtod() distinguishes values that are too small from those that are too large.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string{text}.c_str(), nullptr);
  return value;
}

}  // namespace troupe::data

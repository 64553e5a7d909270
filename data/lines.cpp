#include "troupe/data/lines.hpp"

#include "troupe/data/dataset.hpp"
#include "troupe/data/utf8.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t block = std::size_t{256} << 10;  // of text at first

std::FILE* opened(const fs::path& file, const std::string& key) {
  const auto refuse = [&](const std::string& reason) { throw data_error(file.string() + ": " + reason); };
  if (file.empty()) throw data_error(key + " is not set; set it to the file that contains the samples");
  std::error_code error;
  if (!fs::exists(file, error)) refuse("no such file; set " + key + " to the file that contains the samples");
  if (!fs::is_regular_file(file, error)) refuse("not a regular file; set " + key + " to a regular file");
  std::FILE* stream = std::fopen(file.c_str(), "rbe");
  if (stream == nullptr) refuse("cannot read the file; check its permissions");
  return stream;
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
  bool ended{false};  // of the member: a gzip file has one or several, one after the other
  std::array<unsigned char, std::size_t{64} << 10> bytes{};
};

lines::lines(fs::path file, const std::string& key)
    : file_{std::move(file)}, stream_{opened(file_, key), std::fclose}, text_(block) {
  std::setvbuf(stream_.get(), nullptr, _IONBF, 0);
  std::array<unsigned char, 2> magic{};
  const bool compressed =
      std::fread(magic.data(), 1, magic.size(), stream_.get()) == magic.size() && magic[0] == 0x1f && magic[1] == 0x8b;
  std::rewind(stream_.get());
  if (compressed) packed_ = std::make_unique<gzip>();
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
  std::size_t seen = 0;  // of the unread text: without a newline
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

std::size_t lines::read(char* into, std::size_t room) {
  const auto from_file = [&](void* bytes, std::size_t most) {
    const std::size_t count = std::fread(bytes, 1, most, stream_.get());
    if (count < most && std::ferror(stream_.get()) != 0)
      fail("cannot read any further: " + std::string{std::strerror(errno)});
    return count;
  };
  if (!packed_) return from_file(into, room);
  z_stream& stream = packed_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(into);
  stream.avail_out = static_cast<uInt>(room);
  while (stream.avail_out > 0) {
    if (stream.avail_in == 0) {
      stream.next_in = packed_->bytes.data();
      stream.avail_in = static_cast<uInt>(from_file(packed_->bytes.data(), packed_->bytes.size()));
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
  // Says on which side of the range it is.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string{text}.c_str(), nullptr);
  return value;
}

}  // namespace troupe::data

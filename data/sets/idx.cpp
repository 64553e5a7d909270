#include "troupe/data/sets/idx.hpp"

#include "troupe/files/input.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Limit for a file and for its decompressed contents: about twice the largest set of the family (EMNIST, 550 MB), so
// that a damaged header cannot request an absurd amount of memory.
constexpr std::uint64_t most_bytes_of_array = std::uint64_t{1} << 30;

// Deflate cannot do better than this (zlib's technical details), so a header that claims more is wrong.
constexpr std::uint64_t deflate_ratio_at_most = 1032;

[[noreturn]] void refuse_file(const fs::path& file, const std::string& reason) {
  throw data_error(file.string() + ": " + reason + "; delete the file and fetch it again");
}

std::string bytes_of_file(const fs::path& file) try {
  return files::read_all(file, most_bytes_of_array);
} catch (const files::unreadable& problem) {
  throw data_error(problem.what());
}

// Reads the bytes of a file in order and decompresses them if necessary.
class source {
 public:
  explicit source(const fs::path& file) : file_{file}, bytes_{bytes_of_file(file)} {
    compressed_ = bytes_.starts_with("\x1f\x8b");
    stream_.next_in = reinterpret_cast<unsigned char*>(bytes_.data());
    stream_.avail_in = static_cast<uInt>(bytes_.size());
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (compressed_ && inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc{};
  }
  source(const source&) = delete;
  source& operator=(const source&) = delete;
  ~source() {
    if (compressed_) inflateEnd(&stream_);
  }

  void read(unsigned char* into, std::uint64_t count) {
    stream_.next_out = into;
    stream_.avail_out = static_cast<uInt>(count);
    if (compressed_) {
      unfold();
    } else {
      const uInt some = std::min(stream_.avail_in, stream_.avail_out);
      std::copy_n(stream_.next_in, some, stream_.next_out);
      stream_.next_in += some;
      stream_.avail_in -= some;
      stream_.avail_out -= some;
    }
    if (stream_.avail_out != 0) refuse_file(file_, "the file is truncated");
  }

  // Also makes zlib read gzip's checksum at the end.
  void expect_end() {
    if (compressed_) {
      unsigned char beyond = 0;
      stream_.next_out = &beyond;
      stream_.avail_out = 1;
      unfold();
      if (stream_.avail_out == 0) refuse_file(file_, "the file is longer than its header states");
      if (!ended_) refuse_file(file_, "the file is truncated");
    }
    if (stream_.avail_in != 0) refuse_file(file_, "the file is longer than its header states");
  }

  // Returns an upper bound of the number of bytes that read() can still return.
  std::uint64_t left_at_most() const {
    return compressed_ ? bytes_.size() * deflate_ratio_at_most : std::uint64_t{stream_.avail_in};
  }

 private:
  void unfold() {
    while (!ended_ && stream_.avail_out != 0) {
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) ended_ = true;
      if (code == Z_BUF_ERROR) return;  // no progress: the input has run out
      if (code != Z_OK && code != Z_STREAM_END) {
        refuse_file(file_,
                    std::string{"the compressed data is damaged ("} + (stream_.msg ? stream_.msg : "zlib") + ")");
      }
    }
  }

  fs::path file_;
  std::string bytes_;
  z_stream stream_{};
  bool compressed_{false};
  bool ended_{false};
};

// Returns the file of this name in `folder`, compressed or not. Some programs unpack "train-images-idx3-ubyte" under
// the name "train-images.idx3-ubyte", or into a folder of that name.
fs::path present(const fs::path& folder, const std::string& name, const std::string& fetch) {
  auto dotted = name;
  dotted[name.find("-idx")] = '.';
  std::optional<fs::path> other;
  for (const auto& stem : {name, dotted}) {
    for (const char* ending : {".gz", ""}) {
      fs::path file = folder / (stem + ending);
      std::error_code error;
      const auto status = fs::status(file, error);
      if (status.type() == fs::file_type::regular) return file;
      if (error == std::errc::permission_denied)
        throw data_error(folder.string() + ": cannot read this folder; check its permissions");
      const bool is_loop = error == std::errc::too_many_symbolic_link_levels;
      if ((fs::exists(status) || is_loop) && !other) other = file;
    }
  }
  if (other) return *other;
  throw data_error((folder / (name + ".gz")).string() + ": no such file, with or without .gz, nor " + dotted +
                   "; run `troupe data fetch " + fetch +
                   "`, or set data.dir or TROUPE_DATA to the folder that contains " + folder.filename().string() + "/");
}

struct file_pair {
  fs::path images, labels;
};

dataset assemble(const file_pair& from, const at::Tensor& images, const at::Tensor& labels,
                 std::vector<std::string> classes) {
  if (images.size(0) != labels.size(0)) {
    throw data_error(from.labels.string() + ": " + std::to_string(labels.size(0)) + " labels, but " +
                     std::to_string(images.size(0)) + " images in " + from.images.filename().string() +
                     "; delete both files and fetch them again");
  }
  if (images.numel() == 0) refuse_file(from.images, "the file contains no images");
  const auto* begin = labels.const_data_ptr<std::uint8_t>();
  const auto* end = begin + labels.numel();
  const auto* wrong = std::find_if(begin, end, [&](std::uint8_t label) { return label >= classes.size(); });
  if (wrong != end) {
    refuse_file(from.labels, "label " + std::to_string(wrong - begin) + " is " + std::to_string(*wrong) +
                                 "; expected 0 to " + std::to_string(classes.size() - 1));
  }
  return {images.unsqueeze(1), labels.to(at::kLong), std::move(classes)};
}

}  // namespace

at::Tensor read_idx(const fs::path& file, int dimensions) {
  source bytes{file};
  std::array<unsigned char, 4> word{};
  bytes.read(word.data(), word.size());
  if (word[0] != 0 || word[1] != 0 || word[2] != 8 || word[3] != dimensions) {
    refuse_file(file, "not an idx file of unsigned bytes with " + std::to_string(dimensions) + " dimension" +
                          (dimensions == 1 ? "" : "s"));
  }
  std::vector<std::int64_t> shape;
  std::uint64_t count = 1, extent = 1;
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    bytes.read(word.data(), word.size());
    std::uint64_t size = 0;
    for (const unsigned char byte : word) size = size << 8 | byte;
    shape.push_back(static_cast<std::int64_t>(size));
    count *= size;
    // A size of zero must not hide an absurd size of another dimension. Both factors are below 2^32: no overflow before
    // the refusal.
    extent *= std::max<std::uint64_t>(size, 1);
    if (extent > most_bytes_of_array) refuse_file(file, "the dimensions in the header are implausibly large");
  }
  if (count > bytes.left_at_most()) refuse_file(file, "the file is truncated");
  at::Tensor values = at::empty(shape, at::kByte);
  if (count != 0) bytes.read(values.mutable_data_ptr<std::uint8_t>(), count);
  bytes.expect_end();
  return values;
}

dataset_pair read_mnist_family(const fs::path& folder, const std::vector<std::string>& classes,
                               const std::string& fetch) {
  const file_pair train{present(folder, "train-images-idx3-ubyte", fetch),
                        present(folder, "train-labels-idx1-ubyte", fetch)};
  const file_pair test{present(folder, "t10k-images-idx3-ubyte", fetch),
                       present(folder, "t10k-labels-idx1-ubyte", fetch)};
  // The training images are five sixths of the work: they are decompressed while the rest is read.
  std::future<at::Tensor> train_images = std::async(std::launch::async, [&] { return read_idx(train.images, 3); });
  const at::Tensor test_images = read_idx(test.images, 3), test_labels = read_idx(test.labels, 1);
  const at::Tensor train_labels = read_idx(train.labels, 1);
  dataset_pair pair;
  pair.train = std::make_shared<dataset>(assemble(train, train_images.get(), train_labels, classes));
  pair.test = std::make_shared<dataset>(assemble(test, test_images, test_labels, classes));
  if (pair.train->inputs.sizes().slice(1) != pair.test->inputs.sizes().slice(1)) {
    throw data_error(test.images.string() + ": its images differ in size from those in " +
                     train.images.filename().string() + "; delete both files and fetch them again");
  }
  for (const auto& file : {train.images, train.labels, test.images, test.labels}) pair.files.push_back(file.string());
  return pair;
}

}  // namespace troupe::data

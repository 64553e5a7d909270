#include "troupe/data/sets/idx.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <unistd.h>
#include <zlib.h>

namespace idx_test {

using namespace troupe::data;
using troupe::testing::scratch;
namespace fs = std::filesystem;

namespace {

using bytes = std::string;

bytes word(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// Returns an idx file: the sizes, then `count` bytes that count up from `first` modulo ten.
bytes idx(const std::vector<std::uint32_t>& sizes, std::size_t count, std::size_t first = 0) {
  bytes file = word(0x0800 + static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint32_t size : sizes) file += word(size);
  for (std::size_t index = 0; index < count; ++index) file += static_cast<char>((first + index) % 10);
  return file;
}

bytes gzipped(const bytes& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  bytes packed(plain.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A whole set of three training and two test images of 2 x 2.
void write_set(const scratch& folder, const std::string& ending) {
  const auto packed = [&](const bytes& plain) { return ending.empty() ? plain : gzipped(plain); };
  folder.write("train-images-idx3-ubyte" + ending, packed(idx({3, 2, 2}, 12)));
  folder.write("train-labels-idx1-ubyte" + ending, packed(idx({3}, 3, 4)));
  folder.write("t10k-images-idx3-ubyte" + ending, packed(idx({2, 2, 2}, 8)));
  folder.write("t10k-labels-idx1-ubyte" + ending, packed(idx({2}, 2, 8)));
}

std::string failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const data_error& error) {
    return error.what();
  }
  return "no failure";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const dataset_kind& fashion = *find_dataset("fashion_mnist");

}  // namespace

TEST_CASE("an idx file is read, compressed or not") {
  const scratch folder;
  for (const bytes& contents : {idx({2, 3}, 6), gzipped(idx({2, 3}, 6))}) {
    const at::Tensor read = read_idx(folder.write("file", contents), 2);
    CHECK(at::equal(read, at::arange(6, at::kByte).reshape({2, 3})));
  }
}

TEST_CASE("a broken idx file is answered with its path, the reason and the mend") {
  const scratch folder;
  const bytes good = idx({3, 2, 2}, 12);
  const bytes packed = gzipped(good);
  bytes flipped = packed, checksum = packed, floats = good;
  flipped[12] = static_cast<char>(~flipped[12]);
  checksum[checksum.size() - 8] = static_cast<char>(~checksum[checksum.size() - 8]);
  floats[2] = 0x0d;
  const struct {
    bytes contents;
    std::string reason;
  } table[] = {
      {"", "truncated"},
      {good.substr(0, 3), "truncated"},
      {good.substr(0, 9), "truncated"},
      {good.substr(0, good.size() - 1), "truncated"},
      {packed.substr(0, 15), "truncated"},
      {packed.substr(0, packed.size() - 1), "truncated"},
      {gzipped(good.substr(0, good.size() - 1)), "truncated"},
      {good + "x", "longer than its header states"},
      {packed + "x", "longer than its header states"},
      {gzipped(good + "x"), "longer than its header states"},
      {bytes(40, 'x'), "not an idx file of unsigned bytes with 3 dimensions"},
      {bytes("<html><body>404 Not Found</body></html>"), "not an idx file"},
      {gzipped(bytes(40, 'x')), "not an idx file"},
      {floats, "not an idx file of unsigned bytes"},
      {idx({12}, 12), "not an idx file of unsigned bytes with 3 dimensions"},
      {bytes("\x1f\x8b") + bytes(40, 'x'), "compressed data is damaged"},
      {flipped, ""},
      {checksum, "compressed data is damaged"},
      {idx({0xffffffff, 0xffffffff, 0xffffffff}, 12), "dimensions in the header are implausibly large"},
      {gzipped(idx({0xffffffff, 28, 28}, 12)), "dimensions in the header are implausibly large"},
      {idx({0, 0xffffffff, 0xffffffff}, 0), "dimensions in the header are implausibly large"},
      {idx({1000000, 28, 28}, 12), "truncated"},
      {gzipped(idx({1000000, 28, 28}, 12)), "truncated"},
  };
  for (const auto& row : table) {
    CAPTURE(row.reason);
    const fs::path file = folder.write("file", row.contents);
    const std::string told = failure([&] { read_idx(file, 3); });
    CHECK(holds(told, file.string() + ": "));
    CHECK(holds(told, row.reason));
    CHECK(holds(told, "; delete the file and fetch it again"));
  }
}

TEST_CASE("the files may have a dot in their names, or be in a folder of their name") {
  const scratch folder;
  const auto image = idx({1, 2, 2}, 4), label = idx({1}, 1);
  folder.write("train-images.idx3-ubyte", image);
  folder.write("train-labels.idx1-ubyte.gz", gzipped(label));
  folder.write("t10k-images-idx3-ubyte", image);
  folder.write("t10k-labels.idx1-ubyte", label);
  std::filesystem::create_directory(folder.path() / "train-images-idx3-ubyte");
  const auto pair = read_mnist_family(folder.path(), {"0", "1"}, "mnist");
  CHECK(pair.train->size() == 1);
  CHECK(pair.files.front() == (folder.path() / "train-images.idx3-ubyte").string());
  std::filesystem::remove(folder.path() / "t10k-labels.idx1-ubyte");
  CHECK(holds(failure([&] {
                read_mnist_family(folder.path(), {"0", "1"}, "mnist");
              }),
              "t10k-labels-idx1-ubyte.gz: no such file, with or without .gz, nor t10k-labels.idx1-ubyte; run "));
}

TEST_CASE("what is not a file is not read") {
  const scratch folder;
  CHECK(holds(failure([&] { read_idx(folder.path(), 3); }), "not a regular file"));
  CHECK(holds(failure([&] { read_idx("/dev/zero", 3); }), "not a regular file"));
  CHECK(holds(failure([&] { read_idx(folder.path() / "nothing", 3); }), "no such file"));
}

TEST_CASE("a set of four files is read, compressed or not") {
  for (const std::string ending : {"", ".gz"}) {
    const scratch folder;
    write_set(folder, ending);
    const dataset_pair pair = fashion.load(folder.path());
    CHECK(pair.train->inputs.sizes() == at::IntArrayRef{3, 1, 2, 2});
    CHECK(at::equal(pair.train->targets, at::tensor({4, 5, 6}, at::kLong)));
    CHECK(at::equal(pair.test->targets, at::tensor({8, 9}, at::kLong)));
    CHECK(pair.test->classes.at(9) == "ankle boot");
    CHECK(pair.scale.mean == std::vector<double>{0.2860});
    CHECK(pair.scale.std == std::vector<double>{0.3530});
    REQUIRE(pair.files.size() == 4);
    CHECK(pair.files[0] == (folder.path() / ("train-images-idx3-ubyte" + ending)).string());
  }
}

TEST_CASE("a missing file is answered with where it was looked for and how to get it") {
  const scratch folder;
  write_set(folder, "");
  const fs::path missing = folder.path() / "t10k-labels-idx1-ubyte";
  fs::remove(missing);
  const std::string told = failure([&] { find_dataset("mnist")->load(folder.path()); });
  CHECK(holds(told, missing.string() + ".gz: no such file"));
  CHECK(holds(told, "troupe data fetch mnist"));
  CHECK(holds(failure([&] { fashion.load(folder.path() / "nowhere"); }), "troupe data fetch fashion_mnist"));
}

TEST_CASE("files that do not belong together are refused") {
  const scratch folder;
  write_set(folder, "");
  const auto told = [&] { return failure([&] { fashion.load(folder.path()); }); };
  REQUIRE(told() == "no failure");
  SUBCASE("labels of another number") {
    folder.write("train-labels-idx1-ubyte", idx({4}, 4));
    CHECK(holds(told(), "4 labels, but 3 images in train-images-idx3-ubyte"));
  }
  SUBCASE("a label that is no class") {
    folder.write("t10k-labels-idx1-ubyte", idx({2}, 1) + '\x0a');
    CHECK(holds(told(), "label 1 is 10; expected 0 to 9"));
  }
  SUBCASE("labels where images should be") {
    folder.write("train-images-idx3-ubyte", idx({3}, 3));
    CHECK(holds(told(), "train-images-idx3-ubyte: not an idx file of unsigned bytes with 3 dimensions"));
  }
  SUBCASE("test images of another size") {
    folder.write("t10k-images-idx3-ubyte", idx({2, 2, 3}, 12));
    CHECK(holds(told(), "images differ in size from those in train-images-idx3-ubyte"));
  }
  SUBCASE("no images") {
    folder.write("train-images-idx3-ubyte", idx({0, 2, 2}, 0));
    folder.write("train-labels-idx1-ubyte", idx({0}, 0));
    CHECK(holds(told(), "contains no images"));
  }
}

TEST_CASE("the real MNIST has its published sizes, labels and mean") {
  const char* named = std::getenv("TROUPE_DATA");
  if (named == nullptr || !fs::exists(fs::path{named} / "mnist")) {
    MESSAGE("SKIPPED: TROUPE_DATA names no folder with mnist/");
    return;
  }
  const dataset_kind& kind = *find_dataset("mnist");
  const dataset_pair pair = kind.load(fs::path{named} / kind.folder);
  CHECK(pair.train->inputs.sizes() == at::IntArrayRef{60000, 1, 28, 28});
  CHECK(pair.test->inputs.sizes() == at::IntArrayRef{10000, 1, 28, 28});
  // The first five training labels.
  CHECK(at::equal(pair.train->targets.narrow(0, 0, 5), at::tensor({5, 0, 4, 1, 9}, at::kLong)));
  CHECK((pair.train->inputs.sum(at::kLong).item<double>() / (60000.0 * 784 * 255)) ==
        doctest::Approx(0.1307).epsilon(0.001));
}

}  // namespace idx_test

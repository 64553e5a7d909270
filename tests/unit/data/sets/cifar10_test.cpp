#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace cifar10_test {

using namespace troupe::data;
namespace fs = std::filesystem;

namespace {

// A folder of its own, gone at the end of the test, with a whole set: part k holds k images, whose bytes are their
// label (from k on), red 10·label, green 10·label + 1, blue 10·label + 2; the last byte is 255.
class small_set {
 public:
  small_set() {
    for (int part = 1; part <= 5; ++part) write("data_batch_" + std::to_string(part) + ".bin", images(part, part));
    write("test_batch.bin", images(8, 2));
  }

  static std::string images(int label, int count) {
    std::string bytes;
    for (int last = label + count; label < last; ++label) {
      bytes += static_cast<char>(label);
      for (int channel = 0; channel < 3; ++channel) bytes += std::string(1024, static_cast<char>(10 * label + channel));
      bytes.back() = static_cast<char>(255);
    }
    return bytes;
  }

  fs::path write(const std::string& name, const std::string& contents) const {
    return folder_.write(path_ / name, contents);
  }

  const fs::path& path() const { return path_; }

 private:
  troupe::testing::scratch folder_;
  fs::path path_ = folder_.path() / "cifar-10-batches-bin";
};

dataset_pair load(const fs::path& folder) {
  return find_dataset("cifar10")->load(folder);
}

std::string failure(const fs::path& folder) {
  try {
    load(folder);
  } catch (const data_error& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace

TEST_CASE("CIFAR-10 is read part by part, label first, channel by channel") {
  const small_set set;
  const dataset_pair pair = load(set.path());
  CHECK(pair.train->inputs.sizes() == at::IntArrayRef{15, 3, 32, 32});
  CHECK(pair.test->inputs.sizes() == at::IntArrayRef{2, 3, 32, 32});
  CHECK(pair.train->inputs.is_contiguous());
  CHECK(at::equal(pair.test->targets, at::tensor({8, 9}, at::kLong)));
  CHECK(at::equal(pair.train->targets.narrow(0, 0, 6), at::tensor({1, 2, 3, 3, 4, 5}, at::kLong)));
  for (int channel = 0; channel < 3; ++channel)
    CHECK(pair.test->inputs[1][channel][31][30].item<int>() == 90 + channel);
  CHECK(pair.test->inputs[1][2][31][31].item<int>() == 255);
  CHECK(pair.train->classes.front() == "airplane");
  CHECK(pair.train->classes.back() == "truck");
  REQUIRE(pair.files.size() == 6);
  CHECK(pair.files.back() == (set.path() / "test_batch.bin").string());
  const batch one = make_batch(*pair.test, pair.scale, {1});
  CHECK(one.inputs[0][1][0][0].item<float>() == (91.0f / 255.0f - 0.4822f) / 0.2435f);
}

TEST_CASE("what is wrong with a file of CIFAR-10 is told with its path and the mend") {
  const small_set set;
  const std::string mend = "; delete the file and fetch it again";
  SUBCASE("missing") {
    fs::remove(set.path() / "data_batch_4.bin");
    CHECK(failure(set.path()) ==
          (set.path() / "data_batch_4.bin").string() +
              ": no such file; run `troupe data fetch cifar10`, or set data.dir or TROUPE_DATA to the folder that "
              "contains cifar-10-batches-bin/");
  }
  SUBCASE("truncated") {
    const fs::path file = set.write("test_batch.bin", small_set::images(0, 2).substr(1));
    CHECK(failure(set.path()) == file.string() +
                                     ": the file is truncated: record 1 (counting from 0) has only 3072 of the "
                                     "3073 bytes of an image and its label" +
                                     mend);
  }
  SUBCASE("bytes too many") {
    const fs::path file = set.write("test_batch.bin", "");
    fs::resize_file(file, 30'730'000 + 5);
    CHECK(failure(set.path()) == file.string() + ": the file has 5 extra bytes after its 10000 images" + mend);
  }
  SUBCASE("empty") {
    const fs::path file = set.write("data_batch_2.bin", "");
    CHECK(failure(set.path()) == file.string() + ": the file contains no images" + mend);
  }
  SUBCASE("a label out of range") {
    const fs::path file = set.write("data_batch_5.bin", small_set::images(9, 2));
    CHECK(failure(set.path()) == file.string() + ": label 1 is 10; expected 0 to 9" + mend);
  }
  SUBCASE("absurdly large") {
    const fs::path file = set.write("data_batch_1.bin", "");
    fs::resize_file(file, std::uintmax_t{3073} << 20);  // a sparse file takes no room on the disk
    CHECK(failure(set.path()) == file.string() + ": the file is too large for this format" + mend);
  }
  SUBCASE("a folder") {
    fs::remove(set.path() / "test_batch.bin");
    fs::create_directory(set.path() / "test_batch.bin");
    CHECK(failure(set.path()) ==
          (set.path() / "test_batch.bin").string() + ": this is a folder, not a regular file; name a file in it");
  }
}

TEST_CASE("the real CIFAR-10 has its published labels and means") {
  const char* named = std::getenv("TROUPE_DATA");
  if (named == nullptr || !fs::exists(fs::path{named} / "cifar-10-batches-bin")) {
    MESSAGE("SKIPPED: TROUPE_DATA names no folder with cifar-10-batches-bin/");
    return;
  }
  const dataset_kind& kind = *find_dataset("cifar10");
  const dataset_pair pair = kind.load(fs::path{named} / kind.folder);
  CHECK(pair.train->inputs.sizes() == at::IntArrayRef{50000, 3, 32, 32});
  CHECK(pair.test->size() >= 1);
  // frog, truck, truck, deer, automobile: the first five labels.
  CHECK(at::equal(pair.train->targets.narrow(0, 0, 5), at::tensor({6, 9, 9, 4, 1}, at::kLong)));
  CHECK(at::equal(pair.train->targets.bincount(), at::tensor({5000}, at::kLong).expand({10})));
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    const double mean = pair.train->inputs.select(1, channel).sum(at::kLong).item<double>() / (50000.0 * 1024 * 255);
    CHECK(mean == doctest::Approx(kind.published.mean[static_cast<std::size_t>(channel)]).epsilon(0.001));
  }
}

}  // namespace cifar10_test

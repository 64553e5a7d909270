#include "tests/support/doctest.hpp"
#include "tests/support/images.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/formats/image_codec.hpp"
#include "troupe/data/formats/image_scale.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace image_folder_test {

using namespace troupe::data;
using troupe::testing::scratch;
using namespace troupe::test;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

data_source of(const fs::path& folder, std::optional<std::int64_t> size = {}) {
  data_source from;
  from.file = folder;
  from.image_size = size;
  return from;
}

dataset_pair load(const data_source& from) {
  return find_dataset("image_folder")->load(from);
}

template <class Action>
std::string failure(const Action& action) {
  try {
    action();
  } catch (const data_error& error) {
    return error.what();
  }
  return "no failure";
}

std::string failure(const data_source& from) {
  return failure([&] { load(from); });
}

const std::string mend = "; replace the file or remove it from its folder";

std::vector<std::uint8_t> pixels(const dataset_pair& sets, std::int64_t index) {
  std::vector<std::uint8_t> all(
      static_cast<std::size_t>(sets.sample_shape[0] * sets.sample_shape[1] * sets.sample_shape[2]));
  sets.train->files->read(index, all.data());
  return all;
}

}  // namespace

TEST_CASE("classes are folders by name, images their files by name, whatever their content's format") {
  const scratch here;
  here.write("zebra/2.PNG", plain_png(2, 2, 3));
  here.write("zebra/10.jpeg", plain_png(2, 2, 2));
  here.write("ant/b/a.png", plain_png(2, 2, 1, 11, 21));
  here.write("ant/c.png", plain_jpeg(2, 2, 100));
  here.write("ant/notes.txt", "not an image");
  here.write("readme.txt", "beside the classes");
  const auto sets = load(of(here.path()));
  CHECK(sets.train->classes == std::vector<std::string>{"ant", "zebra"});
  CHECK(at::equal(sets.train->targets, at::tensor({0, 0, 1, 1}, at::kLong)));
  CHECK(sets.sample_shape == std::vector<std::int64_t>{3, 2, 2});
  CHECK(sets.test == sets.train);
  CHECK(pixels(sets, 0)[0] == doctest::Approx(100).epsilon(0.02));  // ant/c.png, which is a JPEG
  CHECK(pixels(sets, 1) == std::vector<std::uint8_t>{1, 1, 1, 1, 11, 11, 11, 11, 21, 21, 21, 21});
  CHECK(pixels(sets, 2)[0] == 2);  // "10" precedes "2"
  CHECK(pixels(sets, 3)[0] == 3);
  CHECK(!sets.train->inputs.defined());
}

TEST_CASE("train and val, or test, in a folder are the two sets, and a class of the second is one of the first") {
  const scratch here;
  here.write("train/a/1.png", plain_png(1, 1, 1));
  here.write("train/b/1.png", plain_png(1, 1, 2));
  here.write("test/b/1.png", plain_png(1, 1, 3));
  data_source from;
  from.folder = here.path() / ".";  // as with data.dir alone
  CHECK(at::equal(load(from).test->targets, at::tensor({1}, at::kLong)));
  CHECK(load(from).files == std::vector<std::string>{here.path() / "train", here.path() / "test"});
  here.write("val/a/1.png", plain_png(1, 1, 3));
  CHECK(at::equal(load(from).test->targets, at::tensor({0}, at::kLong)));
  here.write("val/c/1.png", plain_png(1, 1, 3));
  CHECK(failure(from) == (here.path() / "val" / "c").string() +
                             ": this class does not occur in the training images; add it there or remove this folder");
  auto two = of(here.path() / "train");
  two.test_file = here.path() / "test";
  CHECK(load(two).test->size() == 1);
}

TEST_CASE("some images of a folder are a folder, and another one has another identity") {
  const scratch here;
  for (int index = 0; index < 4; ++index)
    here.write("a/" + std::to_string(index) + ".png", plain_png(1, 1, static_cast<std::uint8_t>(index)));
  const auto sets = load(of(here.path()));
  const auto some = sets.train->files->chosen({3, 1});
  std::array<std::uint8_t, 3> pixel{};
  some->read(0, pixel.data());
  CHECK(pixel[0] == 3);
  some->read(1, pixel.data());
  CHECK(pixel[0] == 1);
  CHECK(some->identity() != sets.train->files->identity());
  CHECK(load(of(here.path())).train->files->identity() == sets.train->files->identity());
  CHECK(sets.train->files->identity().find(here.path().string()) == std::string::npos);  // nodes have different folders
}

TEST_CASE("files of one name and size are told apart by their ends") {
  const scratch here;
  const auto identity = [&](const std::string& bytes) {
    here.write("a/0.png", bytes);
    return load(of(here.path())).train->files->identity();
  };
  const auto good = plain_png(1, 1, 1);
  CHECK(identity(good) == identity(good));
  CHECK(identity(good) != identity(plain_png(1, 1, 2)));
  const auto longer = good + std::string(10'000, 'x');
  for (const std::size_t place : {good.size(), longer.size() - 4096, longer.size() - 1}) {
    auto other = longer;
    other[place] = 'y';
    CHECK(identity(other) != identity(longer));
  }
}

TEST_CASE("a class whose folder is not called in UTF-8 has a name that is") {
  const scratch here;
  here.write("caf\xe9/0.png", plain_png(1, 1, 1));
  here.write("k\xc3\xa4se/0.png", plain_png(1, 1, 1));
  here.write("t\tb/0.png", plain_png(1, 1, 1));
  CHECK(load(of(here.path())).train->classes == std::vector<std::string>{"caf\\xe9", "k\xc3\xa4se", "t\\x09b"});
}

TEST_CASE("every kind of PNG becomes three channels of eight bits") {
  const scratch here;
  const auto decoded = [&](const std::string& bytes) { return decode_image(here.write("a.png", bytes)).pixels; };
  using bytes = std::vector<std::uint8_t>;
  CHECK(decoded(png(2, {"\x10\x20"s}, 8, 0)) == bytes{0x10, 0x10, 0x10, 0x20, 0x20, 0x20});  // grey
  CHECK(decoded(png(2, {"\x80"s}, 1, 0)) == bytes{255, 255, 255, 0, 0, 0});                  // one bit
  CHECK(decoded(png(1, {"\x10\xff\x20\x00\x30\x7f"s}, 16, 2)) == bytes{0x10, 0x20, 0x30});   // sixteen
  CHECK(decoded(png(1, {"\x10\x20\x30\x05"s}, 8, 6)) == bytes{0x10, 0x20, 0x30});            // transparent
  CHECK(decoded(png(1, {"\x10\x05"s}, 8, 4)) == bytes{0x10, 0x10, 0x10});                    // grey and transparent
  CHECK(decoded(png(1, {"\x01"s}, 8, 3, png_chunk("PLTE", "\x00\x00\x00\x0a\x0b\x0c"s))) == bytes{10, 11, 12});
  const auto gamma = png_chunk("gAMA", big_endian(100'000));
  CHECK(decoded(png(1, {"\x10\x20\x30"s}, 8, 2, gamma)) == bytes{0x10, 0x20, 0x30});
}

TEST_CASE("scaling is Pillow's, and the middle is cut out as Python rounds") {
  // Computed by Pillow 13: resize((2, 2), BILINEAR) of an image with two equal rows of these four values.
  image from{{2, 4}, {}};
  for (int row = 0; row < 2; ++row)
    for (const int value : {0, 100, 200, 250})
      for (int channel = 0; channel < 3; ++channel) from.pixels.push_back(static_cast<std::uint8_t>(value));
  const auto whole = scaled_and_cut(from, 2);  // no scaling: the middle two columns
  CHECK(whole.pixels == std::vector<std::uint8_t>{100, 100, 100, 200, 200, 200, 100, 100, 100, 200, 200, 200});
  const auto smaller = scaled_and_cut(from, 1);
  CHECK(smaller.extent == image_extent{1, 1});
  // Two columns, the first of which is the middle; weights 3/7, 3/7 and 1/7: (0·3 + 100·3 + 200·1) / 7.
  CHECK(smaller.pixels == std::vector<std::uint8_t>{71, 71, 71});
}

TEST_CASE("images of several sizes want data.image_size") {
  const scratch here;
  here.write("a/1.png", plain_png(4, 3, 1));
  here.write("a/2.png", plain_png(4, 4, 9));
  CHECK(failure(of(here.path())) == (here.path() / "a" / "2.png").string() + ": the image has 4 x 4 pixels, but " +
                                        (here.path() / "a" / "1.png").string() +
                                        " has 4 x 3; set data.image_size to scale all images to one size");
  const auto sets = load(of(here.path(), 2));
  CHECK(sets.sample_shape == std::vector<std::int64_t>{3, 2, 2});
  CHECK(pixels(sets, 1)[0] == 9);
}

TEST_CASE("a header that cannot be read is told at once, before any memory is taken") {
  const scratch here;
  here.write("a/1.png", plain_png(1, 1, 1));
  const auto good = plain_png(1, 1, 1);
  const auto bomb = "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", "\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0"s);
  const auto grey = plain_jpeg(8, 8, 5);
  const auto sized = [&](int height, int width) {
    auto bytes = grey;
    const auto frame = bytes.find("\xff\xc0");
    for (const auto& [at, value] : {std::pair{5, height >> 8}, {6, height & 255}, {7, width >> 8}, {8, width & 255}})
      bytes.at(frame + static_cast<std::size_t>(at)) = static_cast<char>(value);
    return bytes;
  };
  const struct {
    std::string bytes, reason;
  } broken[] = {
      {"", "the file is empty"},
      {"GIF89a and so on", "the file is neither a PNG nor a JPEG image"},
      {good.substr(0, 8), "the file is truncated"},
      {good.substr(0, 33), "the file is truncated"},
      {good.substr(0, 20), "the file is truncated"},
      {good.substr(0, 12) + "oops" + good.substr(16), "the file is damaged: a PNG image must begin with its size"},
      {bomb, "the header gives 2147483647 x 2147483647 pixels, more than the limit of 64 Mi"},
      {grey.substr(0, 30), "the file is truncated within its header"},
      {"\xff\xd8\xff\xda"s + std::string(20, '\1'),
       "the file is damaged (libjpeg: Invalid JPEG file structure: SOS before SOF)"},
      {"\xff\xd8\xff\xe0\x00\x00"s, "the file is truncated within its header"},
      {sized(60'000, 60'000), "the header gives 60000 x 60000 pixels, more than the limit of 64 Mi"},
      {sized(0, 9), "the file is damaged (libjpeg: Empty JPEG image (DNL not supported))"}};
  for (const auto& [bytes, reason] : broken) {
    CAPTURE(reason);
    const auto file = here.write("a/2.jpg", bytes);
    CHECK(failure(of(here.path())) == file.string() + ": " + reason + mend);
  }
}

TEST_CASE("damaged pixels are told with the file when they are met") {
  const scratch here;
  here.write("a/1.png", plain_png(8, 8, 1));
  const auto good = plain_png(8, 8, 7);
  const auto said = [&](const std::string& bytes) {
    const auto file = here.write("a/2.png", bytes);
    const auto sets = load(of(here.path()));
    const auto text = failure([&] { pixels(sets, 1); });
    CHECK(text.starts_with(file.string() + ": "));
    CHECK(text.ends_with(mend));
    return text.substr(file.string().size() + 2, text.size() - file.string().size() - 2 - mend.size());
  };
  CHECK(said(good.substr(0, good.size() - 24)) == "the file is truncated");
  CHECK(said(good.substr(0, 45)) == "the file is truncated");
  auto flipped = good;
  flipped[48] = static_cast<char>(flipped[48] ^ 0x55);
  CHECK(said(flipped).starts_with("the file is damaged (libpng: "));
  const auto grey = plain_jpeg(8, 8, 5);
  CHECK(said(grey.substr(0, grey.size() - 4)).starts_with("the file is truncated (libjpeg: "));
  const auto sets = load(of(here.path()));
  const auto file = here.write("a/2.png", plain_png(4, 4, 1));
  CHECK(failure([&] { pixels(sets, 1); }) ==
        file.string() + ": the image's size changed after the run began; restart once the folder is complete");
  fs::remove(file);
  CHECK(failure([&] { pixels(sets, 1); }) == file.string() + ": no such file" + mend);
}

TEST_CASE("what is missing or odd beside the pixels is no damage") {
  const scratch here;
  const auto decoded = [&](const std::string& bytes) {
    const auto file = here.write("a.png", bytes);
    CHECK(extent_of_image(file) == image_extent{16, 16});
    return decode_image(file).pixels;
  };
  const auto grey = plain_jpeg(16, 16, 90), png_file = plain_png(16, 16, 90, 90, 90);
  const auto as_it_was = decoded(grey);
  CHECK(decoded(grey.substr(0, grey.size() - 2)) == as_it_was);  // without the end marker
  CHECK(decoded(grey + "something else") == as_it_was);
  auto odd = grey;
  odd[odd.find("JFIF") + 5] = 7;  // an unknown major version
  CHECK(decoded(odd) == as_it_was);
  CHECK(decoded(plain_jpeg(16, 16, 90, {{{1, 1}, {1, 1}, {1, 1}}}, true)) == as_it_was);
  for (const jpeg_sampling& sampling :
       {jpeg_sampling{{{4, 2}, {1, 1}, {1, 1}}}, jpeg_sampling{{{1, 4}, {1, 1}, {1, 1}}},
        jpeg_sampling{{{4, 1}, {2, 1}, {1, 1}}}, jpeg_sampling{{{2, 2}, {2, 1}, {2, 1}}},
        jpeg_sampling{{{1, 1}, {2, 2}, {2, 2}}}})
    CHECK(decoded(plain_jpeg(16, 16, 90, sampling)) == as_it_was);
  const auto pixels_of_png = decoded(png_file);
  for (const std::size_t missing : {1, 4, 11, 12})
    CHECK(decoded(png_file.substr(0, png_file.size() - missing)) == pixels_of_png);
}

TEST_CASE("what a decoder does not know is told at once") {
  const scratch here;
  const auto told = [&](const std::string& bytes) {
    return failure([&] { extent_of_image(here.write("a.jpg", bytes)); });
  };
  const auto grey = plain_jpeg(16, 16, 90);
  const auto frame = grey.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  auto lossless = grey;
  lossless[frame + 1] = '\xc3';
  CHECK(told(lossless).find("Unsupported JPEG process") != std::string::npos);
  auto twelve_bits = grey;
  twelve_bits[frame + 4] = 12;
  CHECK(told(twelve_bits).find("precision") != std::string::npos);
  auto fractions = grey;
  fractions[frame + 11] = 0x33;  // sampling factors of the first component
  fractions[frame + 14] = 0x22;
  CHECK(told(fractions).find("libjpeg: ") != std::string::npos);
  CHECK(told(png(1, {"\x01"s}, 8, 3)).find("PLTE") != std::string::npos);  // the palette is missing
  CHECK(told(png(1, {"\x01"s}, 3, 0)).find("the file is damaged (libpng: ") != std::string::npos);
}

TEST_CASE("folders and files of other programs are no classes and no images") {
  const scratch here;
  here.write("a/1.png", plain_png(1, 1, 1));
  here.write("a/._1.png", "not an image");
  here.write("a/.ipynb_checkpoints/1-checkpoint.png", plain_png(1, 1, 1));
  here.write("b/1.png", plain_png(1, 1, 1));
  here.write(".ipynb_checkpoints/x.png", plain_png(1, 1, 1));
  here.write(".git/config", "");
  here.write("__MACOSX/a/._1.png", "");
  const auto sets = load(of(here.path()));
  CHECK(sets.train->classes == std::vector<std::string>{"a", "b"});
  CHECK(sets.train->size() == 2);
}

TEST_CASE("a folder is entered once, whatever links lead to it") {
  const scratch here;
  for (const auto* name : {"c0/1.png", "c0/2.png", "c1/1.png", "c1/2.png"})
    here.write("set/" + std::string(name), plain_png(1, 1, 1));
  here.write("elsewhere/deep/3.png", plain_png(1, 1, 3));
  const auto root = here.path() / "set";
  const auto targets = [&] { return load(of(root)).train->targets; };
  const auto each_in_its_class = at::tensor({0, 0, 1, 1}, at::kLong);
  fs::create_directory_symlink("..", root / "c0/up");
  CHECK(at::equal(targets(), each_in_its_class));
  for (const auto* name : {"s1", "s2", "s3"}) fs::create_directory_symlink(".", root / "c0" / name);
  fs::create_directory_symlink("../c1", root / "c0/other");
  fs::create_symlink("loop", root / "c0/loop");
  CHECK(at::equal(targets(), each_in_its_class));
  fs::create_directory_symlink(here.path() / "elsewhere", root / "c1/more");
  fs::create_directory_symlink(here.path() / "elsewhere/deep", root / "c1/more of it");
  fs::create_directory_symlink(here.path(), here.path() / "elsewhere/deep/back");
  CHECK(at::equal(targets(), at::tensor({0, 0, 1, 1, 1}, at::kLong)));
  fs::create_directory_symlink("c0", root / "c2");
  CHECK(failure(of(root)) == (root / "c2").string() + ": the same folder as " + (root / "c0").string() +
                                 "; every folder here is a class: remove one of the two");
}

TEST_CASE("an image that is no regular file is named") {
  const scratch here;
  here.write("a/1.png", plain_png(1, 1, 1));
  const auto odd = here.path() / "a/2.png";
  REQUIRE(mkfifo(odd.c_str(), 0600) == 0);
  CHECK(failure(of(here.path())) == odd.string() + ": this is a pipe, not a regular file; name a regular file");
  fs::remove(odd);
  fs::create_symlink("/dev/zero", odd);
  CHECK(failure(of(here.path())) == odd.string() + ": this is a device, not a regular file; name a regular file");
  fs::remove(odd);
  fs::create_symlink("2.png", odd);
  CHECK(failure(of(here.path())).starts_with(odd.string() + ": cannot read this path (Too many levels"));
}

TEST_CASE("the names of two sets are known in several spellings") {
  for (const auto& [train, test] : std::vector<std::pair<std::string, std::string>>{
           {"train", "valid"}, {"Train", "Val"}, {"training", "validation"}, {"TRAIN", "TEST"}, {"train", "testing"}}) {
    CAPTURE(train);
    CAPTURE(test);
    const scratch here;
    for (const auto* name : {"cat", "dog", "fox"}) {
      here.write(train + "/" + name + "/1.png", plain_png(1, 1, 1));
      here.write(train + "/" + name + "/2.png", plain_png(1, 1, 1));
      here.write(test + "/" + name + "/3.png", plain_png(1, 1, 1));
    }
    fs::create_directory(here.path() / ".ipynb_checkpoints");
    const auto sets = load(of(here.path()));
    CHECK(sets.train->size() == 6);
    CHECK(sets.test->size() == 3);
    CHECK(sets.train->classes.size() == 3);
  }
}

TEST_CASE("where the sets are is not guessed") {
  const scratch here;
  for (const auto* name : {"train/a/1.png", "val/a/1.png"}) here.write(name, plain_png(1, 1, 1));
  here.write("Valid/a/1.png", plain_png(1, 1, 1));
  CHECK(failure(of(here.path())).find("contains Valid/ and val/, which are names of the same set") !=
        std::string::npos);
  fs::remove_all(here.path() / "train");
  fs::remove_all(here.path() / "val");
  CHECK(failure(of(here.path())).find("contains Valid/, but no train/ beside it") != std::string::npos);
  fs::rename(here.path() / "Valid", here.path() / "train");
  CHECK(load(of(here.path())).train->classes == std::vector<std::string>{"a"});
  here.write("bus/1.png", plain_png(1, 1, 1));
  CHECK(load(of(here.path())).train->classes == std::vector<std::string>{"bus", "train"});
}

TEST_CASE("a file cut short or changed in any byte is decoded or refused, never worse") {
  const scratch here;
  for (const auto& whole : {plain_png(3, 3, 200, 1, 9), plain_jpeg(9, 9, 77)}) {
    for (std::size_t length = 0; length < whole.size(); ++length)
      failure([&] { decode_image(here.write("a.png", whole.substr(0, length))); });
    for (std::size_t index = 0; index < whole.size(); ++index) {
      auto changed = whole;
      changed[index] = static_cast<char>(changed[index] ^ 0x11);
      failure([&] {
        const auto file = here.write("a.png", changed);
        extent_of_image(file);
        decode_image(file);
      });
    }
  }
}

TEST_CASE("folders that are none, or hold none, are told") {
  const scratch here;
  const auto missing = here.path() / "none";
  CHECK(failure(of(missing)) ==
        missing.string() + ": no such folder; set data.file to a folder that contains one folder per class");
  CHECK(failure(data_source{missing / "image_folder"}) ==
        "data.file is not set, and the data folder " + missing.string() +
            " does not exist; set data.file to a folder that contains one folder per class");
  CHECK(failure(of(here.path())) ==
        here.path().string() + ": contains no folders; expected one folder of images per class");
  fs::create_directory(here.path() / "a");
  CHECK(failure(of(here.path())) ==
        (here.path() / "a").string() +
            ": the folder contains no image (.png, .jpg, .jpeg); every folder here is a class: add images to "
            "this folder or remove it");
}

}  // namespace image_folder_test

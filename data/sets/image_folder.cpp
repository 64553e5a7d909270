// Images in one folder per class, as in torchvision.datasets.ImageFolder. Only headers are read here; pixels are read
// when a batch needs them.
#include "troupe/data/formats/image_codec.hpp"
#include "troupe/data/formats/image_list.hpp"
#include "troupe/data/formats/image_scale.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/input.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Returns the CRC-32 of the first and the last 4 KiB of a file: reading all of a large set would take as long as an
// epoch.
std::uint32_t sum_of_ends(const fs::path& file, std::uint64_t bytes) try {
  constexpr std::uint64_t most = 4096;
  std::array<char, most> part{};
  const files::input input{file};
  uLong sum = crc32(0, nullptr, 0);
  const auto add = [&](std::uint64_t from, std::uint64_t count) {
    if (input.read_at(from, part.data(), count) != count)
      throw data_error(file.string() + ": the file shrank; restart once the folder is complete");
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(count));
  };
  const auto first = std::min(bytes, most), last = std::min(bytes - first, most);
  add(0, first);
  add(bytes - last, last);
  return static_cast<std::uint32_t>(sum);
} catch (const files::unreadable& problem) {
  throw data_error(problem.what());
}

class folder_images final : public image_files {
 public:
  folder_images(fs::path folder, std::vector<listed_image> images, image_extent extent, bool scaled)
      : folder_{std::move(folder)}, images_{std::move(images)}, extent_{extent}, scaled_{scaled} {}

  std::vector<std::int64_t> shape() const override { return {3, extent_.height, extent_.width}; }

  void read(std::int64_t index, std::uint8_t* into) const override {
    const fs::path file = folder_ / images_.at(static_cast<std::size_t>(index)).name;
    image decoded = decode_image(file);
    if (scaled_) decoded = scaled_and_cut(decoded, extent_.width);
    if (decoded.extent != extent_) {
      throw data_error(file.string() +
                       ": the image's size changed after the run began; restart once the folder is complete");
    }
    const auto pixels = static_cast<std::size_t>(extent_.height * extent_.width);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint8_t* value = decoded.pixels.data() + channel;
      for (std::size_t pixel = 0; pixel < pixels; ++pixel, value += 3) *into++ = *value;
    }
  }

  std::string identity() const override {
    std::string text = std::to_string(extent_.height) + 'x' + std::to_string(extent_.width) + '\n';
    for (const auto& [name, bytes] : images_)
      text += name + ' ' + std::to_string(bytes) + ' ' + std::to_string(sum_of_ends(folder_ / name, bytes)) + '\n';
    return text;
  }

  std::shared_ptr<const image_files> chosen(const std::vector<std::int64_t>& indices) const override {
    std::vector<listed_image> some;
    some.reserve(indices.size());
    for (const std::int64_t index : indices) some.push_back(images_.at(static_cast<std::size_t>(index)));
    return std::make_shared<folder_images>(folder_, std::move(some), extent_, scaled_);
  }

 private:
  fs::path folder_;
  std::vector<listed_image> images_;
  image_extent extent_;
  bool scaled_;
};

struct folder_set {
  fs::path folder;
  std::vector<listed_image> images;
  std::vector<std::int64_t> targets;
};

folder_set set_of(const fs::path& folder, const std::vector<std::string>& classes) {
  folder_set result{folder, {}, {}};
  for (auto& [name, images] : images_by_class(folder)) {
    const auto position = std::lower_bound(classes.begin(), classes.end(), name);
    if (position == classes.end() || *position != name) {
      throw data_error((folder / name).string() +
                       ": this class does not occur in the training images; add it there or remove this folder");
    }
    result.targets.insert(result.targets.end(), images.size(), position - classes.begin());
    std::move(images.begin(), images.end(), std::back_inserter(result.images));
  }
  return result;
}

// Reads the header of each image and returns the size of the first. Throws data_error if the sizes differ and the
// images are not scaled.
image_extent common_extent(const std::vector<const folder_set*>& sets, bool scaled) {
  std::optional<image_extent> common;
  for (const auto* set : sets) {
    for (const auto& item : set->images) {
      const fs::path file = set->folder / item.name;
      const auto extent = extent_of_image(file);
      if (!common) common = extent;
      if (scaled || *common == extent) continue;
      throw data_error(file.string() + ": the image has " + std::to_string(extent.width) + " x " +
                       std::to_string(extent.height) + " pixels, but " +
                       (sets.front()->folder / sets.front()->images.front().name).string() + " has " +
                       std::to_string(common->width) + " x " + std::to_string(common->height) +
                       "; set data.image_size to scale all images to one size");
    }
  }
  return *common;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void require_folder(const fs::path& folder, const std::string& key) {
  if (!is_folder(folder)) {
    throw data_error(folder.string() + ": no such folder; set " + key +
                     " to a folder that contains one folder per class");
  }
}

// Returns the two folders: the two that are set, or two folders with known names in the first, or the first alone.
image_sets folders_of(const data_source& from) {
  const fs::path train = from.file.empty() ? from.folder.parent_path() : from.file;
  if (from.file.empty() && !is_folder(train))
    throw data_error("data.file is not set, and the data folder " + train.string() +
                     " does not exist; set data.file to a folder that contains one folder per class");
  require_folder(train, "data.file");
  if (from.test_file.empty()) return sets_in(train);
  require_folder(from.test_file, "data.test_file");
  return {train, from.test_file};
}

std::shared_ptr<const dataset> dataset_of(folder_set&& from, image_extent extent, bool scaled,
                                          const std::vector<std::string>& classes) {
  return std::make_shared<dataset>(
      dataset{.inputs{},
              .targets = at::tensor(from.targets, at::kLong),
              .classes = classes,
              .files = std::make_shared<folder_images>(from.folder, std::move(from.images), extent, scaled)});
}

dataset_pair load_folder(const data_source& from) {
  const auto [train_folder, test_folder] = folders_of(from);
  const auto names = folders_in(train_folder);
  const auto require_classes = [](const fs::path& folder, bool has_some) {
    if (!has_some) throw data_error(folder.string() + ": contains no folders; expected one folder of images per class");
  };
  require_classes(train_folder, !names.empty());
  folder_set train = set_of(train_folder, names), test;
  std::vector<const folder_set*> sets{&train};
  if (!test_folder.empty()) {
    test = set_of(test_folder, names);
    require_classes(test_folder, !test.images.empty());
    sets.push_back(&test);
  }
  const bool scaled = from.image_size.has_value();
  auto extent = common_extent(sets, scaled);
  if (scaled) extent = {*from.image_size, *from.image_size};
  std::vector<std::string> classes;
  for (const auto& name : names) classes.push_back(printable_utf8(name));
  dataset_pair pair{.train = dataset_of(std::move(train), extent, scaled, classes),
                    .test{},
                    .scale{},
                    .files = {train_folder.string()},
                    .sample_shape = {3, extent.height, extent.width}};
  pair.test = test_folder.empty() ? pair.train : dataset_of(std::move(test), extent, scaled, classes);
  if (!test_folder.empty()) pair.files.push_back(test_folder.string());
  return pair;
}

}  // namespace

dataset_kind image_folder() {
  return {.name = "image_folder",
          .explanation = "your own PNG and JPEG images, in one folder per class",
          .folder = ".",  // the data folder itself
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load = load_folder,
          .reads = {"file", "test_file", "image_size"}};
}

}  // namespace troupe::data

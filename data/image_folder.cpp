// Images in one folder per class, as in torchvision.datasets.ImageFolder: classes are the folders in the order of their
// names, images the .png, .jpg and .jpeg files in them and below, in the order of theirs. Only headers are read here;
// pixels are read when a batch needs them.
#include "troupe/data/dataset.hpp"
#include "troupe/data/image_codec.hpp"
#include "troupe/data/image_scale.hpp"
#include "troupe/data/utf8.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// An image and what it was at the start.
struct listed_image {
  std::string name;  // below the set's folder
  std::uintmax_t bytes{0};
};

// CRC-32 of the first and the last 4 KiB of a file: to read all of a large set would take as long as an epoch.
std::uint32_t sum_of_ends(const fs::path& file, std::uintmax_t bytes) {
  constexpr std::uintmax_t most = 4096;
  std::array<char, most> part{};
  std::ifstream stream{file, std::ios::binary};
  uLong sum = crc32(0, nullptr, 0);
  const auto add = [&](std::uintmax_t from, std::uintmax_t count) {
    stream.seekg(static_cast<std::streamoff>(from));
    if (!stream.read(part.data(), static_cast<std::streamsize>(count)))
      throw data_error(file.string() + ": cannot read the file; restart once the folder is complete");
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(count));
  };
  const auto first = std::min(bytes, most), last = std::min(bytes - first, most);
  add(0, first);
  add(bytes - last, last);
  return static_cast<std::uint32_t>(sum);
}

class folder_images final : public image_files {
 public:
  folder_images(fs::path folder, std::vector<listed_image> images, image_extent extent, bool scaled)
      : folder_{std::move(folder)}, images_{std::move(images)}, extent_{extent}, scaled_{scaled} {}

  std::vector<std::int64_t> shape() const override { return {3, extent_.height, extent_.width}; }

  void read(std::int64_t index, std::uint8_t* into) const override {
    const fs::path file = folder_ / images_.at(static_cast<std::size_t>(index)).name;
    image found = decode_image(file);
    if (scaled_) found = scaled_and_cut(found, extent_.width);
    if (found.extent != extent_) {
      throw data_error(file.string() +
                       ": the image's size changed after the run began; restart once the folder is complete");
    }
    const auto pixels = static_cast<std::size_t>(extent_.height * extent_.width);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint8_t* value = found.pixels.data() + channel;
      for (std::size_t pixel = 0; pixel < pixels; ++pixel, value += 3) *into++ = *value;
    }
  }

  std::string identity() const override {
    std::string all = std::to_string(extent_.height) + 'x' + std::to_string(extent_.width) + '\n';
    for (const auto& [name, bytes] : images_)
      all += name + ' ' + std::to_string(bytes) + ' ' + std::to_string(sum_of_ends(folder_ / name, bytes)) + '\n';
    return all;
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

bool is_image_name(const fs::path& name) {
  std::string ending = name.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator{folder})
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The images in a class's folder and below: folders in the order of their paths, in each the files in that of names.
std::vector<listed_image> images_in(const fs::path& folder, const std::string& of_class) {
  constexpr auto follow = fs::directory_options::follow_directory_symlink;
  std::vector<std::pair<std::string, std::string>> found;
  for (fs::recursive_directory_iterator entry{folder / of_class, follow}, end; entry != end; ++entry) {
    constexpr int depth_at_most = 16;  // a link may lead back up
    if (entry.depth() >= depth_at_most) entry.disable_recursion_pending();
    if (!is_image_name(entry->path()) || entry->is_directory()) continue;
    found.emplace_back(fs::path{entry->path()}.parent_path().string(), entry->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    throw data_error((folder / of_class).string() +
                     ": the folder contains no image (.png, .jpg, .jpeg); every folder here is a class: add images to "
                     "this folder or remove it");
  }
  std::vector<listed_image> images;
  for (const auto& [parent, name] : found) {
    const fs::path file = fs::path{parent} / name;
    images.push_back({file.lexically_relative(folder).string(), fs::file_size(file)});
  }
  return images;
}

struct folder_set {
  fs::path folder;
  std::vector<listed_image> images;
  std::vector<std::int64_t> targets;
};

folder_set set_of(const fs::path& folder, const std::vector<std::string>& classes) {
  folder_set made{folder, {}, {}};
  for (const auto& name : folders_in(folder)) {
    const auto found = std::lower_bound(classes.begin(), classes.end(), name);
    if (found == classes.end() || *found != name) {
      throw data_error((folder / name).string() +
                       ": this class does not occur in the training images; add it there or remove this folder");
    }
    auto images = images_in(folder, name);
    made.targets.insert(made.targets.end(), images.size(), found - classes.begin());
    std::move(images.begin(), images.end(), std::back_inserter(made.images));
  }
  return made;
}

// Reads the header of each image. Returns the size of all; throws where they have none in common and are not scaled.
image_extent common_extent(const std::vector<const folder_set*>& sets, bool scaled) {
  std::optional<image_extent> all;
  for (const auto* set : sets) {
    for (const auto& each : set->images) {
      const fs::path file = set->folder / each.name;
      const auto extent = extent_of_image(file);
      if (!all) all = extent;
      if (scaled || *all == extent) continue;
      throw data_error(file.string() + ": the image has " + std::to_string(extent.width) + " x " +
                       std::to_string(extent.height) + " pixels, but " +
                       (sets.front()->folder / sets.front()->images.front().name).string() + " has " +
                       std::to_string(all->width) + " x " + std::to_string(all->height) +
                       "; set data.image_size to scale all images to one size");
    }
  }
  return *all;
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

// The two folders: one's own for each, or train/ and val/ or test/ in the first, or the first alone.
std::pair<fs::path, fs::path> folders_of(const data_source& from) {
  fs::path train = from.file.empty() ? from.folder.parent_path() : from.file, test = from.test_file;
  if (from.file.empty() && !is_folder(train))
    throw data_error("data.file is not set, and the data folder " + train.string() +
                     " does not exist; set data.file to a folder that contains one folder per class");
  require_folder(train, "data.file");
  if (!test.empty()) {
    require_folder(test, "data.test_file");
  } else if (is_folder(train / "train")) {
    for (const char* name : {"val", "test"})
      if (test.empty() && is_folder(train / name)) test = train / name;
    if (!test.empty()) train /= "train";
  }
  return {train, test};
}

std::shared_ptr<const dataset> dataset_of(folder_set&& from, image_extent extent, bool scaled,
                                          const std::vector<std::string>& classes) {
  return std::make_shared<dataset>(
      dataset{.inputs{},
              .targets = at::tensor(from.targets, at::kLong),
              .classes = classes,
              .files = std::make_shared<folder_images>(from.folder, std::move(from.images), extent, scaled)});
}

dataset_pair load(const data_source& from) try {
  const auto [train_folder, test_folder] = folders_of(from);
  const auto names = folders_in(train_folder);
  if (names.empty()) {
    throw data_error(train_folder.string() + ": contains no folders; expected one folder of images per class");
  }
  folder_set train = set_of(train_folder, names), test;
  std::vector<const folder_set*> sets{&train};
  if (!test_folder.empty()) {
    test = set_of(test_folder, names);
    if (test.images.empty()) {
      throw data_error(test_folder.string() + ": contains no folders; expected one folder of images per class");
    }
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
} catch (const fs::filesystem_error& reason) {
  throw data_error(reason.path1().string() + ": cannot read this path (" + reason.code().message() +
                   "); check its permissions");
}

}  // namespace

dataset_kind image_folder() {
  return {.name = "image_folder",
          .explanation = "your own PNG and JPEG images, in one folder per class",
          .folder = ".",  // the data folder itself
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load = load,
          .reads = {"file", "test_file", "image_size"}};
}

}  // namespace troupe::data

#include "troupe/data/formats/image_list.hpp"

#include "troupe/data/formats/data_error.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const fs::path& path, const std::error_code& reason) {
  throw data_error(path.string() + ": cannot read this path (" + reason.message() + "); check its permissions");
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_of_others(const std::string& name) {
  return name.starts_with('.') || name == "__MACOSX";
}

bool is_image_name(const fs::path& name) {
  const auto ending = lower(name.extension().string());
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry{folder, failed}, end; !failed && entry != end; entry.increment(failed))
    if (!is_of_others(entry->path().filename().string())) entries.push_back(*entry);
  if (failed) fail_to_read(folder, failed);
  // Sorted because the order on disk differs between machines and would decide through which of two links a folder is
  // entered.
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Identity of a folder, whatever path leads to it.
using identity = std::pair<dev_t, ino_t>;

identity identity_of(const fs::path& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) fail_to_read(folder, {errno, std::generic_category()});
  return {status.st_dev, status.st_ino};
}

// Walks the folders of one set.
class walk {
 public:
  explicit walk(const fs::path& root) : root_{root} { seen_.emplace(identity_of(root), root); }

  std::vector<std::pair<std::string, std::vector<listed_image>>> images() {
    const auto names = folders_in(root_);
    for (const auto& name : names) {
      const auto [known, fresh] = seen_.emplace(identity_of(root_ / name), root_ / name);
      if (!fresh)
        throw data_error((root_ / name).string() + ": the same folder as " + known->second.string() +
                         "; every folder here is a class: remove one of the two");
    }
    std::map<std::string, std::vector<fs::path>> links;
    for (const auto& name : names) enter({root_ / name}, found_[name], &links[name]);
    for (const auto& name : names) follow(links[name], found_[name]);
    std::vector<std::pair<std::string, std::vector<listed_image>>> classes;
    for (const auto& name : names) classes.emplace_back(name, listed(name));
    return classes;
  }

 private:
  using image_paths = std::vector<std::pair<std::string, std::string>>;  // folder, name

  // Collects the images in the folders and below. Links to folders are followed, or collected in `links` if it is not
  // null.
  void enter(std::vector<fs::path> folders, image_paths& into, std::vector<fs::path>* links) {
    while (!folders.empty()) {
      const auto folder = folders.back();
      folders.pop_back();
      for (const auto& entry : entries_of(folder)) {
        std::error_code failed;
        if (entry.is_directory(failed)) {
          if (links != nullptr && entry.is_symlink(failed))
            links->push_back(entry.path());
          else if (seen_.emplace(identity_of(entry.path()), entry.path()).second)
            folders.push_back(entry.path());
        } else if (is_image_name(entry.path())) {
          into.emplace_back(folder.string(), entry.path().filename().string());
        }
      }
    }
  }

  void follow(const std::vector<fs::path>& links, image_paths& into) {
    for (const auto& link : links)
      if (seen_.emplace(identity_of(link), link).second) enter({link}, into, nullptr);
  }

  // Returns the images of a class: folders in the order of their paths, and in each folder files in the order of their
  // names.
  std::vector<listed_image> listed(const std::string& name) {
    auto& paths = found_[name];
    std::sort(paths.begin(), paths.end());
    if (paths.empty()) {
      throw data_error((root_ / name).string() +
                       ": the folder contains no image (.png, .jpg, .jpeg); every folder here is a class: add images "
                       "to this folder or remove it");
    }
    std::vector<listed_image> images;
    for (const auto& [folder, file_name] : paths) {
      const fs::path file = fs::path{folder} / file_name;
      struct stat about {};
      if (stat(file.c_str(), &about) != 0) fail_to_read(file, {errno, std::generic_category()});
      images.push_back({file.lexically_relative(root_).string(), static_cast<std::uint64_t>(about.st_size)});
    }
    return images;
  }

  fs::path root_;
  std::map<identity, fs::path> seen_;
  std::map<std::string, image_paths> found_;
};

// Returns the name among `names` that is in `wanted`, ignoring case, or nothing. Throws data_error if there are
// several.
std::optional<std::string> one_of(const fs::path& folder, const std::vector<std::string>& names,
                                  const std::set<std::string>& wanted) {
  std::optional<std::string> found;
  for (const auto& name : names) {
    if (!wanted.contains(lower(name))) continue;
    if (found)
      throw data_error(folder.string() + ": contains " + *found + "/ and " + name +
                       "/, which are names of the same set; set data.file and data.test_file to the two folders");
    found = name;
  }
  return found;
}

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) {
    std::error_code failed;
    if (entry.is_directory(failed)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::pair<std::string, std::vector<listed_image>>> images_by_class(const fs::path& folder) {
  return walk{folder}.images();
}

image_sets sets_in(const fs::path& folder) {
  const auto names = folders_in(folder);
  const auto train = one_of(folder, names, {"train", "training"});
  const auto validation = one_of(folder, names, {"val", "valid", "validation"});
  const auto test = one_of(folder, names, {"test", "testing"});
  const auto count =
      std::size_t{train.has_value()} + std::size_t{validation.has_value()} + std::size_t{test.has_value()};
  if (train && (validation || test)) return {folder / *train, folder / (validation ? *validation : *test)};
  if (count == 0 || count < names.size()) return {folder, {}};  // "train" is a class like "bus"
  if (train) return {folder / *train, {}};
  throw data_error(folder.string() + ": contains " + (validation ? *validation : *test) +
                   "/, but no train/ beside it; set data.file to the folder of the training images, which contains one "
                   "folder per class, and data.test_file to that of the test images");
}

}  // namespace troupe::data

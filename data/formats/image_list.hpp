// Lists the images in a folder. Its classes are its folders, in the order of their names. The images of a class are the
// .png, .jpg and .jpeg files in its folder and below, in the order of their names. Names that begin with a dot, and
// `__MACOSX`, belong to other programs and are skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace troupe::data {

/// An image and its size at the start.
struct listed_image {
  std::string name;  ///< Path below the set's folder.
  std::uint64_t bytes{0};
};

/// Returns the names of the folders in a folder, ascending. Throws data_error if it cannot be read.
std::vector<std::string> folders_in(const std::filesystem::path& folder);

/// Returns the images of each class. A folder belongs to one class only: it is entered where it is; it is entered
/// through a link only if it is not in `folder` and was not entered before. Throws data_error, naming the path, if a
/// folder cannot be read, has no images, or is the same as another.
std::vector<std::pair<std::string, std::vector<listed_image>>> images_by_class(const std::filesystem::path& folder);

/// The folders of the training and of the test images; the second is empty if there are none.
struct image_sets {
  std::filesystem::path train, test;
};

/// Returns the two folders in `folder` with the names of sets (train or training; val, valid or validation, or else
/// test or testing; in upper or lower case), or `folder` itself if it has folders of classes. Throws data_error if it
/// is not clear which.
image_sets sets_in(const std::filesystem::path& folder);

}  // namespace troupe::data

// Opens the files that a topology file names with a key, with messages that name the key.
#pragma once

#include "troupe/data/formats/data_error.hpp"
#include "troupe/files/input.hpp"

#include <filesystem>
#include <string>

namespace troupe::data {

/// Returns act(file), which opens the file that the topology file names with `key` and that contains `contents`, such
/// as "the text". Throws data_error if it cannot be read.
template <class Act>
auto reading(const std::filesystem::path& file, const std::string& key, const std::string& contents, Act act) {
  if (file.empty()) throw data_error(key + " is not set; set it to the file that contains " + contents);
  try {
    return act(file);
  } catch (const files::missing& problem) {
    throw data_error(file.string() + ": " + problem.reason() + "; set " + key + " to the file that contains " +
                     contents);
  } catch (const files::irregular& problem) {
    throw data_error(file.string() + ": " + problem.reason() + "; set " + key + " to a regular file");
  } catch (const files::unreadable& problem) {
    throw data_error(problem.what());
  }
}

}  // namespace troupe::data

#include "troupe/runtime/plugins/plugins.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/plugins/plugin.hpp"
#include "troupe/runtime/support/sha256.hpp"

#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <set>
#include <string>

namespace troupe::plugins {

namespace {

namespace fs = std::filesystem;

std::set<fs::path>& paths() {
  static std::set<fs::path> all;
  return all;
}

std::map<std::string, std::string>& digests() {
  static std::map<std::string, std::string> all;
  return all;
}

constexpr const char* expected_plugin =
    "; expected a shared library that is compiled as a plug-in of Troupe, as docs/own.md describes";

/// Throws input_error unless the plug-in was compiled with the types of this program.
void check(const fs::path& file, const plugin_needs& its) {
  const auto ours = needs_of_these_headers();
  const auto refuse = [&](const std::string& theirs, const std::string& own) {
    throw input_error(file.string() + " was compiled with " + theirs + ", and this program with " + own +
                      "; compile the plug-in again with the headers and the compiler of this program");
  };
  if (std::strcmp(its.libtorch, ours.libtorch) != 0)
    refuse(std::string("LibTorch ") + its.libtorch, std::string("LibTorch ") + ours.libtorch);
  if (its.layout != ours.layout) refuse("headers of another version of Troupe", "its own");
}

}  // namespace

void load(const fs::path& file) {
  std::error_code failed;
  const auto path = fs::canonical(file, failed);
  if (failed) throw input_error(file.string() + ": " + failed.message() + expected_plugin);
  if (paths().contains(path)) return;
  const auto digest = sha256_of_file(path);
  if (!digest) throw input_error(file.string() + " cannot be read" + expected_plugin);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw input_error(file.string() + " cannot be loaded: " + (reason != nullptr ? reason : "unknown reason") +
                      expected_plugin);
  }
  const auto entry = reinterpret_cast<plugin_entry (*)()>(::dlsym(library, "troupe_plugin"));
  if (entry == nullptr) throw input_error(file.string() + " has no function troupe_plugin()" + expected_plugin);
  const auto plugin = entry();
  check(file, plugin.needs);
  try {
    plugin.register_kinds();
  } catch (const std::exception& reason) {
    throw input_error(file.string() + " cannot register what it has: " + reason.what());
  }
  paths().insert(path);
  digests()[path.filename().string()] = *digest;
}

const std::map<std::string, std::string>& loaded() {
  return digests();
}

}  // namespace troupe::plugins

#include "troupe/runtime/plugins/plugins.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/plugins/plugin.hpp"
#include "troupe/runtime/support/sha256.hpp"

#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <map>
#include <string>
#include <system_error>

namespace troupe::plugins {

namespace {

namespace fs = std::filesystem;

/// The result of loading a file.
struct outcome {
  std::string digest{};
  std::string failure{};  ///< Message, or empty.
};

/// Returns the outcomes of this process by path.
std::map<fs::path, outcome>& outcomes() {
  static std::map<fs::path, outcome> all;
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

/// Loads a library for the first time. Throws input_error.
void load_library(const fs::path& file, const fs::path& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw input_error(file.string() + " cannot be loaded: " + (reason != nullptr ? reason : "unknown reason") +
                      expected_plugin + ", and a program that exports its symbols, as the troupe command does");
  }
  const auto entry = reinterpret_cast<plugin_entry (*)()>(::dlsym(library, "troupe_plugin"));
  if (entry == nullptr) throw input_error(file.string() + " has no function troupe_plugin()" + expected_plugin);
  const auto plugin = entry();
  check(file, plugin.needs);
  try {
    plugin.register_kinds();
  } catch (const std::exception& reason) {
    throw input_error(file.string() + " cannot register its kinds: " + reason.what());
  } catch (...) {
    throw input_error(file.string() + " cannot register its kinds: it throws what is not a std::exception");
  }
}

}  // namespace

void load(const fs::path& file) {
  std::error_code failed;
  const auto path = fs::canonical(file, failed);
  if (failed) throw input_error(file.string() + ": " + failed.message() + expected_plugin);
  const auto [known, is_new] = outcomes().try_emplace(path);
  auto& what = known->second;
  if (is_new) try {
      what.digest = sha256_of_file(path).value_or("");
      if (what.digest.empty()) throw input_error(file.string() + " cannot be read" + expected_plugin);
      load_library(file, path);
    } catch (const input_error& reason) {
      what.failure = reason.what();
    }
  if (!what.failure.empty()) throw input_error(what.failure);
}

std::string digest_of(const fs::path& file) {
  std::error_code failed;
  const auto known = outcomes().find(fs::canonical(file, failed));
  return known == outcomes().end() || !known->second.failure.empty() ? "" : known->second.digest;
}

}  // namespace troupe::plugins

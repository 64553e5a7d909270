// Files that are not plug-ins are refused with a message that names them.
#include "troupe/runtime/plugins/plugins.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <filesystem>
#include <string>

namespace plugins_test {

using namespace troupe;

namespace {

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    topology::parse(text, "folder/t.toml", overrides);
  } catch (const input_error& reason) {
    return reason.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a file that is not a plug-in is refused at its place") {
  const auto missing = refusal("plugins = [\"libmissing.so\"]\n[model]\nname = \"of_the_plugin\"\n");
  CHECK(has(missing, "folder/t.toml:1:12: "));
  CHECK(has(missing, "folder/libmissing.so: No such file or directory; expected a shared library"));
  CHECK_FALSE(has(missing, "of_the_plugin"));  // no kind is known without the plug-in
  const testing::scratch folder;
  const auto text = folder.write("libtext.so", "not a library");
  CHECK(has(refusal("plugins = [\"" + text.string() + "\"]\n"), "libtext.so cannot be loaded: "));
  CHECK(has(refusal("plugins = [\"" + folder.path().string() + "\"]\n"), " cannot be read; expected a shared library"));
  CHECK(plugins::digest_of(text).empty());
}

TEST_CASE("a library without the function of plug-ins is refused") {
  const std::filesystem::path library = TROUPE_LIBRARY;
  CHECK(has(refusal("plugins = [\"" + library.string() + "\"]\n"), " has no function troupe_plugin(); expected"));
}

TEST_CASE("the key takes a list of paths") {
  CHECK(has(refusal("plugins = \"libmine.so\"\n"), "plugins is \"libmine.so\"; expected a list of paths"));
  CHECK(has(refusal("plugins = [1]\n"), "plugins holds 1; expected a list of paths"));
  CHECK(has(refusal("", {"plugins=[libmine.so]"}), "--set 'plugins=[\"libmine.so\"]'"));
  CHECK(refusal("plugins = []\n") == "accepted");
}

}  // namespace plugins_test

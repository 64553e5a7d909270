// Checks of the source tree: which storey includes which, one place per dependency, complete CMake lists, the form of
// headers, valid links between documents.
#include <doctest/doctest.h>  // not through support/doctest.hpp: nothing here knows LibTorch

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct source_file {
  std::string path;    // From the root of the project.
  std::string storey;  // First folder of the path.
  std::string text;
  std::vector<std::string> includes;  // As written, without quotes or brackets.

  bool is_header() const { return path.ends_with(".hpp"); }
};

std::string read(const fs::path& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const fs::path root{TROUPE_SOURCE_DIR};

// Files of these folders that end in one of `endings`, in order of their path.
std::vector<fs::path> list(const std::vector<std::string>& folders, const std::vector<std::string>& endings) {
  std::vector<fs::path> found;
  for (const auto& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator{root / folder}) {
      if (std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end()) {
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<source_file> sources() {
  static const std::regex include{R"re(^\s*#include\s+["<]([^">]+)[">])re", std::regex::multiline};
  std::vector<source_file> result;
  for (const auto& path : list({"files", "models", "data", "actors", "runtime", "apps"}, {".hpp", ".cpp"})) {
    const std::string name = fs::relative(path, root).generic_string();
    source_file file{name, name.substr(0, name.find('/')), read(path), {}};
    for (std::sregex_iterator match{file.text.begin(), file.text.end(), include}, end; match != end; ++match) {
      file.includes.push_back((*match)[1]);
    }
    result.push_back(std::move(file));
  }
  return result;
}

}  // namespace

TEST_CASE("every storey includes only itself and what stands below it") {
  const std::map<std::string, std::set<std::string>> below{
      {"files", {"files"}},
      {"models", {"models", "files"}},
      {"data", {"data", "files"}},
      {"actors", {"actors", "models", "data", "files"}},
      {"runtime", {"runtime", "actors", "models", "data", "files"}},
      {"apps", {"apps", "runtime", "actors", "models", "data", "files"}}};
  for (const auto& file : sources()) {
    for (const auto& include : file.includes) {
      CAPTURE(file.path);
      CAPTURE(include);
      if (include.starts_with("troupe/")) {
        const std::string storey = include.substr(7, include.find('/', 7) - 7);
        CHECK(below.at(file.storey).contains(storey));
        CHECK(fs::exists(root / include.substr(7)));
      } else {
        CHECK_MESSAGE(!fs::exists(root / file.path / ".." / include), "spelled from the include root: troupe/…");
      }
    }
  }
}

TEST_CASE("every dependency has one door") {
  struct door {
    std::string include;             // What an include begins with.
    std::vector<std::string> users;  // What the path of an including file may begin with.
  };
  const std::vector<door> doors{
      {"toml++/", {"runtime/topology/toml.hpp"}},
      {"CLI/", {"apps/"}},
      {"graphviz/", {"runtime/plan/draw.cpp"}},
      {"curl/", {"runtime/fetch/"}},
      {"openssl/", {"runtime/"}},
      {"nlohmann/", {"files/json.hpp"}},
      {"png.h", {"data/decode_png.cpp"}},
      {"jpeglib.h", {"data/decode_jpeg.cpp"}},
      {"jerror.h", {"data/decode_jpeg.cpp"}},
      {"archive", {"runtime/fetch/unpack.cpp"}},
      {"zlib.h", {"data/"}},
      {"boost/", {"runtime/"}},
      {"caf/", {"actors/", "runtime/", "apps/"}},
      {"cuda", {"actors/device/"}},
      {"nccl", {"actors/device/"}},
      {"c10/cuda/", {"actors/device/"}},
      {"ATen/cuda/", {"actors/device/"}},
  };
  for (const auto& file : sources()) {
    for (const auto& include : file.includes) {
      for (const auto& door : doors) {
        if (!include.starts_with(door.include)) continue;
        CAPTURE(file.path);
        CAPTURE(include);
        CHECK(std::any_of(door.users.begin(), door.users.end(),
                          [&](const auto& user) { return file.path.starts_with(user); }));
      }
    }
  }
}

TEST_CASE("files are opened for reading in one place, which refuses what is no regular file") {
  // What may lead elsewhere. Folders that are locked and flushed, and /dev/null, are opened as such.
  static const std::regex opens{R"(\b(ifstream|fstream|filebuf|fopen|freopen|O_RDONLY|archive_read_open_filename)\b)"};
  static const std::regex harmless{R"(<fstream>|O_RDONLY \| O_DIRECTORY|"/dev/null", O_RDONLY|//[^\n]*)"};
  for (const auto& file : sources()) {
    if (file.storey == "files" || file.path == "runtime/support/durable_files.cpp") continue;  // it flushes folders
    const auto text = std::regex_replace(file.text, harmless, "");
    std::smatch found;
    CAPTURE(file.path);
    CHECK_MESSAGE(!std::regex_search(text, found, opens), found.str() << ": read through troupe/files/input.hpp");
  }
}

TEST_CASE("algorithms do not know the actor framework, and rules know nothing above them") {
  std::map<std::string, source_file> by_path;
  for (const auto& file : sources()) by_path[file.path] = file;
  const auto pure = [](const std::string& path) {
    return path.starts_with("actors/exchange/") || path.starts_with("actors/rules/") || path == "actors/messages.hpp" ||
           path.starts_with("actors/training/replica.") || path.starts_with("actors/training/shared_memory.");
  };
  for (const auto& [path, file] : by_path) {
    if (!pure(path)) continue;
    std::vector<std::string> open{path};
    std::set<std::string> seen{path};
    while (!open.empty()) {
      const auto current = open.back();
      open.pop_back();
      for (const auto& include : by_path.at(current).includes) {
        CAPTURE(path);
        CAPTURE(current);
        CHECK_FALSE(include.starts_with("caf/"));
        if (path.starts_with("actors/rules/")) CHECK_FALSE(include.starts_with("troupe/actors/exchange/"));
        if (include.starts_with("troupe/") && seen.insert(include.substr(7)).second) open.push_back(include.substr(7));
      }
    }
  }
}

TEST_CASE("no header drags in a heavy one") {
  for (const auto& file : sources()) {
    if (!file.is_header()) continue;
    for (const auto& include : file.includes) {
      CAPTURE(file.path);
      CAPTURE(include);
      CHECK(include != "torch/torch.h");
      CHECK(include != "torch/all.h");
      CHECK(include != "caf/all.hpp");
      CHECK(include != "ATen/ATen.h");
      if (include.starts_with("torch/"))
        CHECK((file.path == "models/module.hpp" || file.path == "models/batch_norm.hpp"));
    }
  }
}

TEST_CASE("a header says what it is, is included once, and opens no namespace") {
  static const std::regex opens{R"(^\s*using namespace )", std::regex::multiline};
  for (const auto& file : sources()) {
    if (!file.is_header()) continue;
    CAPTURE(file.path);
    CHECK(file.text.starts_with("// "));
    CHECK(file.text.find("\n#pragma once\n") != std::string::npos);
    CHECK_FALSE(std::regex_search(file.text, opens));
  }
}

TEST_CASE("a source file includes its own header first, which shows that the header compiles alone") {
  for (const auto& file : sources()) {
    if (file.is_header()) continue;
    const std::string header = file.path.substr(0, file.path.size() - 3) + "hpp";
    if (!fs::exists(root / header)) continue;
    CAPTURE(file.path);
    REQUIRE_FALSE(file.includes.empty());
    CHECK(file.includes.front() == "troupe/" + header);
  }
}

TEST_CASE("no source file is left out of the CMake lists") {
  for (const auto& file : sources()) {
    if (file.is_header()) continue;
    CAPTURE(file.path);
    const std::string lists = read(root / file.storey / "CMakeLists.txt");
    const std::string name = file.path.substr(file.storey.size() + 1);
    const std::regex listed{R"((^|[\s(]))" + std::regex_replace(name, std::regex{"[.+]"}, "\\$&") + R"(($|[\s)]))",
                            std::regex::multiline};
    CHECK(std::regex_search(lists, listed));
  }
}

TEST_CASE("tests reach doctest through the header that settles its quarrel with LibTorch") {
  for (const auto& path : list({"tests"}, {".hpp", ".cpp"})) {
    const std::string name = fs::relative(path, root).generic_string();
    if (name == "tests/main.cpp" || name == "tests/tidy_test.cpp" || name == "tests/support/doctest.hpp") continue;
    CAPTURE(name);
    CHECK(read(path).find("<doctest/doctest.h>") == std::string::npos);
  }
}

TEST_CASE("links between documents lead somewhere") {
  static const std::regex code{"```[\\s\\S]*?```|`[^`\n]*`"};
  static const std::regex link{R"(\]\(([^)\s]+)\))"};
  static const std::regex heading{R"(^#+ +(.*)$)", std::regex::multiline};
  // GitHub's rule: lower case, punctuation dropped, spaces to hyphens.
  const auto anchors = [](const std::string& text) {
    std::set<std::string> found;
    for (std::sregex_iterator match{text.begin(), text.end(), heading}, end; match != end; ++match) {
      std::string anchor;
      for (const char c : (*match)[1].str()) {
        if (c == ' ')
          anchor += '-';
        else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c & 0x80)) {
          anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
      }
      found.insert(anchor);
    }
    return found;
  };
  std::vector<fs::path> documents = list({"docs", "bench", "topologies", "examples"}, {".md"});
  for (const auto& entry : fs::directory_iterator{root}) {
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  }
  CHECK_FALSE(documents.empty());
  for (const auto& path : documents) {
    const std::string text = std::regex_replace(read(path), code, "");
    for (std::sregex_iterator match{text.begin(), text.end(), link}, end; match != end; ++match) {
      const std::string target = (*match)[1];
      if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
      const auto hash = target.find('#');
      const fs::path file = hash == 0 ? path : path.parent_path() / target.substr(0, hash);
      CAPTURE(path.string());
      CAPTURE(target);
      CHECK(fs::exists(file));
      if (hash != std::string::npos && file.extension() == ".md") {
        CHECK(anchors(read(file)).contains(target.substr(hash + 1)));
      }
    }
  }
}

TEST_CASE("the index of the documentation links to every page") {
  const std::string index = read(root / "docs/README.md");
  for (const auto& path : list({"docs"}, {".md"})) {
    const std::string page = fs::relative(path, root / "docs").generic_string();
    CAPTURE(page);
    CHECK((page == "README.md" || index.find("](" + page + ")") != std::string::npos));
  }
}

// See the section on voice in CONTRIBUTING.md, which quotes some of these.
TEST_CASE("texts that people read avoid phrases that make them read twice") {
  static const std::regex habit{
      "or no such key|[Ll]ikewise|\\b(goes|go) by\\b|\\btells? of\\b|\\bsays? of\\b|\\bcomes? to\\b|\\bfor ever\\b|"
      "\\bmend(s|ed)?\\b|\\bwho dials\\b|\\b(every|no)body\\b|\\bis no such\\b"};
  static const std::regex literal{"\"(?:[^\"\\\\\n]|\\\\.)*\""};
  const auto check = [](const fs::path& path, const std::string& text) {
    std::smatch found;
    INFO(fs::relative(path, root).generic_string());
    CHECK_MESSAGE(!std::regex_search(text, found, habit), found.str());
  };
  for (const auto& path : list({"docs", "bench", "topologies"}, {".md", ".toml"})) check(path, read(path));
  for (const auto* name : {"README.md", "CHANGELOG.md"}) check(root / name, read(root / name));
  for (const auto& path : list({"files", "models", "data", "actors", "runtime", "apps", "examples"}, {".hpp"}))
    check(path, read(path));
  for (const auto& path : list({"files", "models", "data", "actors", "runtime", "apps"}, {".cpp"})) {
    const auto text = read(path);
    for (std::sregex_iterator match{text.begin(), text.end(), literal}, end; match != end; ++match)
      check(path, match->str());
  }
}

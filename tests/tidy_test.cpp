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
#include <stdexcept>
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

// The storeys, from the lowest to the highest. Those of one line do not include each other.
const std::vector<std::vector<std::string>> storeys{
    {"files"}, {"net", "models", "data"}, {"algorithms"}, {"actors"}, {"runtime"}, {"tools"}, {"apps"}};

std::vector<std::string> names_of_storeys() {
  std::vector<std::string> names;
  for (const auto& level : storeys) names.insert(names.end(), level.begin(), level.end());
  return names;
}

std::vector<source_file> sources() {
  static const std::regex include{R"re(^\s*#include\s+["<]([^">]+)[">])re", std::regex::multiline};
  std::vector<source_file> result;
  for (const auto& path : list(names_of_storeys(), {".hpp", ".cpp"})) {
    const std::string name = fs::relative(path, root).generic_string();
    source_file file{name, name.substr(0, name.find('/')), read(path), {}};
    for (std::sregex_iterator match{file.text.begin(), file.text.end(), include}, end; match != end; ++match) {
      file.includes.push_back((*match)[1]);
    }
    result.push_back(std::move(file));
  }
  return result;
}

std::size_t level_of(const std::string& storey) {
  for (std::size_t level = 0; level < storeys.size(); ++level)
    if (std::find(storeys[level].begin(), storeys[level].end(), storey) != storeys[level].end()) return level;
  throw std::runtime_error("no storey: " + storey);
}

// The folder of a file.
std::string room_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Which rooms each room includes, and a file that does.
using room_graph = std::map<std::string, std::map<std::string, std::string>>;

room_graph rooms_of(const std::vector<source_file>& files) {
  room_graph graph;
  for (const auto& file : files) {
    auto& own = graph[room_of(file.path)];
    for (const auto& include : file.includes)
      if (include.starts_with("troupe/") && room_of(include.substr(7)) != room_of(file.path))
        own.emplace(room_of(include.substr(7)), file.path + " includes " + include.substr(7));
  }
  return graph;
}

// Returns the rooms on a path from `from` to `to`, both included; empty if there is none.
std::vector<std::string> way(const room_graph& graph, const std::string& from, const std::string& to) {
  std::map<std::string, std::string> before{{from, ""}};
  std::vector<std::string> open{from};
  for (std::size_t i = 0; i < open.size(); ++i)
    for (const auto& [next, why] : graph.at(open[i]))
      if (before.emplace(next, open[i]).second) open.push_back(next);
  if (!before.contains(to)) return {};
  std::vector<std::string> rooms;
  for (auto room = to; !room.empty(); room = before.at(room)) rooms.insert(rooms.begin(), room);
  return rooms;
}

}  // namespace

TEST_CASE("every storey includes only itself and what stands below it") {
  for (const auto& file : sources()) {
    for (const auto& include : file.includes) {
      CAPTURE(file.path);
      CAPTURE(include);
      if (include.starts_with("troupe/")) {
        const std::string storey = include.substr(7, include.find('/', 7) - 7);
        CHECK((storey == file.storey || level_of(storey) < level_of(file.storey)));
        CHECK(fs::exists(root / include.substr(7)));
      } else {
        CHECK_MESSAGE(!fs::exists(root / file.path / ".." / include), "spelled from the include root: troupe/…");
      }
    }
  }
}

TEST_CASE("no two rooms include each other, directly or through others") {
  const auto graph = rooms_of(sources());
  for (const auto& [room, others] : graph)
    for (const auto& [other, why] : others) {
      std::string circle;
      for (const auto& each : way(graph, other, room)) circle += " → " + each;
      const std::string closing = why + ", which closes the circle " + room + circle;
      CHECK_MESSAGE(circle.empty(), closing);
    }
}

TEST_CASE("a room has at most 32 files, except runtime/topology, and a row in docs/architecture.md") {
  std::map<std::string, int> sizes;
  for (const auto& file : sources()) ++sizes[room_of(file.path)];
  const std::string text = read(root / "docs/architecture.md");
  for (const auto& each : sizes) {
    const auto& room = each.first;
    const auto size = each.second;
    MESSAGE(room << ": " << size);
    CAPTURE(room);
    CHECK(size <= (room == "runtime/topology" ? 48 : 32));
    CHECK(text.find("\n| `" + room + "/` |") != std::string::npos);
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
      {"openssl/", {"net/", "runtime/", "tools/fetch/", "tools/pages/", "tools/watching/"}},
      {"nlohmann/", {"files/json.hpp"}},
      {"png.h", {"data/formats/decode_png.cpp"}},
      {"jpeglib.h", {"data/formats/decode_jpeg.cpp"}},
      {"jerror.h", {"data/formats/decode_jpeg.cpp"}},
      {"zlib.h", {"data/", "tools/fetch/unpack.cpp"}},
      {"boost/", {"net/", "runtime/", "tools/fetch/", "tools/probing/", "tools/watching/"}},
      {"caf/", {"net/", "actors/", "runtime/", "tools/comparing/", "apps/"}},
      {"cuda", {"algorithms/device/"}},
      {"nccl", {"algorithms/device/"}},
      {"c10/cuda/", {"algorithms/device/"}},
      {"ATen/cuda/", {"algorithms/device/"}},
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
  static const std::regex opens{R"(\b(ifstream|fstream|filebuf|fopen|freopen|O_RDONLY)\b)"};
  static const std::regex harmless{R"(<fstream>|O_RDONLY \| O_DIRECTORY|"/dev/null", O_RDONLY|//[^\n]*)"};
  for (const auto& file : sources()) {
    if (file.storey == "files" || file.path == "runtime/support/durable_files.cpp") continue;  // it flushes folders
    const auto text = std::regex_replace(file.text, harmless, "");
    std::smatch found;
    CAPTURE(file.path);
    CHECK_MESSAGE(!std::regex_search(text, found, opens), found.str() << ": read through troupe/files/input.hpp");
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
      if (include.starts_with("torch/") && include != "torch/version.h")
        CHECK((file.path == "models/networks/module.hpp" || file.path == "models/networks/batch_norm.hpp"));
    }
  }
}

TEST_CASE("a public header says what it is for, and includes headers that there are") {
  const std::regex include{R"re(^#include "troupe/([^"]+)"$)re", std::regex::multiline};
  const auto headers = list({"include/troupe"}, {".hpp"});
  CHECK(headers.size() >= 5);
  for (const auto& path : headers) {
    CAPTURE(path);
    CHECK_FALSE(fs::is_symlink(path));
    const std::string text = read(path);
    CHECK(text.starts_with("/// @file\n/// "));
    CHECK(text.find("\n#pragma once\n") != std::string::npos);
    for (std::sregex_iterator match{text.begin(), text.end(), include}, end; match != end; ++match)
      CHECK(fs::exists(root / (*match)[1].str()));
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

TEST_CASE("every file that names the version of LibTorch names the same one") {
  static const std::regex version{R"re((?:\btorch(?:==|=|-)|\bTORCH = ")(\d+\.\d+))re"};
  std::set<std::string> versions;
  for (const auto* name :
       {"deploy/package/troupe", "deploy/package/torch.txt", "cmake/TroupeConfig.cmake.in",
        "python/troupe_train/_process.py", "python/pyproject.toml", "scripts/setup", "scripts/systems"}) {
    CAPTURE(name);
    const auto text = read(root / name);
    const std::sregex_iterator first{text.begin(), text.end(), version}, end;
    CHECK(first != end);
    for (auto match = first; match != end; ++match) versions.insert((*match)[1]);
  }
  CHECK(versions.size() == 1);
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

TEST_CASE("paths that documents name are those of files") {
  const std::regex path{R"re(`((?:[a-z_]+/)+[a-z_0-9]+\.(?:hpp|cpp|py|cmake|toml|md))`)re"};
  for (const auto& document : list({"docs"}, {".md"})) {
    const std::string text = read(document);
    CAPTURE(document.string());
    for (std::sregex_iterator match{text.begin(), text.end(), path}, end; match != end; ++match) {
      const std::string name = (*match)[1];
      if (!fs::exists(root / name.substr(0, name.find('/')))) continue;  // a file of a run or of a user
      CAPTURE(name);
      CHECK(fs::exists(root / name));
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

namespace {

// The comments of a source file, one per line, without what is in backticks.
std::string comments_of(const std::string& text) {
  static const std::regex comment{R"re(("(?:[^"\\\n]|\\.)*")|(//[^\n]*))re"};
  static const std::regex quoted{"`[^`\n]*`"};
  std::string all;
  for (std::sregex_iterator match{text.begin(), text.end(), comment}, end; match != end; ++match)
    if ((*match)[2].matched) all += (*match)[2].str() + '\n';
  return std::regex_replace(all, quoted, "");
}

}  // namespace

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
  for (const auto& path :
       list({"files", "models", "data", "algorithms", "actors", "runtime", "tools", "apps", "examples"}, {".hpp"}))
    check(path, read(path));
  for (const auto& path : list(names_of_storeys(), {".cpp"})) {
    const auto text = read(path);
    for (std::sregex_iterator match{text.begin(), text.end(), literal}, end; match != end; ++match)
      check(path, match->str());
    check(path, comments_of(text));
  }
}

TEST_CASE("comments are sentences about things") {
  static const std::regex habit{
      R"re((^|\n)//[/<]* (Of|Those of) |\b[Hh]e\b(?! et al|, Zhang)|\b([Hh]is|him)\b|\b[Ww]ho(ever)?\b|\b(has|have) come\b)re"};
  auto folders = names_of_storeys();
  folders.insert(folders.end(),
                 {"include/troupe", "examples", "bench", "tests/support", "tests/simulation", "tests/unit"});
  for (const auto& path : list(folders, {".hpp", ".cpp"})) {
    const auto comments = comments_of(read(path));
    std::smatch found;
    INFO(fs::relative(path, root).generic_string());
    CHECK_MESSAGE(!std::regex_search(comments, found, habit), found.str());
  }
}

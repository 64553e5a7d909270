#include "tests/support/doctest.hpp"
#include "tests/support/file_server.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/tools/fetch/fetch.hpp"
#include "troupe/tools/fetch/unpack.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>
#include <zlib.h>

namespace fetch_files_test {

using namespace troupe;
using testing::read;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

using testing::file_server;

std::string reply(const std::string& status, const std::string& body, std::size_t claimed,
                  const std::string& more = {}) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(claimed) + "\r\n" + more +
         "Connection: close\r\n\r\n" + body;
}
std::string whole(const std::string& body) {
  return reply("200 OK", body, body.size());
}

/// Returns the offset at which a request asks to begin.
std::size_t offset_of(const std::string& request) {
  const auto at = request.find("Range: bytes=");
  return at == std::string::npos ? 0 : std::stoul(request.substr(at + 13));
}

/// Returns the answer of a server that can resume.
std::string from(const std::string& body, const std::string& request) {
  const auto first = offset_of(request);
  if (first == 0) return whole(body);
  return reply("206 Partial Content", body.substr(first), body.size() - first,
               "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(body.size() - 1) + "/" +
                   std::to_string(body.size()) + "\r\n");
}

const auto content = "abc"s;
/// SHA-256 of "abc": FIPS 180-2, appendix B.1.
const auto content_sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"s;

fetch::source source_at(const std::vector<std::string>& mirrors) {
  return {.name = "tiny", .mirrors = mirrors, .files = {{"file.gz", content.size(), content_sum}}};
}

struct scratch {
  fs::path folder = fs::temp_directory_path() / ("troupe-fetch-" + std::to_string(::getpid())) / "tiny";
  ~scratch() { fs::remove_all(folder.parent_path()); }
  fs::path file() const { return folder / "file.gz"; }
  fs::path part() const { return folder / "file.gz.part"; }
  void put(const fs::path& path, const std::string& text) const {
    fs::create_directories(folder);
    std::ofstream(path, std::ios::binary) << text;
  }
};

std::string failure(const fetch::source& source, const fs::path& folder) {
  try {
    fetch::fetch(source, folder);
  } catch (const fetch::fetch_error& error) {
    return error.what();
  }
  return "fetched";
}

}  // namespace

TEST_CASE("a file is fetched once, and is there the second time") {
  const scratch here;
  const file_server web([](const auto& request) { return from(content, request); });
  std::uint64_t told = 0;
  CHECK(fetch::fetch(source_at({web.url()}), here.folder, [&](const auto&, auto bytes) { told = bytes; }) == 1);
  CHECK(read(here.file()) == content);
  CHECK(told == 3);
  CHECK(!fs::exists(here.part()));
  CHECK(fetch::fetch(source_at({web.url()}), here.folder) == 0);
  CHECK(web.requests().size() == 1);
  CHECK(web.requests()[0].starts_with("GET /file.gz HTTP/1.1\r\n"));
}

TEST_CASE("an interrupted download goes on where it stopped") {
  const scratch here;
  bool cut = true;
  const file_server web([&](const auto& request) {
    if (!cut) return from(content, request);
    cut = false;
    return reply("200 OK", "a", 3);
  });
  const auto said = failure(source_at({web.url()}), here.folder);
  CHECK(said.starts_with("cannot download file.gz:\n  " + web.url() + ": "));
  CHECK(!fs::exists(here.file()));
  CHECK(read(here.part()) == "a");
  CHECK(fetch::fetch(source_at({web.url()}), here.folder) == 1);
  CHECK(offset_of(web.requests()[1]) == 1);
  CHECK(read(here.file()) == content);
}

TEST_CASE("a server that cannot resume sends the file from its beginning") {
  const scratch here;
  const file_server web([](const auto&) { return whole(content); });
  here.put(here.part(), "a");
  CHECK(fetch::fetch(source_at({web.url()}), here.folder) == 1);
  CHECK(read(here.file()) == content);
}

TEST_CASE("what does not continue to the published file is thrown away") {
  const scratch here;
  const file_server web([](const auto& request) { return from(content, request); });
  for (const auto* left : {"x", "xyz", "much too long"}) {
    CAPTURE(left);
    here.put(here.part(), left);
    CHECK(fetch::fetch(source_at({web.url()}), here.folder) == 1);
    CHECK(read(here.file()) == content);
    fs::remove(here.file());
  }
}

TEST_CASE("another file under the name is never accepted, and the next mirror is asked") {
  const scratch here;
  const file_server liar([](const auto&) { return whole("xyz"); });
  const file_server flood([](const auto&) { return whole(std::string(100'000, 'a')); });
  const file_server absent([](const auto&) { return reply("404 Not Found", "", 0); });
  const auto said = failure(source_at({liar.url(), flood.url(), absent.url()}), here.folder);
  CHECK(said.find(liar.url() + ": sent a different file; expected the SHA-256 " + content_sum) != std::string::npos);
  CHECK(said.find(flood.url() + ": sent more than the expected 3 bytes") != std::string::npos);
  CHECK(said.find(absent.url() + ": answered 404 Not Found") != std::string::npos);
  CHECK(!fs::exists(here.file()));
  const file_server honest([](const auto& request) { return from(content, request); });
  CHECK(fetch::fetch(source_at({liar.url(), flood.url(), absent.url(), honest.url()}), here.folder) == 1);
  CHECK(read(here.file()) == content);
}

TEST_CASE("without a network one hears what to do by hand") {
  const scratch here;
  std::string closed;
  {
    closed = file_server([](const auto&) { return ""s; }).url();
  }  // the port is closed now
  CHECK(failure(source_at({closed}), here.folder) != "fetched");
  CHECK(fs::is_empty(here.folder));
  here.put(here.part(), "a");
  const auto said = failure(source_at({closed}), here.folder);
  CHECK(said.find(closed + ": cannot connect to 127.0.0.1:") != std::string::npos);
  CHECK(said.find("try again later to resume the download, or download these files into " + here.folder.string() +
                  " yourself:\n") != std::string::npos);
  CHECK(said.ends_with("  " + closed + "file.gz"));
  CHECK(read(here.part()) == "a");  // can still be resumed
}

TEST_CASE("a file that is not the published one is left alone") {
  const scratch here;
  here.put(here.file(), "mine");
  CHECK_THROWS_AS(fetch::fetch(source_at({"http://127.0.0.1:9/"}), here.folder), input_error);
  CHECK(read(here.file()) == "mine");
}

TEST_CASE("a folder that cannot be made is wrong input") {
  const scratch here;
  here.put(here.file(), "a file");
  CHECK_THROWS_AS(fetch::fetch(source_at({"http://127.0.0.1:9/"}), here.file() / "below"), input_error);
}

namespace {

/// A member of a tar archive (POSIX ustar).
struct member {
  std::string name, content;
  char type{'0'};
  std::string link{};
};

// At level 0, every version of zlib writes the same bytes.
std::string gzipped_tar(const std::vector<member>& members, int level = 6) {
  std::string tar;
  for (const auto& [name, content, type, link] : members) {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(100, 7, "0000644");
    std::array<char, 12> size{};
    std::snprintf(size.data(), size.size(), "%011zo", content.size());
    header.replace(124, 11, size.data());
    header.replace(136, 11, "00000000000");
    header.replace(148, 8, "        ");
    header[156] = type;
    header.replace(157, link.size(), link);
    header.replace(257, 8, "ustar\00000"s);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(size.data(), size.size(), "%06o", sum);
    header.replace(148, 7, size.data(), 7);
    tar += header + content + std::string((512 - content.size() % 512) % 512, '\0');
  }
  tar += std::string(1024, '\0');
  std::string packed(tar.size() + 1024, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Unpacks an archive in `here` that must contain "one" and "two" of three bytes each. Returns the outcome.
std::string unpacked(const scratch& here, const std::string& archive) {
  here.put(here.file(), archive);
  try {
    fetch::unpack(here.file(), here.folder, {{"one", 3, {}}, {"two", 3, {}}});
  } catch (const fetch::fetch_error& error) {
    return error.what();
  }
  return "unpacked";
}

}  // namespace

TEST_CASE("of an archive the expected files are taken, whatever folder it has them in") {
  const scratch here;
  CHECK(unpacked(here,
                 gzipped_tar({{"set/", "", '5'}, {"set/two", "222"}, {"set/readme", "more"}, {"./set/one", "111"}})) ==
        "unpacked");
  CHECK(read(here.folder / "one") == "111");
  CHECK(read(here.folder / "two") == "222");
  CHECK(unpacked(here, gzipped_tar({{"PaxHeaders/one", "9 a=b\n", 'x'}, {"one", "111"}, {"two", "222"}})) ==
        "unpacked");
  CHECK(!fs::exists(here.folder / "readme"));
  CHECK(!fs::exists(here.folder / "one.part"));
}

TEST_CASE("an archive that wants to write elsewhere, or anything else, writes nothing") {
  const scratch here;
  const auto good = gzipped_tar({{"one", "111"}, {"two", "222"}});
  const struct {
    std::string archive, reason;
  } hostile[] = {
      {gzipped_tar({{"one", "111"}, {"two", "", '2', "/etc/passwd"}}), "contains two, but not as a regular file"},
      {gzipped_tar({{"one", "111"}, {"two", "", '1', "one"}}), "contains two, but not as a regular file"},
      {gzipped_tar({{"one", "111"}, {"two", "", '5'}}), "contains two, but not as a regular file"},
      {gzipped_tar({{"one", "111"}, {"two", "4444"}}), "contains two with 4 bytes instead of 3"},
      {gzipped_tar({{"one", "111"}, {"two", std::string(1 << 20, 'x')}}),
       "contains two with 1048576 bytes instead of 3"},
      {gzipped_tar({{"one", "111"}, {"a/one", "111"}, {"two", "222"}}), "contains one twice"},
      {gzipped_tar({{"one", "111"}}), "does not contain two"},
      {good.substr(0, good.size() / 2), ""},
      {"no archive at all", ""},
      {"", ""}};
  for (const auto& [archive, reason] : hostile) {
    CAPTURE(reason);
    const auto said = unpacked(here, archive);
    CHECK(said.starts_with("cannot unpack " + here.file().string() + ": it "));
    CHECK(said.find(reason) != std::string::npos);
    CHECK(!fs::exists(here.folder / "one"));
    CHECK(!fs::exists(here.folder / "one.part"));
  }
  CHECK(unpacked(here, gzipped_tar({{"../one", "111"}, {"/two", "222"}})) ==
        "unpacked");  // nevertheless into the folder
  CHECK(read(here.folder / "one") == "111");
  CHECK(!fs::exists(here.folder.parent_path() / "one"));
}

TEST_CASE("a link that lies in the folder is not written through") {
  const scratch here;
  here.put(here.folder / "victim", "precious");
  fs::create_symlink(here.folder / "victim", here.folder / "one.part");
  CHECK(unpacked(here, gzipped_tar({{"one", "111"}, {"two", "222"}})) == "unpacked");
  CHECK(read(here.folder / "victim") == "precious");
  CHECK(read(here.folder / "one") == "111");
}

TEST_CASE("an archive is fetched, unpacked and gone, and the set is there the second time") {
  const scratch here;
  const file_server web([](const auto& request) { return from(content, request); });
  auto source = source_at({web.url()});
  source.contents = {{"one", 3, {}}, {"two", 3, {}}};
  CHECK(failure(source, here.folder).starts_with("cannot unpack " + here.file().string() + ": it is damaged"));
  fs::remove(here.file());
  CHECK(unpacked(here, gzipped_tar({{"one", "111"}, {"two", "222"}})) == "unpacked");
  CHECK(fetch::fetch(source, here.folder) == 0);
  here.put(here.folder / "two", "22222");
  CHECK_THROWS_WITH_AS(fetch::fetch(source, here.folder),
                       doctest::Contains("not the published file, because it has 5 bytes; expected 3; remove it"),
                       input_error);
  const auto archive = gzipped_tar({{"one", "111"}, {"two", "222"}}, 0);
  const std::string archive_sum = "ab4ab9a92c3dab2be57847b8b1180227f4c552e6d14fba2a4528488defc1b5da";
  fs::remove(here.folder / "two");
  here.put(here.file(), archive);
  source.files = {{"file.gz", archive.size(), archive_sum}};
  CHECK(fetch::fetch(source, here.folder) == 2);  // downloaded by hand
  CHECK(!fs::exists(here.file()));
  CHECK(read(here.folder / "two") == "222");
}

TEST_CASE("every source is complete") {
  for (const auto& source : fetch::sources()) {
    CAPTURE(source.name);
    CHECK(source.files.size() == (source.contents.empty() ? 4 : 1));
    for (const auto& file : source.contents) CHECK(file.bytes > 0);
    for (const auto& file : source.files) CHECK(file.sha256.size() == 64);
    for (const auto& mirror : source.mirrors) CHECK(mirror.ends_with('/'));
  }
}

}  // namespace fetch_files_test

// The files with which nodes identify themselves: certificates, keys and secrets.
#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/security/authority.hpp"
#include "troupe/runtime/supervision/node_name.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace security_test {

namespace {

using namespace troupe;
namespace fs = std::filesystem;

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

fs::perms mode_of(const fs::path& path) {
  return fs::status(path).permissions();
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

constexpr auto own = fs::perms::owner_read | fs::perms::owner_write;

}  // namespace

TEST_CASE("certificates of an authority are accepted, and keys are nobody else's") {
  const testing::scratch folder;
  const auto written = security::make_certificates({.folder = folder.path(), .nodes = {"alpha", "beta"}});
  CHECK(written.size() == 6);
  for (const auto& path : written)
    if (path.extension() == ".key") CHECK(mode_of(path) == own);
  for (const auto* node : {"alpha", "beta"})
    CHECK(refusal([&] { security::check(security::files_in(folder.path(), node), node); }).empty());
}

TEST_CASE("an authority signs later certificates, too, and replaces none unasked") {
  const testing::scratch folder;
  security::make_certificates({.folder = folder.path(), .nodes = {"alpha"}});
  const auto authority = text_of(folder.path() / "authority.crt"), alpha = text_of(folder.path() / "alpha.crt");
  CHECK(security::make_certificates({.folder = folder.path(), .nodes = {"beta"}}).size() == 2);
  CHECK(text_of(folder.path() / "authority.crt") == authority);
  CHECK(refusal([&] { security::check(security::files_in(folder.path(), "beta"), "beta"); }).empty());
  const auto again = [&](bool overwrite) {
    return refusal([&] {
      security::make_certificates({.folder = folder.path(), .nodes = {"gamma", "alpha"}, .overwrite = overwrite});
    });
  };
  CHECK(again(false).find("alpha.crt exists; use --overwrite") != std::string::npos);
  CHECK(!fs::exists(folder.path() / "gamma.crt"));
  CHECK(text_of(folder.path() / "alpha.crt") == alpha);
  CHECK(again(true).empty());
  CHECK(text_of(folder.path() / "alpha.crt") != alpha);
}

TEST_CASE("certificates that are made at the same time have one authority") {
  for (int round = 0; round < 5; ++round) {
    const testing::scratch folder;
    std::vector<std::thread> makers;
    for (int maker = 0; maker < 8; ++maker)
      makers.emplace_back([&, name = "node" + std::to_string(maker)] {
        security::make_certificates({.folder = folder.path() / "new", .nodes = {name}});
      });
    for (auto& maker : makers) maker.join();
    for (int maker = 0; maker < 8; ++maker) {
      const auto name = "node" + std::to_string(maker);
      security::check(security::files_in(folder.path() / "new", name), name);
    }
    CHECK_NOTHROW(security::make_certificates({.folder = folder.path() / "new", .nodes = {"later"}}));
  }
}

TEST_CASE("a certificate that exists has its key, whenever the process ended that made it") {
  const testing::scratch folder;
  security::make_certificates({.folder = folder.path(), .nodes = {"alpha"}});
  fs::remove(folder.path() / "alpha.crt");  // the key is written first
  CHECK_NOTHROW(security::make_certificates({.folder = folder.path(), .nodes = {"alpha"}}));
  security::check(security::files_in(folder.path(), "alpha"), "alpha");
  fs::remove(folder.path() / "authority.crt");
  CHECK(refusal([&] {
          security::make_certificates({.folder = folder.path(), .nodes = {"beta"}});
        }).find("authority.key: there is no") != std::string::npos);
}

TEST_CASE("an authority whose key belongs to another user signs nothing") {
  const testing::scratch folder;
  security::make_certificates({.folder = folder.path(), .nodes = {"alpha"}});
  constexpr uid_t nobody = 65534;
  const auto give = [&](const char* file) { return ::chown((folder.path() / file).c_str(), nobody, -1) == 0; };
  if (!give("alpha.key")) {
    MESSAGE("skipped: only root can give files to other users");
    return;
  }
  CHECK(refusal([&] { security::check(security::files_in(folder.path(), "alpha"), "alpha"); }).empty());
  REQUIRE(give("authority.key"));
  const auto said = refusal([&] { security::make_certificates({.folder = folder.path(), .nodes = {"beta"}}); });
  CHECK(said.find("authority.key: another user owns this private key") != std::string::npos);
  CHECK(!fs::exists(folder.path() / "beta.key"));
}

TEST_CASE("names that no node can have get no certificate") {
  const testing::scratch folder;
  for (const auto* name : {"", "a/b", "../alpha", "a b", "authority", "alpha\n"})
    CHECK(!refusal([&] { security::make_certificates({.folder = folder.path() / "new", .nodes = {name}}); }).empty());
  CHECK(refusal([&] {
          security::make_certificates({.folder = folder.path() / "new", .nodes = {"a", "a"}});
        }).find("twice") != std::string::npos);
  CHECK(!fs::exists(folder.path() / "new"));
}

TEST_CASE("credentials that cannot work are refused before anything is connected") {
  const testing::scratch folder;
  security::make_certificates({.folder = folder.path(), .nodes = {"alpha", "beta"}});
  security::make_certificates({.folder = folder.path() / "other", .nodes = {"alpha"}});
  auto files = security::files_in(folder.path(), "alpha");
  std::string expected;
  SUBCASE("a missing file") {
    files.key = folder.path() / "missing.key";
    expected = "missing.key: no such file; expected a file of `troupe certs`";
  }
  SUBCASE("a key that others can read") {
    fs::permissions(files.key, own | fs::perms::group_read);
    expected = "other users of this machine may read this private key; run chmod 600";
  }
  SUBCASE("a pipe that nobody writes to") {
    files.key = folder.path() / "pipe.key";
    REQUIRE(mkfifo(files.key.c_str(), 0600) == 0);
    expected = "pipe.key: this is a pipe, not a regular file";
  }
  SUBCASE("the key of another certificate") {
    files.key = folder.path() / "beta.key";
    expected = "the key does not belong to the certificate";
  }
  SUBCASE("the certificate of another node") {
    files = security::files_in(folder.path(), "beta");
    expected = "the certificate is for beta, not for node alpha";
  }
  SUBCASE("another authority") {
    files.authority = folder.path() / "other/authority.crt";
    expected = "the certificate is not from the authority";
  }
  SUBCASE("an expired certificate") {
    security::make_certificates({.folder = folder.path(), .nodes = {"alpha"}, .days = -1, .overwrite = true});
    expected = "the certificate expired on 20";
  }
  SUBCASE("something else than a certificate") {
    std::ofstream(files.certificate) << "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n";
    expected = "is not a certificate; expected one in PEM format";
  }
  const auto said = refusal([&] { security::check(files, "alpha"); });
  CAPTURE(said);
  CHECK(said.find(expected) != std::string::npos);
}

TEST_CASE("a secret is made once, and for its owner only") {
  const testing::scratch folder;
  const auto path = folder.path() / "troupe.secret";
  std::vector<security::shared_secret> found(8);
  std::vector<std::thread> threads;
  for (auto& one : found) threads.emplace_back([&one, &path] { one = security::secret_in(path); });
  for (auto& thread : threads) thread.join();
  for (const auto& one : found) CHECK(one == found[0]);
  CHECK(mode_of(path) == own);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  CHECK(security::parse_secret(text_of(path), "the file") == found[0]);

  fs::permissions(path, own | fs::perms::others_read);
  CHECK(refusal([&] { security::secret_in(path); }).find("other users may read this secret") != std::string::npos);
  fs::permissions(path, own);
  std::ofstream(path) << "short\n";
  {
    const auto pipe = folder.path() / "pipe";  // without a writer
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(refusal([&] { security::secret_in(pipe); }).find("this is a pipe, not a regular file; remove it") !=
          std::string::npos);
  }
  CHECK(refusal([&] { security::secret_in(path); }).find("is not a secret; expected 64") != std::string::npos);
  CHECK(refusal([&] { security::secret_in(folder.path() / "no" / "where"); }).find("cannot create the secret") !=
        std::string::npos);
}

TEST_CASE("a launcher decides which node a process is") {
  using variables = std::map<std::string, std::string>;
  const auto name = [](const variables& given, const std::string& host, const std::vector<std::string>& hosts,
                       const std::string& ours = "") {
    const std::vector<std::string> names{"alpha", "beta", "gamma"};
    std::vector<planned_node> nodes;
    for (std::size_t i = 0; i < hosts.size(); ++i)
      nodes.push_back({.name = names.at(i), .address = {hosts[i], 4700}, .listen = {hosts[i], 4700}});
    return launched_name(nodes, {.variable = [&](const char* which) -> const char* {
                                   const auto found = given.find(which);
                                   return found == given.end() ? nullptr : found->second.c_str();
                                 },
                                 .host = host,
                                 .is_our_host = [&](const auto& where) { return where.host == ours; }});
  };
  const std::vector<std::string> here(3, "127.0.0.1");
  SUBCASE("by an index that it sets") {
    CHECK(name({{"TROUPE_NODE", "beta"}, {"SLURM_NODEID", "0"}}, "host", here) == "beta");
    CHECK(name({{"SLURM_NODEID", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}, "host", here) == "gamma");
    CHECK(name({{"OMPI_COMM_WORLD_RANK", "1"}, {"JOB_COMPLETION_INDEX", "0"}}, "host", here) == "beta");
    CHECK(name({{"JOB_COMPLETION_INDEX", "0"}}, "troupe-2", here) == "alpha");
    CHECK(refusal([&] {
            name({{"SLURM_NODEID", "3"}}, "host", here);
          }) == "--name auto: SLURM_NODEID is 3, but the file has 3 nodes; expected a number from 0 to 2");
    CHECK(refusal([&] {
            name({{"SLURM_NODEID", "-1"}}, "host", here);
          }).find("SLURM_NODEID is -1") != std::string::npos);
  }
  SUBCASE("by the name or an address of the host") {
    const std::vector<std::string> numbered{"node01", "node02", "node03"};
    CHECK(name({}, "node01", numbered) == "alpha");
    CHECK(name({}, "node03.cluster.example.org", numbered) == "gamma");
    CHECK(name({}, "Node02", {"node01.example.org", "node02.example.org"}) == "beta");
    CHECK(name({}, "troupe-1", {"troupe-0.troupe", "troupe-1.troupe"}) == "beta");
    CHECK(name({}, "troupe-1.troupe.ns.svc.cluster.local", {"troupe-1.troupe", "troupe-2.troupe"}) == "alpha");
    CHECK(name({}, "ip-10-0-0-1", {"10.0.0.7", "10.0.0.1"}, "10.0.0.1") == "beta");
    CHECK(name({}, "ip-10-0-0-1.ec2.internal", {"ip-10-0-0-2.ec2.internal", "ip-10-0-0-1.ec2.internal"}) == "beta");
    CHECK(name({}, "gamma", here) == "gamma");
    CHECK(name({}, "beta.example.org", numbered) == "beta");
  }
  SUBCASE("by the number of a pod, if nothing contradicts it") {
    CHECK(name({}, "troupe-2", here) == "gamma");
    CHECK(name({}, "troupe-0.troupe.ns.svc", here) == "alpha");
    CHECK(refusal([&] { name({}, "troupe-12", here); }).find("the host is called troupe-12") != std::string::npos);
  }
  SUBCASE("or not at all") {
    const auto refused = [&](const std::string& host, const std::vector<std::string>& hosts,
                             const std::string& ours = "") {
      const auto text = refusal([&] { name({}, host, hosts, ours); });
      CHECK(text.find("--name NAME instead of auto") != std::string::npos);
      return text.find("nothing says which node this process is") != std::string::npos;
    };
    for (const auto* host : {"host", "node01", "node1", "web-02", "ip-10-0-0-1", "3f2a1b4c5d60", "2", "-1", ""})
      CHECK_MESSAGE(refused(host, here), host);
    CHECK(refused("troupe-1", {"other-0", "other-1"}));  // the file lists hosts by name, and none of them is this host
    CHECK(refused("node01.left", {"node01.right", "node02.right"}));
    CHECK(refused("10", {"10.0.0.1", "10.0.0.2"}));
    CHECK_FALSE(refused("node01", {"node01", "node01"}));  // two nodes on this host
    CHECK_FALSE(refused("host", {"10.0.0.1", "10.0.0.1"}, "10.0.0.1"));
  }
}

}  // namespace security_test

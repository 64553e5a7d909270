#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/replay/lock_order.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/files/crc32c.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"
#include "troupe/runtime/recording/recordable.hpp"
#include "troupe/runtime/recording/writer.hpp"

#include <ATen/ops/zeros.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace recording_test {

namespace {

using namespace troupe;
using namespace troupe::recording;

const origin about{.version = "1.2", .topology = "run.seed = 1\n", .digests = {{"samples", "ab"}}};

std::vector<entry> some_entries(std::uint32_t count) {
  std::vector<entry> all;
  for (std::uint32_t i = 0; i < count; ++i)
    all.push_back({i % 3,
                   {.what = delivery::kind::part,
                    .from = i,
                    .part = i + 1,
                    .step = 1000 + i,
                    .at = i * 2,
                    .taken = ~i,
                    .given = i * 77}});
  return all;
}

std::vector<std::byte> file_of(const std::vector<std::vector<entry>>& blocks) {
  auto bytes = header_of(about);
  std::uint64_t index = 0;
  for (const auto& block : blocks) {
    const auto more = block_of(block, ++index);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

}  // namespace

TEST_CASE("a recording is read as it was written") {
  const auto all = some_entries(10);
  const auto found = parse(file_of({{all.begin(), all.begin() + 4}, {all.begin() + 4, all.end()}, {}}));
  CHECK((found.about == about));
  CHECK((found.entries == all));
  CHECK(found.complete);
  CHECK_FALSE(parse(file_of({all})).complete);
}

TEST_CASE("a recording that is cut off keeps its whole blocks") {
  const auto all = some_entries(9);
  const auto bytes = file_of({{all.begin(), all.begin() + 4}, {all.begin() + 4, all.end()}});
  const auto header = header_of(about).size();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto some = std::span{bytes}.first(size);
    if (size < header) {
      CHECK_THROWS_AS(parse(some), damaged);
      continue;
    }
    const auto found = parse(some);
    CHECK(found.entries.size() == (size < header + 16 + 4 * 40 ? 0 : 4));
  }
}

TEST_CASE("a changed byte is found") {
  const auto all = some_entries(9);
  const auto bytes = file_of({{all.begin(), all.begin() + 4}, {all.begin() + 4, all.end()}, {}});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    auto other = bytes;
    other[i] ^= std::byte{4};
    try {
      const auto found = parse(other);
      CHECK(i + 16 >= bytes.size());  // a change of the end can look like a recording that was cut off
      CHECK((found.entries == all));
      CHECK_FALSE(found.complete);
    } catch (const damaged&) {
    }
  }
}

TEST_CASE("a recording of another format is refused") {
  auto bytes = header_of(about);
  const auto text = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto at = text.find(R"("format":1)");
  REQUIRE(at != std::string::npos);
  bytes[at + 9] = std::byte{'2'};
  const auto body = std::span{bytes}.subspan(24);
  const auto checksum = crc32c(body, crc32c(std::span{bytes}.subspan(8, 12)));
  std::memcpy(bytes.data() + 20, &checksum, sizeof(checksum));
  CHECK_THROWS_WITH_AS(parse(bytes), "its format is not 1, which this version reads", damaged);
}

TEST_CASE("whatever the bytes, a recording is read or refused") {
  const auto all = some_entries(30);
  const auto bytes = file_of({{all.begin(), all.begin() + 4}, {all.begin() + 4, all.end()}, {}});
  data::random_stream random{1};
  for (std::uint64_t n = 0; n < tests::repeat(3000, 100'000); ++n) {
    auto other = bytes;
    for (auto times = 1 + random.below(4); times > 0; --times) {
      const auto at = random.below(other.size());
      if (random.below(4) == 0)
        other.resize(at + 1);
      else
        other[at] = static_cast<std::byte>(random.below(256));
    }
    try {
      const auto found = parse(other);
      CHECK(found.entries.size() <= all.size());
    } catch (const damaged&) {
    }
  }
}

TEST_CASE("the writer records what several threads give it, each in its order, and the end") {
  const troupe::testing::scratch folder;
  const auto path = folder.path() / file_name;
  {
    writer recording{path, about, [](const auto& warning) { FAIL(warning); }};
    std::vector<std::thread> threads;
    for (std::uint32_t actor = 0; actor < 3; ++actor)
      threads.emplace_back([&, actor] {
        for (std::uint64_t step = 0; step < 5000; ++step) recording.take({actor, {.step = step}});
      });
    for (auto& one : threads) one.join();
    recording.complete();
  }
  const auto found = read(path);
  CHECK(found.complete);
  CHECK(found.entries.size() == 15'000);
  std::vector<std::uint64_t> next(3);
  for (const auto& [actor, what] : found.entries) CHECK(what.step == next.at(actor)++);
}

TEST_CASE("the writer records who has locked a memory, in order") {
  const troupe::testing::scratch folder;
  const auto path = folder.path() / file_name;
  {
    writer recording{path, about, [](const auto& warning) { FAIL(warning); }};
    const auto memory = shared_memory::make(at::zeros({1}), 1, memory_writes::locked);
    recording.watch(7, memory);
    for (const std::uint32_t who : {1, 1, 0, 1}) models::held_lock{memory->lock_for(who).get()};
  }
  const auto found = read(path);
  const auto taken = [](std::uint32_t who, std::uint64_t times) {
    return entry{7, {.what = delivery::kind::acquisition, .from = who, .step = times}};
  };
  CHECK((found.entries == std::vector{taken(1, 2), taken(0, 1), taken(1, 1)}));
  CHECK_FALSE(found.complete);
}

TEST_CASE("the server of shared memory is named as one") {
  const auto taken_by = [](std::uint32_t who) {
    return describe({.what = delivery::kind::acquisition, .from = who, .step = 1});
  };
  CHECK(taken_by(2) == "the lock taken by rank 2");
  CHECK(taken_by(keeper_of_memory) == "the lock taken by the server");
}

TEST_CASE("a disk that is full costs a warning") {
  if (!std::filesystem::exists("/dev/full")) return;
  CHECK_THROWS_AS(writer("/dev/full", about, [](const auto&) {}), std::runtime_error);
}

TEST_CASE("an exchange whose workers take in parts in any order cannot be recorded") {
  const auto refusal = [](bool deterministic, std::uint32_t servers) -> std::string {
    plan made;
    made.file.file = "pairs.toml";
    static const auto kind = [] {
      exchange_kind any;
      any.name = "any_pairs";
      return any;
    }();
    made.exchanges.push_back({.name = "pairs", .kind = &kind});
    made.exchanges.back().nature = {.deterministic = deterministic, .servers = servers};
    try {
      check_recordable(made);
    } catch (const input_error& reason) {
      return reason.what();
    }
    return "accepted";
  };
  CHECK(refusal(true, 0) == "accepted");
  CHECK(refusal(false, 1) == "accepted");
  const auto text = refusal(false, 0);
  CHECK(text.find(R"("pairs", an exchange of kind any_pairs)") != std::string::npos);
  CHECK(text.find("run it without --record") != std::string::npos);
}

}  // namespace recording_test

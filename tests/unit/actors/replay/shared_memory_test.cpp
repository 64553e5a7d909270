#include "troupe/algorithms/training/shared_memory.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/wire/error.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <sys/wait.h>

#include <csignal>
#include <exception>
#include <limits>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe {

namespace {

at::Tensor counting(std::int64_t count) {
  return at::arange(count, at::kFloat);
}

/// Returns how many bytes this process has mapped under this name.
std::size_t mappings(const std::string& name) {
  std::size_t found = 0;
  std::string line;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  for (int c = std::fgetc(maps); c != EOF; c = std::fgetc(maps)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    found += line.find(name) != std::string::npos ? 1 : 0;
    line.clear();
  }
  std::fclose(maps);
  return found;
}

/// Runs `work` in another process and returns its exit status.
template <class Work>
int elsewhere(Work work) {
  const auto child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

TEST_CASE("a shared memory begins as it is told, and its copy is a tensor of one's own") {
  models::buffer_pool pool;
  const auto memory = shared_memory::make(counting(100), 96, memory_writes::plain);
  const auto before = memory->copy(pool);
  CHECK(before.equal(counting(100)));
  memory->values()[3] = 50;
  CHECK(before[3].item<float>() == 3);
  CHECK(memory->copy(pool)[3].item<float>() == 50);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->values().const_data_ptr()) % 64 == 0);
}

TEST_CASE("another process maps the same memory, and nothing of it is left behind") {
  models::buffer_pool pool;
  {
    const auto memory = shared_memory::make(counting(5000), 5000, memory_writes::atomic);
    const auto where = memory->handle();
    CHECK(mappings("memfd:troupe") > 0);
    CHECK(elsewhere([&] {
            const auto same = shared_memory::open(where, 5000, 5000, memory_writes::atomic);
            same->values()[4999].fill_(-1);
            same->count(3, 0);
            return 0;
          }) == 0);
    CHECK(memory->copy(pool)[4999].item<float>() == -1);
    CHECK(memory->updates() == 3);
    CHECK_THROWS_WITH(shared_memory::open(where, 5001, 5000, memory_writes::atomic),
                      doctest::Contains("not the shared memory of this run"));
    CHECK_THROWS_WITH(shared_memory::open(where, 5000, 5000, memory_writes::plain),
                      doctest::Contains("not the shared memory of this run"));
    CHECK_THROWS_WITH(shared_memory::open({.process = where.process, .file = 9999}, 5000, 5000, memory_writes::atomic),
                      doctest::Contains("cannot open the shared memory"));
    CHECK_THROWS_WITH(shared_memory::open({.process = where.process, .file = 0}, 5000, 5000, memory_writes::atomic),
                      doctest::Contains("expected all nodes to run on one host"));
  }
  CHECK(mappings("memfd:troupe") == 0);
}

TEST_CASE("a move that nobody disturbs arrives at its end to the bit, and one that somebody does is added") {
  models::buffer_pool pool;
  for (const auto how : {memory_writes::plain, memory_writes::atomic, memory_writes::locked}) {
    const auto memory = shared_memory::make(at::full({2}, 1e8f), 2, how);
    const auto before = at::full({2}, 1e8f), after = at::full({2}, 0.1f);  // 1e8 + (0.1 − 1e8) is 0
    memory->values()[1] = 3;
    memory->move(before, after);
    CHECK(memory->copy(pool)[0].item<float>() == 0.1f);
    CHECK(memory->copy(pool)[1].item<float>() == 3 + (0.1f - 1e8f));
  }
}

TEST_CASE("of moves by several threads at once none is lost where they are atomic or locked") {
  models::buffer_pool pool;
  constexpr int threads = 4, rounds = 2000;
  constexpr std::int64_t count = 33;
  for (const auto how : {memory_writes::atomic, memory_writes::locked}) {
    const auto memory = shared_memory::make(at::zeros({count}), count, how);
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
      all.emplace_back([&, i] {
        models::buffer_pool own;
        const auto lock = memory->lock_for(static_cast<std::uint32_t>(i));
        for (int round = 0; round < rounds; ++round) {
          const auto seen = memory->updates();
          const auto before = memory->copy(own);
          {
            const models::held_lock alone{lock.get()};
            memory->move(before, before + 1);  // whole numbers below 2^24: exact
          }
          memory->count(1, seen);
        }
      });
    for (auto& one : all) one.join();
    CHECK(memory->copy(pool).equal(at::full({count}, static_cast<float>(threads * rounds))));
    CHECK(memory->updates() == threads * rounds);
    const auto staleness = memory->staleness();
    CHECK(staleness.applied == threads * rounds);
    std::uint64_t counted = 0;
    for (const auto each : staleness.counts) counted += each;
    CHECK(counted == staleness.applied);
  }
}

TEST_CASE("staleness is what others have added between reading and writing") {
  const auto memory = shared_memory::make(at::zeros({1}), 1, memory_writes::plain);
  memory->count(1, 0);
  memory->count(1, 0);
  memory->count(4, 1);  // four steps, during which another worker made one: a quarter each
  const auto found = memory->staleness();
  CHECK(found.applied == 6);
  CHECK(found.sum == 2);
  CHECK(found.most == 1);
  CHECK(found.counts == std::vector<std::uint64_t>{5, 1});
}

TEST_CASE("steps that are added at once are as stale as all of them") {
  const auto memory = shared_memory::make(at::zeros({1}), 1, memory_writes::plain);
  memory->count_at_once(3, 0);
  memory->count_at_once(4, 0);  // another worker made three meanwhile, which count for each step
  const auto found = memory->staleness();
  CHECK(found.applied == 7);
  CHECK(found.sum == 12);
  CHECK(found.most == 3);
  CHECK(found.counts == std::vector<std::uint64_t>{3, 0, 0, 4});
}

TEST_CASE("who waits for a lock whose owner has died hears of it") {
  const auto memory = shared_memory::make(at::zeros({1}), 1, memory_writes::locked);
  elsewhere([&]() -> int {
    memory->lock_for(1)->lock();
    raise(SIGKILL);
    return 0;
  });
  for (int i = 0; i < 2; ++i) try {
      const models::held_lock alone{memory->lock_for(0).get()};
      FAIL("the lock can be had");
    } catch (const models::lock_holder_died&) {
      const auto why = error_of(std::current_exception());
      CHECK(is(why, errc::peer_lost));
      CHECK(describe(why).ends_with("died in the middle of a step"));
    }
}

}  // namespace troupe

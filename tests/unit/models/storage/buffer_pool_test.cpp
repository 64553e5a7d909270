#include "troupe/models/storage/buffer_pool.hpp"

#include "tests/support/doctest.hpp"

#include <thread>

namespace buffer_pool_test {

using troupe::models::buffer_pool;

TEST_CASE("a tensor of the pool is float32, flat and begins on a 64-byte boundary") {
  buffer_pool pool;
  for (const std::int64_t count : {0, 1, 17, 1024, 100003}) {
    const at::Tensor tensor = pool.take(count);
    CHECK(tensor.sizes() == at::IntArrayRef{count});
    CHECK((tensor.scalar_type() == at::kFloat));
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.storage().data()) % 64 == 0);
  }
}

TEST_CASE("memory returns to the pool with its last holder, and not before") {
  buffer_pool pool;
  at::Tensor held = pool.take(1000);
  const void* first = held.data_ptr();
  at::Tensor view = held.narrow(0, 10, 5);
  held.reset();
  CHECK(pool.take(1000).data_ptr() != first);
  CHECK(pool.allocated() == 2);
  view.reset();
  const at::Tensor again = pool.take(1000);
  const at::Tensor other = pool.take(1000);
  CHECK((again.data_ptr() == first || other.data_ptr() == first));
  CHECK(pool.allocated() == 2);
}

TEST_CASE("zeros are zero, also in used memory") {
  buffer_pool pool;
  pool.take(100).fill_(7);
  const at::Tensor zeros = pool.take_zeros(100);
  CHECK(pool.allocated() == 1);
  CHECK(zeros.abs().max().item<float>() == 0);
}

TEST_CASE("a tensor outlives its pool") {
  at::Tensor tensor;
  {
    buffer_pool pool;
    tensor = pool.take(8);
  }
  tensor.fill_(3);
  CHECK(tensor.sum().item<float>() == 24);
}

TEST_CASE("a pool serves threads that give back each other's tensors") {
  buffer_pool pool;
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&pool, index] {
      for (int round = 0; round < 200; ++round) {
        at::Tensor tensor = pool.take(64 * (1 + round % 3));
        tensor.fill_(index);
        std::thread{[taken = std::move(tensor)]() mutable { taken.reset(); }}.join();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // All of these counts fill one page, and no more than four were ever held at once.
  CHECK(pool.allocated() <= 4);
}

}  // namespace buffer_pool_test

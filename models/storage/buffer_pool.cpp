#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/ops/from_blob.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace troupe::models {

namespace {

// Whole pages: one tensor never shares a page with another, so that a test can protect a frozen one against writes.
constexpr std::size_t page_bytes = 4096;

// Maximum length of the free list of a size, so that a burst of demand does not keep too much memory.
constexpr std::size_t kept_per_size = 32;

struct memory_block {
  void* memory;
  std::size_t bytes;
};

}  // namespace

struct buffer_pool::shelf {
  ~shelf() {
    for (auto& [bytes, list] : free) {
      for (void* memory : list) std::free(memory);
    }
  }

  memory_block take(std::size_t bytes) {
    {
      const std::lock_guard lock{mutex};
      if (auto entry = free.find(bytes); entry != free.end() && !entry->second.empty()) {
        void* memory = entry->second.back();
        entry->second.pop_back();
        return {memory, bytes};
      }
      ++allocated;
    }
    void* memory = std::aligned_alloc(page_bytes, bytes);
    if (memory == nullptr) throw std::bad_alloc{};
    return {memory, bytes};
  }

  void put_back(memory_block returned) {
    {
      const std::lock_guard lock{mutex};
      auto& list = free[returned.bytes];
      if (list.size() < kept_per_size) {
        list.push_back(returned.memory);
        return;
      }
    }
    std::free(returned.memory);
  }

  std::mutex mutex;
  std::map<std::size_t, std::vector<void*>> free;
  std::size_t allocated{0};
};

buffer_pool::buffer_pool() : shelf_{std::make_shared<shelf>()} {}

at::Tensor buffer_pool::take(std::int64_t count) {
  assert(count >= 0);
  const std::size_t needed = static_cast<std::size_t>(count) * sizeof(float);
  const std::size_t pages = needed == 0 ? 1 : (needed + page_bytes - 1) / page_bytes;
  const memory_block taken = shelf_->take(pages * page_bytes);
  // The deleter keeps the shelf alive: a tensor may outlive the pool.
  return at::from_blob(
      taken.memory, {count}, [home = shelf_, taken](void*) { home->put_back(taken); }, at::kFloat);
}

at::Tensor buffer_pool::take_zeros(std::int64_t count) {
  at::Tensor zeros = take(count);
  std::memset(zeros.mutable_data_ptr(), 0, static_cast<std::size_t>(count) * sizeof(float));
  return zeros;
}

std::size_t buffer_pool::allocated() const {
  const std::lock_guard lock{shelf_->mutex};
  return shelf_->allocated;
}

}  // namespace troupe::models

#include "troupe/algorithms/training/shared_memory.hpp"

#include "troupe/algorithms/device/device.hpp"
#include "troupe/algorithms/rules/staleness.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/algorithms/support/cores.hpp"

#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

constexpr std::array<char, 8> magic{'t', 'r', 'o', 'u', 'p', 'e', ' ', '1'};
constexpr std::size_t page = 4096;

/// Header of the memory, on a page of its own before x.
struct ledger {
  std::array<char, 8> magic;
  memory_writes how;
  std::int64_t total, parameters;
  pthread_mutex_t lock;
  std::atomic<bool> notes;              ///< Whether acquisitions of the lock are noted.
  std::atomic<std::uint64_t> acquired;  ///< Number of acquisitions noted.
  std::atomic<std::uint64_t> taken;     ///< Number of those notes that the owner has taken.
  alignas(64) std::atomic<std::uint64_t> updates;
  alignas(64) std::atomic<std::uint64_t> applied;
  std::atomic<std::uint64_t> sum, most;
  std::array<std::atomic<std::uint64_t>, rules::staleness_entries> counts;
};
static_assert(sizeof(ledger) <= page && std::atomic<std::uint64_t>::is_always_lock_free);

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string{"cannot set up shared memory: "} + what);
}

/// A descriptor that the destructor closes.
struct open_file {
  int descriptor{-1};
  ~open_file() {
    if (descriptor >= 0) close(descriptor);
  }
};

/// Number of notes about acquisitions of the lock for which there is room after x.
constexpr std::uint64_t room_for_notes = 65'536;

std::size_t bytes_of(std::int64_t total) {
  return page + static_cast<std::size_t>(total) * sizeof(float) + room_for_notes * sizeof(std::uint32_t);
}

void make_lock(pthread_mutex_t& lock) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// Moves one coordinate: to `after` if it still equals `before` to the bit, otherwise by after − before. Returns its
/// new value.
template <memory_writes how>
float move_one(float& coordinate, float before, float after) {
  std::atomic_ref<float> x{coordinate};
  auto current = x.load(std::memory_order_relaxed);
  if (same(before, after)) return current;  // no write, so that it stays with the core that has it
  const auto next = [&] { return same(current, before) ? after : current + (after - before); };
  auto moved = next();
  if constexpr (how == memory_writes::atomic) {
    while (!x.compare_exchange_weak(current, moved, std::memory_order_relaxed)) moved = next();
  } else {
    x.store(moved, std::memory_order_relaxed);
  }
  return moved;
}

template <memory_writes how>
void merge_all(float* x, at::Tensor& taken, at::Tensor& own) {
  auto* from = taken.mutable_data_ptr<float>();
  auto* to = own.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < own.numel(); ++i) from[i] = to[i] = move_one<how>(x[i], from[i], to[i]);
}

template <memory_writes how>
void move_all(float* x, const at::Tensor& before, const at::Tensor& after) {
  const auto* from = before.const_data_ptr<float>();
  const auto* to = after.const_data_ptr<float>();
  for (std::int64_t i = 0; i < after.numel(); ++i) move_one<how>(x[i], from[i], to[i]);
}

}  // namespace

struct shared_memory::block {
  open_file file;
  std::shared_ptr<void> mapped;  ///< Also kept alive by the storage of `values`.
  memory_writes how{};
  at::Tensor values;     ///< [P + B], in the mapped memory.
  std::mutex mutex;      ///< Guards on_device.
  at::Tensor on_device;  ///< x after bring_to(); undefined before.

  void map(std::int64_t total) {
    const auto bytes = bytes_of(total);
    void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
    if (begin == MAP_FAILED) fail("mmap");
    mapped = {begin, [bytes](void* memory) { munmap(memory, bytes); }};
    values = at::from_blob(
        x(), {total}, [keep = mapped](void*) {}, at::kFloat);
  }

  ledger& statistics() const { return *static_cast<ledger*>(mapped.get()); }
  float* x() const { return reinterpret_cast<float*>(static_cast<char*>(mapped.get()) + page); }
  std::uint32_t* notes() const { return reinterpret_cast<std::uint32_t*>(x() + values.numel()); }
};

namespace {

/// The lock of a memory. After note_acquisitions(), it notes the number of the holder at each acquisition.
class noting_lock final : public models::process_lock {
 public:
  noting_lock(ledger& statistics, std::uint32_t* notes, std::uint32_t who)
      : models::process_lock(statistics.lock), statistics_(statistics), notes_(notes), who_(who) {}

  void lock() override {
    models::process_lock::lock();
    if (!statistics_.notes.load(std::memory_order_relaxed)) return;
    const auto index = statistics_.acquired.load(std::memory_order_relaxed);
    while (index - statistics_.taken.load(std::memory_order_acquire) >= room_for_notes)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    notes_[index % room_for_notes] = who_;
    statistics_.acquired.store(index + 1, std::memory_order_release);
  }

 private:
  ledger& statistics_;
  std::uint32_t* notes_;
  std::uint32_t who_;
};

}  // namespace

shared_memory::shared_memory() : block_(std::make_unique<block>()) {}

shared_memory::~shared_memory() = default;

std::shared_ptr<shared_memory> shared_memory::make(const at::Tensor& initial, std::int64_t parameters,
                                                   memory_writes how, const std::vector<int>& cores) {
  const std::shared_ptr<shared_memory> memory{new shared_memory};
  auto& block = *memory->block_;
  const auto total = initial.numel();
  block.how = how;
  block.file.descriptor = memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (block.file.descriptor < 0) fail("memfd_create");
  if (ftruncate(block.file.descriptor, static_cast<off_t>(bytes_of(total))) != 0) fail("ftruncate");
  if (fcntl(block.file.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) fail("fcntl");
  block.map(total);
  // A page is placed near the core that first writes it.
  std::thread{[&] {
    keep_to(cores);
    new (block.mapped.get()) ledger{.magic = magic,
                                    .how = how,
                                    .total = total,
                                    .parameters = parameters,
                                    .lock = {},
                                    .notes = false,
                                    .acquired = 0,
                                    .taken = 0,
                                    .updates = 0,
                                    .applied = 0,
                                    .sum = 0,
                                    .most = 0,
                                    .counts = {}};
    make_lock(block.statistics().lock);
    std::memcpy(block.x(), initial.const_data_ptr<float>(), static_cast<std::size_t>(total) * sizeof(float));
  }}.join();
  return memory;
}

std::shared_ptr<shared_memory> shared_memory::open(const memory_handle& where, std::int64_t total,
                                                   std::int64_t parameters, memory_writes how) {
  const auto path = "/proc/" + std::to_string(where.process) + "/fd/" + std::to_string(where.file);
  const std::shared_ptr<shared_memory> memory{new shared_memory};
  auto& block = *memory->block_;
  block.how = how;
  block.file.descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (block.file.descriptor < 0)
    throw std::runtime_error("cannot open the shared memory of the first node (" + path + ": " + std::strerror(errno) +
                             "); expected all nodes to run on one host and under one user");
  struct stat status {};
  // The file must be sealed, so that no process can shrink it while it is mapped.
  const auto seals = fcntl(block.file.descriptor, F_GET_SEALS);
  const auto can_map = fstat(block.file.descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                       static_cast<std::size_t>(status.st_size) == bytes_of(total) && seals >= 0 &&
                       (seals & F_SEAL_SHRINK) != 0;
  if (can_map) block.map(total);
  const auto fits = can_map && block.statistics().magic == magic && block.statistics().how == how &&
                    block.statistics().total == total && block.statistics().parameters == parameters;
  if (!fits)
    throw std::runtime_error(path + ": not the shared memory of this run; expected all nodes to run on one host");
  return memory;
}

memory_handle shared_memory::handle() const {
  return {.process = getpid(), .file = block_->file.descriptor};
}

memory_writes shared_memory::how() const {
  return block_->how;
}

at::Tensor shared_memory::values() const {
  const std::lock_guard guard{block_->mutex};
  return block_->on_device.defined() ? block_->on_device : block_->values;
}

at::Tensor shared_memory::copy(models::buffer_pool& pool) const {
  const auto x = values();
  auto copied = pool.take(x.numel());
  if (!x.is_same(block_->values)) return copied.copy_(x);
  auto* to = copied.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < copied.numel(); ++i)
    to[i] = std::atomic_ref<float>{block_->x()[i]}.load(std::memory_order_relaxed);
  return copied;
}

void shared_memory::move(const at::Tensor& before, const at::Tensor& after, std::int64_t first) {
  const auto x = values();
  const auto count = after.numel();
  if (!x.is_same(block_->values)) {
    x.narrow(0, first, count).add_(after.sub(before));
    return;
  }
  if (block_->how == memory_writes::atomic)
    move_all<memory_writes::atomic>(block_->x() + first, before, after);
  else
    move_all<memory_writes::plain>(block_->x() + first, before, after);
}

void shared_memory::merge(at::Tensor& taken, at::Tensor& own) {
  if (block_->how == memory_writes::atomic)
    merge_all<memory_writes::atomic>(block_->x(), taken, own);
  else
    merge_all<memory_writes::plain>(block_->x(), taken, own);
}

std::shared_ptr<models::exclusive_lock> shared_memory::lock_for(std::uint32_t who) {
  if (block_->how != memory_writes::locked) return nullptr;
  return std::make_shared<noting_lock>(block_->statistics(), block_->notes(), who);
}

void shared_memory::note_acquisitions() {
  block_->statistics().notes = true;
}

std::vector<std::uint32_t> shared_memory::take_acquisitions() {
  auto& statistics = block_->statistics();
  std::vector<std::uint32_t> taken;
  auto index = statistics.taken.load(std::memory_order_relaxed);
  for (const auto end = statistics.acquired.load(std::memory_order_acquire); index < end; ++index)
    taken.push_back(block_->notes()[index % room_for_notes]);
  statistics.taken.store(index, std::memory_order_release);
  return taken;
}

std::uint64_t shared_memory::updates() const {
  return block_->statistics().updates.load(std::memory_order_relaxed);
}

void shared_memory::count(std::uint64_t steps, std::uint64_t seen) {
  if (steps == 0) return;
  const auto of_others = block_->statistics().updates.fetch_add(steps, std::memory_order_relaxed) - seen;
  tally(steps, (of_others + steps / 2) / steps, of_others);
}

void shared_memory::count_at_once(std::uint64_t steps, std::uint64_t seen) {
  if (steps == 0) return;
  const auto of_others = block_->statistics().updates.fetch_add(steps, std::memory_order_relaxed) - seen;
  tally(steps, of_others, steps * of_others);
}

/// Adds `steps` steps to the statistics, with a staleness of about `of_each` each and `of_all` in total.
void shared_memory::tally(std::uint64_t steps, std::uint64_t of_each, std::uint64_t of_all) {
  auto& statistics = block_->statistics();
  const auto entry = std::min<std::size_t>(of_each, rules::staleness_entries - 1);
  statistics.counts[entry].fetch_add(steps, std::memory_order_relaxed);
  statistics.applied.fetch_add(steps, std::memory_order_relaxed);
  statistics.sum.fetch_add(of_all, std::memory_order_relaxed);
  auto most = statistics.most.load(std::memory_order_relaxed);
  while (most < of_each && !statistics.most.compare_exchange_weak(most, of_each, std::memory_order_relaxed)) {
  }
}

staleness_tally shared_memory::staleness() const {
  const auto& statistics = block_->statistics();
  staleness_tally tally;
  for (const auto& count : statistics.counts) tally.counts.push_back(count.load(std::memory_order_relaxed));
  while (!tally.counts.empty() && tally.counts.back() == 0) tally.counts.pop_back();
  tally.applied = statistics.applied.load(std::memory_order_relaxed);
  tally.sum = statistics.sum.load(std::memory_order_relaxed);
  tally.most = statistics.most.load(std::memory_order_relaxed);
  return tally;
}

void shared_memory::restore(const at::Tensor& values, std::uint64_t updates, const staleness_tally& staleness) {
  auto& statistics = block_->statistics();
  if (!values.defined() || values.numel() != block_->values.numel() ||
      staleness.counts.size() > statistics.counts.size())
    throw state_error("the contents of the shared memory do not fit it");
  block_->values.copy_(values);
  statistics.updates = updates;
  statistics.applied = staleness.applied;
  statistics.sum = staleness.sum;
  statistics.most = staleness.most;
  for (std::size_t i = 0; i < statistics.counts.size(); ++i)
    statistics.counts[i] = i < staleness.counts.size() ? staleness.counts[i] : 0;
}

void shared_memory::bring_to(device::accelerator& where) {
  TROUPE_ASSERT(block_->how == memory_writes::plain, "x on a device requires plain writes");
  const std::lock_guard guard{block_->mutex};
  if (block_->on_device.defined()) return;
  auto on_device = where.take(block_->values.numel());
  where.upload(block_->values, on_device);
  where.synchronise();
  block_->on_device = std::move(on_device);
}

}  // namespace troupe

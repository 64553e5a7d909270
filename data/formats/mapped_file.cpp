#include "troupe/data/formats/mapped_file.hpp"

#include "troupe/data/formats/data_error.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace troupe::data {

namespace {

// A mapping as the signal handler reads it: the handler may neither lock nor allocate.
struct mapping {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0}, end{0};  // 0: none, or none yet
  std::atomic<bool> lost{false};                 // some of its bytes were no longer in the file
  std::atomic<const mapped_file*> file{nullptr};
};
std::array<mapping, 256> mappings;

struct sigaction former {};
std::uintptr_t page_bytes = 4096;

// Replaces the bytes of a mapping by zeros, from the page of `address` to the end. Returns whether the address was in a
// mapping and this succeeded.
bool replace(std::uintptr_t address) {
  for (auto& entry : mappings) {
    const auto begin = entry.begin.load(), end = entry.end.load();
    if (address < begin || address >= end) continue;
    const auto page = address - address % page_bytes;
    entry.lost = true;
    return mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
  }
  return false;
}

extern "C" void troupe_bus_error(int signal, siginfo_t* about, void* context) {
  const int before = errno;
  const bool replaced = replace(reinterpret_cast<std::uintptr_t>(about->si_addr));
  errno = before;
  if (replaced) return;
  if ((former.sa_flags & SA_SIGINFO) != 0 && former.sa_sigaction != nullptr)
    return former.sa_sigaction(signal, about, context);
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) return former.sa_handler(signal);
  std::signal(SIGBUS, SIG_DFL);  // repeating the access then ends the process
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction ours {};
    ours.sa_sigaction = troupe_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, nullptr, &former);
    sigaction(SIGBUS, &ours, nullptr);
  });
}

std::size_t take_slot(const std::filesystem::path& path) {
  for (std::size_t slot = 0; slot < mappings.size(); ++slot)
    if (!mappings[slot].taken.exchange(true)) return slot;
  throw files::unreadable(path, "too many files are mapped into memory", "set data.mapped = false");
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

mapped_file::mapped_file(const std::filesystem::path& path) : file_{path}, bytes_{file_.bytes()} {
  if (bytes_ == 0) throw files::unreadable(path, "the file is empty", "name a file with contents");
  handle_bus_errors();
  slot_ = take_slot(path);
  void* begin = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (begin == MAP_FAILED) {
    mappings[slot_].taken = false;
    throw files::unreadable(path, std::string("cannot map the file: ") + std::strerror(errno),
                            "set data.mapped = false");
  }
  begin_ = static_cast<const char*>(begin);
  auto& own = mappings[slot_];
  own.lost = false;
  own.file = this;
  own.end = reinterpret_cast<std::uintptr_t>(begin_) + bytes_;
  own.begin = reinterpret_cast<std::uintptr_t>(begin_);
}

mapped_file::~mapped_file() {
  auto& own = mappings[slot_];
  own.end = 0;
  own.begin = 0;
  munmap(const_cast<char*>(begin_), bytes_);
  own.taken = false;
}

const mapped_file* mapped_file::of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (const auto& entry : mappings)
    if (wanted >= entry.begin && wanted < entry.end) return entry.file;
  return nullptr;
}

void mapped_file::let_go() const {
  madvise(const_cast<char*>(begin_), bytes_, MADV_DONTNEED);
}

void mapped_file::require_unchanged() const {
  struct stat current {};
  const auto& before = file_.about();
  if (mappings[slot_].lost || fstat(file_.descriptor(), &current) != 0 || current.st_size != before.st_size ||
      !same_time(current.st_mtim, before.st_mtim))
    fail_as_changed();
}

void mapped_file::fail_as_changed() const {
  throw data_error(
      file_.path().string() +
      ": the file was changed while it was in use; restart the run, and let no other program write to this "
      "file");
}

}  // namespace troupe::data

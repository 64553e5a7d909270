#include "troupe/runtime/recording/writer.hpp"

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe::recording {

namespace {

/// A crash costs at most what was recorded since the last block.
constexpr std::chrono::milliseconds between_blocks{200};

/// Short enough that a memory always has room for the acquisitions that it notes.
constexpr std::chrono::milliseconds between_looks{5};

/// Number of deliveries after which a block is written immediately.
constexpr std::size_t many = 4096;

std::string reason() {
  return std::generic_category().message(errno);
}

}  // namespace

writer::writer(const std::filesystem::path& path, const origin& about, std::function<void(const std::string&)> warn)
    : path_(path), warn_(std::move(warn)), file_(path, std::ios::binary | std::ios::trunc) {
  const auto header = header_of(about);
  file_.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
  if (!file_.flush()) throw std::runtime_error(path.string() + ": cannot be written: " + reason());
  written_ = header.size();
  thread_ = std::thread{[this] { work(); }};
}

writer::~writer() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void writer::complete() {
  const std::lock_guard lock{mutex_};
  complete_ = true;
}

void writer::take(const entry& one) {
  const std::lock_guard lock{mutex_};
  if (stopped_) return;
  waiting_.push_back(one);
  if (waiting_.size() == many) changed_.notify_all();
}

void writer::watch(std::uint32_t id, std::shared_ptr<shared_memory> memory) {
  const std::lock_guard lock{mutex_};
  memory->note_acquisitions();
  memories_.emplace(id, std::move(memory));
}

void writer::take_acquisitions() {
  for (const auto& [id, memory] : memories_)
    for (const auto holder : memory->take_acquisitions()) {
      const auto again = !waiting_.empty() && waiting_.back().actor == id &&
                         waiting_.back().what.what == delivery::kind::acquisition &&
                         waiting_.back().what.from == holder;
      if (!again) waiting_.push_back({id, {.what = delivery::kind::acquisition, .from = holder}});
      waiting_.back().what.step += 1;
    }
}

void writer::work() {
  auto written = std::chrono::steady_clock::now();
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait_for(lock, memories_.empty() ? between_blocks : between_looks,
                      [this] { return over_ || waiting_.size() >= many; });
    const auto last = over_;
    take_acquisitions();
    const auto now = std::chrono::steady_clock::now();
    if (!last && waiting_.size() < many && now - written < between_blocks) continue;
    written = now;
    const auto taken = std::exchange(waiting_, {});
    lock.unlock();
    if (!taken.empty()) write(block_of(taken, ++blocks_));
    if (last && complete_) write(block_of({}, ++blocks_));
    if (last) return;
    lock.lock();
  }
}

void writer::write(const std::vector<std::byte>& bytes) {
  if (!file_) return;  // warned already
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (file_.flush()) {
    written_ += bytes.size();
    return;
  }
  // Entries after a gap would be useless, so none are written. Without its last block, the recording counts as
  // unfinished.
  const auto why = reason();
  std::error_code ignored;
  std::filesystem::resize_file(path_, written_, ignored);
  {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    waiting_.clear();
  }
  warn_("warning: cannot write " + path_.string() + ": " + why +
        "; the run continues, but its recording ends here: `troupe replay` repeats it up to this point");
}

delivery_log log_of(std::shared_ptr<writer> recording, std::uint32_t actor) {
  return [recording = std::move(recording), actor](const delivery& what) { recording->take({actor, what}); };
}

}  // namespace troupe::recording

// Writes a recording during the run, on a thread of its own, so that actors never wait for the disk.
#pragma once

#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::recording {

/// Collects the deliveries of all actors. take() and complete() may be called from any thread.
class writer {
 public:
  /// Creates the file with its header. Throws std::runtime_error with the path. `warn` is called once if something
  /// cannot be written later; the run then continues without a recording.
  writer(const std::filesystem::path& path, const origin& about, std::function<void(const std::string&)> warn);

  /// Writes what is left.
  ~writer();
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  void take(const entry& one);

  /// Also records, from now on, which worker or server takes the lock of a shared memory. `id` is that of the server of
  /// the memory.
  void watch(std::uint32_t id, std::shared_ptr<shared_memory> memory);

  /// Notes that the run is complete, so that nothing is missing.
  void complete();

 private:
  void take_acquisitions();
  void work();
  void write(const std::vector<std::byte>& bytes);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  std::ofstream file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<entry> waiting_;  ///< Entries that are not written yet.
  std::map<std::uint32_t, std::shared_ptr<shared_memory>> memories_;
  std::uint64_t blocks_{0};
  std::uint64_t written_{0};  ///< Bytes of whole blocks in the file.
  bool over_{false}, complete_{false};
  bool stopped_{false};  ///< Nothing more is recorded.
  std::thread thread_;
};

/// Returns a log that passes the deliveries of an actor to `recording`.
delivery_log log_of(std::shared_ptr<writer> recording, std::uint32_t actor);

}  // namespace troupe::recording

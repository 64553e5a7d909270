// The file trace.json of a run, in the Chrome trace event format, which Perfetto reads: a JSON array with one event per
// line. It is written during the run, so that it needs little memory. What was written before a crash can be read,
// because the format allows the end of the array to be missing.
#pragma once

#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/support/appended_file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe::telemetry {

struct trace_file_options {
  std::filesystem::path path{};    ///< May be set later, by write_to().
  std::string process{};           ///< Name of the process that is traced.
  std::uint32_t node{0};           ///< Index of its node. Numbers of processes and threads differ between nodes.
  trace_time origin{0};            ///< The point in time that the file calls 0.
  std::uint64_t limit{1'000'000};  ///< Maximum number of spans; later ones are only counted.
  /// Called once if the file cannot be written for a while, and once if it is incomplete in the end.
  std::function<void(const std::string&)> warn = [](const auto&) {};
};

/// Creates its folder and opens its file at the first track or span. A file that cannot be written causes a warning and
/// never ends the run: spans wait in memory, and the latest are left out if they become too many. Any thread may use
/// it.
class trace_file final : public trace_sink {
 public:
  explicit trace_file(trace_file_options options) : options_(std::move(options)) {}

  /// Completes the file; see close().
  ~trace_file() override;

  /// Sets the path. Must be called before the first track or span.
  void write_to(const std::filesystem::path& path) { options_.path = path; }

  std::uint32_t track(const std::string& name) override;
  void add(const trace_span& span) override;

  /// Completes the file. Nothing is written to it afterwards.
  void close();

 private:
  bool begin_event();
  bool flush();
  std::uint64_t thread_of(std::uint32_t track) const;

  trace_file_options options_;
  std::mutex mutex_;
  std::unique_ptr<appended_file> out_;
  std::string pending_;  ///< Text that was not passed to the file yet.
  std::map<std::string, std::uint32_t> tracks_;
  std::uint64_t spans_{0}, dropped_{0};
  trace_time first_dropped_{0};
  bool open_{false}, closed_{false}, warned_{false};
};

}  // namespace troupe::telemetry

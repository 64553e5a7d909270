// troupe data fetch NAME: downloads a data set.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/folder_lock.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/fetch/fetch.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace troupe::apps {

namespace {

struct data_options {
  std::string name;
  std::filesystem::path dir;
  bool json{false};
};

/// Shows the progress of each file: on a terminal a line that is updated, otherwise one line per completed file.
class download_display {
 public:
  explicit download_display(bool quiet) : quiet_(quiet) {}

  void operator()(const fetch::remote_file& file, std::uint64_t bytes) {
    const bool whole = bytes == file.bytes;
    const auto now = std::chrono::steady_clock::now();
    if (quiet_ || (!whole && (!terminal_ || now - shown_ < std::chrono::milliseconds(100)))) return;
    shown_ = now;
    unfinished_ = terminal_ && !whole;
    std::printf("%s%-28s %3d%%  %s of %s%s", terminal_ ? "\r\x1b[K" : "", file.name.c_str(),
                static_cast<int>(100 * bytes / file.bytes), human_bytes(bytes).c_str(), human_bytes(file.bytes).c_str(),
                whole ? "\n" : "");
    std::fflush(stdout);
  }

  /// Ends an incomplete line, so that the output after it starts on a new line.
  ~download_display() {
    if (unfinished_) std::printf("\n");
  }

 private:
  bool quiet_, unfinished_{false};
  bool terminal_{is_terminal(STDOUT_FILENO)};
  std::chrono::steady_clock::time_point shown_;
};

/// Prints the result. `folder` is empty if there is nothing to download.
void report(const data_options& given, const std::filesystem::path& folder, std::size_t fetched,
            const std::string& text) {
  if (!given.json) {
    std::printf("%s %s\n", given.name.c_str(), text.c_str());
    return;
  }
  using json = files::json;
  const json object{{"name", given.name},
                    {"folder", folder.empty() ? json(nullptr) : json(folder.string())},
                    {"files_fetched", fetched}};
  std::printf("%s\n", files::json_text(object).c_str());
}

void fetch_data(const data_options& given) {
  const auto* kind = data::find_dataset(given.name);
  const auto* from = fetch::find_source(given.name);
  if (kind == nullptr || (from == nullptr && kind->reads.empty() && !kind->folder.empty())) {
    std::vector<std::string> names;
    for (const auto& source : fetch::sources()) names.push_back(source.name);
    throw input_error("data fetch: unknown data set \"" + given.name + "\"; expected " + text::listed(names) +
                      topology::did_you_mean(given.name, names));
  }
  const auto& reads = kind->reads;
  if (from == nullptr) {
    const auto own = std::find(reads.begin(), reads.end(), "file") != reads.end();
    report(given, {}, 0,
           std::string(own ? "is read from your own files, given by data.file" : "is built in") +
               "; there is nothing to download");
    return;
  }
  const auto folder = data::data_folder(given.dir) / kind->folder;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // fetch() reports a folder that cannot be made
  held_folder held;
  if (!failed) held.lock_when_free(folder, print_note);
  download_display display(given.json);
  const auto fetched = fetch::fetch(*from, folder, std::ref(display));
  report(given, folder, fetched, (fetched > 0 ? "is now in " : "is already in ") + folder.string());
}

}  // namespace

void add_data(CLI::App& app, int& status) {
  auto* data = app.add_subcommand("data", "Download data sets");
  data->require_subcommand(1);
  auto* command =
      data->add_subcommand("fetch", "Download a data set from its publisher and verify its SHA-256 checksum");
  auto given = std::make_shared<data_options>();
  command->add_option("NAME", given->name, "Data set to download: mnist, fashion_mnist or cifar10")->required();
  command->add_option("--dir", given->dir, "Data folder (default: $TROUPE_DATA, or data-cache if that is not set)");
  command->add_flag("--json", given->json, "Print one JSON object");
  command->callback([given, &status] {
    fetch_data(*given);
    status = 0;
  });
}

}  // namespace troupe::apps

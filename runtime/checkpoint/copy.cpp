#include "troupe/runtime/checkpoint/copy.hpp"

#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/support/write_aside.hpp"

#include <array>
#include <string>

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::array outputs{"topology.toml", "metrics.jsonl", "epochs.csv"};
constexpr std::array option_names{"csv", "epoch-log"};
constexpr auto* manifest_name = "manifest.json";

void write_outputs(const fs::path& out, const state_dict& files, const manifest& about, durable_files& disk) {
  for (const auto* name : outputs) write_aside(out / name, files.text(std::string("output/") + name));
  for (const std::string option : option_names) {
    const auto saved = about.options.find(option);
    if (saved == about.options.end()) continue;
    fs::create_directories(out / option);
    write_aside(option_file_in_copy(out, option, saved->second), files.text("option/" + option));
    disk.sync(out / option);
  }
}

void verify(const state_dict& files, const manifest& about) {
  for (const auto& [name, sealed] : about.files) {
    const auto content = files.text("checkpoint/" + name);
    if (content.size() != sealed.bytes || sha256_of(content) != sealed.sha256)
      throw damaged(name + " has changed on the way to this node");
  }
}

void write_files(const fs::path& folder, const state_dict& files, const manifest& about, durable_files& disk) {
  for (const auto& [name, sealed] : about.files) disk.write(folder / name, {files.text("checkpoint/" + name)});
  disk.write(folder / manifest_name, {files.text(std::string("checkpoint/") + manifest_name)});
  disk.sync(folder);
}

}  // namespace

fs::path option_file_in_copy(const fs::path& out, const std::string& option, const saved_option& saved) {
  const auto name = fs::path(saved.path).filename().string();
  return out / option / (plain_name(name) ? name : "file");
}

state_dict pack_copy(const fs::path& out, std::uint64_t step, const manifest& about) {
  const auto folder = folder_of(out) / name_of(step);
  const auto manifest_text = read_text(folder / manifest_name);
  state_dict files;
  files.put_text(std::string("checkpoint/") + manifest_name, manifest_text);
  for (const auto& [name, sealed] : parse_manifest(manifest_text).files)
    files.put_text("checkpoint/" + name, read_text(folder / name));
  for (const auto* name : outputs) files.put_text(std::string("output/") + name, read_text(out / name));
  for (const auto& [option, file] : about.options) files.put_text("option/" + option, read_text(file.path));
  return files;
}

void write_copy(const fs::path& out, const state_dict& files, std::size_t keep, durable_files& disk) {
  const auto about = parse_manifest(files.text(std::string("checkpoint/") + manifest_name));
  verify(files, about);
  write_outputs(out, files, about, disk);  // first, because a checkpoint cannot be resumed without them
  add_checkpoint(out, about.step, keep, disk, [&](const auto& folder) { write_files(folder, files, about, disk); });
}

}  // namespace troupe::checkpoint

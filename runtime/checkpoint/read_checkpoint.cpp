#include "troupe/runtime/checkpoint/read_checkpoint.hpp"

#include "troupe/data/formats/safetensors.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/topology/canonical.hpp"

#include <exception>
#include <system_error>
#include <utility>

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t longest_manifest = 1u << 28u;

/// Returns the size of a regular file. Links are refused, because they can lead out of the folder.
std::uint64_t size_of(const fs::path& path) {
  const auto name = path.filename().string();
  std::error_code failed;
  const auto status = fs::symlink_status(path, failed);
  if (status.type() == fs::file_type::not_found) throw damaged(name + " is missing");
  if (status.type() != fs::file_type::regular) throw damaged(name + " is not a regular file");
  const auto bytes = fs::file_size(path, failed);
  if (failed) throw damaged("cannot read " + name + ": " + failed.message());
  return bytes;
}

std::string text_of_manifest(const fs::path& folder) {
  std::error_code failed;
  if (fs::symlink_status(folder, failed).type() != fs::file_type::directory) throw damaged("it is not a folder");
  const auto path = folder / "manifest.json";
  if (size_of(path) > longest_manifest) throw damaged("manifest.json is too long");
  return files::read_all(path, longest_manifest);
}

void verify(const fs::path& folder, const manifest& about) {
  for (const auto& [name, file] : about.files) {
    const auto bytes = size_of(folder / name);
    if (bytes != file.bytes)
      throw damaged(name + " has " + std::to_string(bytes) + " bytes instead of " + std::to_string(file.bytes));
    const auto digest = sha256_of_file(folder / name, file.bytes);
    if (!digest) throw damaged("cannot read " + name);
    if (*digest != file.sha256) throw damaged(name + " has changed: its SHA-256 is not that in manifest.json");
  }
}

/// The tensors of the files that were read, by file and name. Each file is read once.
class tensor_files {
 public:
  explicit tensor_files(fs::path folder) : folder_(std::move(folder)) {}

  const std::map<std::string, at::Tensor>& of(const std::string& file) {
    const auto known = files_.find(file);
    if (known != files_.end()) return known->second;
    auto content = data::read_safetensors(folder_ / file);
    return files_[file] = {content.tensors.begin(), content.tensors.end()};
  }

 private:
  fs::path folder_;
  std::map<std::string, std::map<std::string, at::Tensor>> files_;
};

state_dict state_of(const saved_actor& actor, tensor_files& files) {
  state_dict state;
  for (const auto& [name, values] : files.of(actor.file)) state.put(name, values);
  for (const auto& entry : actor.repeated) {
    const auto& stored = files.of(entry.file);
    const auto tensor = stored.find(entry.name_in_file);
    if (tensor == stored.end()) throw damaged(entry.file + " has no tensor " + text::printable(entry.name_in_file));
    if (state.has(entry.name)) throw damaged(actor.file + " has two tensors " + text::printable(entry.name));
    state.put(entry.name, tensor->second);
  }
  return state;
}

}  // namespace

manifest read_manifest(const fs::path& folder) {
  auto about = parse_manifest(text_of_manifest(folder));
  if (folder.filename() != name_of(about.step))
    throw damaged("it is of step " + std::to_string(about.step) + ", which does not match its name");
  return about;
}

loaded_checkpoint read_checkpoint(const fs::path& folder) {
  auto about = read_manifest(folder);
  verify(folder, about);
  auto state = std::make_shared<run_state>();
  state->step = about.step;
  tensor_files files{folder};
  for (const auto& [name, actor] : about.actors) state->actors.emplace(name, state_of(actor, files));
  return {folder, std::move(about), std::move(state)};
}

loaded_checkpoint read_newest(const fs::path& out, const std::function<void(const std::string&)>& say) {
  const auto candidates = checkpoints_in(out);
  for (const auto& candidate : candidates) {
    try {
      return read_checkpoint(candidate.path);
    } catch (const std::exception& reason) {
      say("warning: " + candidate.path.string() + ": this checkpoint cannot be used: " + reason.what());
    }
  }
  const auto copies = out / copies_folder;
  throw input_error(out.string() +
                    (candidates.empty() ? ": the folder has no checkpoints" : ": no checkpoint is intact") +
                    (checkpoints_in(copies).empty() ? "; start the run again without --resume"
                                                    : "; continue from the copies with --resume " + copies.string()));
}

}  // namespace troupe::checkpoint

#include "troupe/runtime/checkpoint/write_checkpoint.hpp"

#include "troupe/data/formats/safetensors.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/support/sha256.hpp"

#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Smaller tensors are stored again rather than looked up.
constexpr std::size_t least_bytes_to_share = 256;

std::string_view bytes_of(const at::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

/// Returns a text that two tensors share only if type, shape and values are the same.
std::string identity_of(const at::Tensor& values) {
  std::string identity = at::toString(values.scalar_type());
  for (const auto size : values.sizes()) identity += " " + std::to_string(size);
  return identity + " " + sha256_of(bytes_of(values));
}

/// Writes the files of one checkpoint into a folder, which must exist and be empty.
class writer {
 public:
  writer(fs::path folder, manifest about, durable_files& files)
      : folder_(std::move(folder)), about_(std::move(about)), files_(files) {}

  void write_actor(const std::string& name, const state_dict& state) {
    const auto file = file_of(name);
    auto& saved = about_.actors[name];
    saved.file = file;
    data::tensor_file content;
    for (const auto& [entry, values] : state.entries()) {
      if (values.nbytes() >= least_bytes_to_share) {
        const auto [where, fresh] = stored_.try_emplace(identity_of(values), file, entry);
        if (!fresh) {
          saved.repeated.push_back({entry, where->second.first, where->second.second});
          continue;
        }
      }
      content.tensors.emplace_back(entry, values);
    }
    const auto header = data::safetensors_header(content);
    std::vector<std::string_view> pieces{header};
    for (const auto& [entry, values] : content.tensors) pieces.push_back(bytes_of(values));
    write(file, pieces);
  }

  void link_best(const fs::path& from) {
    const auto to = folder_ / best_weights;
    files_.link(from, to);
    files_.sync(to);
    const auto digest = sha256_of_file(to);
    if (!digest) throw std::runtime_error("cannot read " + to.string());
    about_.files[best_weights] = {fs::file_size(to), *digest};
  }

  void write_manifest() {
    files_.write(folder_ / "manifest.json", {text_of(about_)});
    files_.sync(folder_);
  }

 private:
  /// Returns a new file name for an actor: "ps server 0" is stored in "ps-server-0.safetensors".
  std::string file_of(const std::string& actor) const {
    auto stem = actor.substr(0, 100);
    for (auto& c : stem)
      if (!plain_name(std::string("x") + c)) c = '-';
    if (stem.empty() || stem.front() == '.') stem = "x" + stem;
    for (auto name = stem;; name += "-") {
      const auto file = name + ".safetensors";
      if (file != best_weights && !about_.files.contains(file)) return file;
    }
  }

  void write(const std::string& file, const std::vector<std::string_view>& pieces) {
    sha256_digest digest;
    std::uint64_t bytes = 0;
    for (const auto piece : pieces) {
      digest.add(piece);
      bytes += piece.size();
    }
    files_.write(folder_ / file, pieces);
    about_.files[file] = {bytes, digest.finish()};
  }

  fs::path folder_;
  manifest about_;
  durable_files& files_;
  std::map<std::string, std::pair<std::string, std::string>> stored_;  ///< File and entry of a tensor, by identity.
};

void write_into(const fs::path& folder, const fs::path& out, const run_state& state, manifest about,
                durable_files& files) {
  about.step = state.step;
  writer writer{folder, std::move(about), files};
  for (const auto& [name, actor] : state.actors) writer.write_actor(name, actor);
  if (fs::exists(out / best_weights)) writer.link_best(out / best_weights);
  writer.write_manifest();
}

void remove_old(const fs::path& out, std::uint64_t newest, std::size_t keep, durable_files& files) {
  std::size_t kept = 0;
  for (const auto& candidate : checkpoints_in(out))
    if (candidate.step > newest || ++kept > keep) files.remove(candidate.path);
}

}  // namespace

void write_checkpoint(const fs::path& out, const run_state& state, manifest about, std::size_t keep,
                      durable_files& files) {
  add_checkpoint(out, state.step, keep, files,
                 [&](const auto& folder) { write_into(folder, out, state, std::move(about), files); });
}

void add_checkpoint(const fs::path& out, std::uint64_t step, std::size_t keep, durable_files& files,
                    const std::function<void(const fs::path& folder)>& fill) {
  const auto folder = folder_of(out);
  const auto aside = folder / unfinished_name_of(step);
  try {
    files.make_folder(folder);
    files.sync(out);
    for (const auto& left : unfinished_in(out)) files.remove(left);
    files.make_folder(aside);
    fill(aside);
    files.replace(aside, folder / name_of(step));
    files.sync(folder);
  } catch (const std::exception&) {
    try {
      files.remove(aside);  // the disk may be full
    } catch (const std::exception&) {
    }
    throw;
  }
  remove_old(out, step, keep, files);
}

}  // namespace troupe::checkpoint

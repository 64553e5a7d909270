#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/support/sha256.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace checkpoint_write_test {

using namespace troupe;
using testing::names_in;
using testing::read;
namespace fs = std::filesystem;

namespace {

/// A results folder with the best weights of a run.
struct scratch {
  fs::path out = fs::temp_directory_path() / ("troupe-checkpoint-" + std::to_string(::getpid()));
  scratch() {
    fs::remove_all(out);
    fs::create_directories(out);
    std::ofstream(out / "model_best.safetensors") << "the best weights";
    for (const auto* name : {"topology.toml", "metrics.jsonl", "epochs.csv"}) std::ofstream(out / name) << name;
  }
  ~scratch() { fs::remove_all(out); }
};

/// A run of two workers with equal weights and one server; everything in it depends on the step.
run_state state_at(std::uint64_t step) {
  run_state state{.step = step, .actors = {}};
  const auto weights = at::arange(100, at::kFloat) + static_cast<double>(step);
  for (const auto* worker : {"worker 0", "worker 1"}) {
    state.actors[worker].put("compute/weights", weights.clone());
    state.actors[worker].put_count("steps", step);
  }
  auto& server = state.actors["ps server 0"];
  server.put("moments", at::full({3, 50}, static_cast<double>(step), at::kDouble));
  server.put("half", at::ones({200}, at::kBFloat16));
  server.put("nothing", at::empty({0}, at::kFloat));
  server.put_text("name", "the server");
  server.put("copy of the weights", weights);
  state.actors["coordinator"];
  return state;
}

bool same(const run_state& a, const run_state& b) {
  if (a.step != b.step || a.actors.size() != b.actors.size()) return false;
  for (const auto& [name, left] : a.actors) {
    const auto right = b.actors.find(name);
    if (right == b.actors.end() || left.entries().size() != right->second.entries().size()) return false;
    for (const auto& [key, values] : left.entries()) {
      if (!right->second.has(key)) return false;
      const auto& other = right->second.entries().at(key);
      if (other.scalar_type() != values.scalar_type() || !other.equal(values)) return false;
    }
  }
  return true;
}

checkpoint::manifest about_a_run() {
  return {.topology = "run.seed = 1\n",
          .fingerprint = {{"CPU", "one"}},
          .digests = {{"samples", "0123"}},
          .outputs = {{"metrics.jsonl", {12, "ab"}}},
          .options = {{"csv", {"/tmp/x.csv", 3, "abc"}}}};
}

void write(const fs::path& out, std::uint64_t step, std::size_t keep = 2, durable_files* files = nullptr) {
  durable_files disk;
  checkpoint::write_checkpoint(out, state_at(step), about_a_run(), keep, files == nullptr ? disk : *files);
}

/// The step of the newest intact checkpoint, whose contents are compared with the original, and the reports.
struct found {
  std::uint64_t step{0};
  std::string said;
};

found newest(const fs::path& out) {
  found result;
  try {
    const auto loaded = checkpoint::read_newest(out, [&](const std::string& text) { result.said += text + "\n"; });
    result.step = loaded.about.step;
    CHECK(same(*loaded.state, state_at(result.step)));
    CHECK(loaded.about.topology == about_a_run().topology);
    CHECK((loaded.about.options == about_a_run().options));
  } catch (const input_error& reason) {
    result.said += reason.what();
  }
  return result;
}

void overwrite(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/// A disk on which one operation fails, counted from 0: a write after half of the bytes.
class failing_disk : public durable_files {
 public:
  failing_disk(int operation, int reason) : left_(operation), reason_(reason) {}

  void make_folder(const fs::path& path) override {
    step(path);
    durable_files::make_folder(path);
  }
  void write(const fs::path& path, const std::vector<std::string_view>& pieces) override {
    if (left_ == 0) durable_files::write(path, {pieces.front().substr(0, pieces.front().size() / 2)});
    step(path);
    durable_files::write(path, pieces);
  }
  void sync(const fs::path& path) override {
    step(path);
    durable_files::sync(path);
  }
  void link(const fs::path& from, const fs::path& to) override {
    step(to);
    durable_files::link(from, to);
  }
  void replace(const fs::path& from, const fs::path& to) override {
    step(to);
    durable_files::replace(from, to);
  }
  void remove(const fs::path& path) override {
    step(path);
    durable_files::remove(path);
  }

  bool failed() const { return left_ < 0; }

 private:
  void step(const fs::path& path) {
    if (left_-- == 0)
      throw std::runtime_error(path.string() + ": " + std::error_code(reason_, std::generic_category()).message());
  }

  int left_, reason_;
};

}  // namespace

TEST_CASE("a checkpoint is read as it was written, and equal tensors are stored once") {
  const scratch here;
  write(here.out, 5);
  const auto folder = here.out / "checkpoints" / "step-000000000005";
  CHECK(names_in(folder) == std::vector<std::string>{"coordinator.safetensors", "manifest.json",
                                                     "model_best.safetensors", "ps-server-0.safetensors",
                                                     "worker-0.safetensors", "worker-1.safetensors"});
  CHECK(newest(here.out).step == 5);
  const auto about = checkpoint::read_checkpoint(folder).about;
  const std::vector<checkpoint::repeated_entry> repeated{
      {"compute/weights", "ps-server-0.safetensors", "copy of the weights"}};
  CHECK((about.actors.at("worker 1").repeated == repeated));
  CHECK(fs::file_size(folder / "worker-1.safetensors") < 400);  // the weights alone are 400 bytes
  CHECK(about.files.at("model_best.safetensors").sha256 == sha256_of("the best weights"));
  CHECK(fs::equivalent(folder / "model_best.safetensors", here.out / "model_best.safetensors"));
}

TEST_CASE("actors whose names make the same file name keep their own states") {
  const scratch here;
  run_state state{.step = 1, .actors = {}};
  for (const auto* name : {"a b", "a-b", "a/b", "model_best", "..", "é", ""}) state.actors[name].put_text("name", name);
  durable_files disk;
  checkpoint::write_checkpoint(here.out, state, about_a_run(), 1, disk);
  const auto loaded = checkpoint::read_checkpoint(here.out / "checkpoints" / "step-000000000001");
  CHECK(same(*loaded.state, state));
}

TEST_CASE("the newest checkpoints are kept, and what a killed run has left is removed") {
  const scratch here;
  const auto names = [&] { return names_in(here.out / "checkpoints"); };
  for (const auto step : {10, 20, 30}) write(here.out, static_cast<std::uint64_t>(step));
  CHECK(names() == std::vector<std::string>{"step-000000000020", "step-000000000030"});
  fs::create_directories(here.out / "checkpoints" / ".step-000000000040.tmp");
  fs::create_directories(here.out / "checkpoints" / "mine");
  write(here.out, 40, 1);
  CHECK(names() == std::vector<std::string>{"mine", "step-000000000040"});
  write(here.out, 40, 1);  // again: a continued run was interrupted at once
  CHECK(newest(here.out).step == 40);
  write(here.out, 25);  // a run that was continued from an earlier checkpoint
  CHECK(names() == std::vector<std::string>{"mine", "step-000000000025"});
}

TEST_CASE("a best result that is replaced later stays in the checkpoint as it was") {
  const scratch here;
  write(here.out, 5);
  overwrite(here.out / "new", "better weights");
  fs::rename(here.out / "new", here.out / "model_best.safetensors");
  CHECK(newest(here.out).step == 5);
  CHECK(read(here.out / "checkpoints" / "step-000000000005" / "model_best.safetensors") == "the best weights");
}

TEST_CASE("whatever operation fails, the previous checkpoint or the new one is intact") {
  for (const int reason : {ENOSPC, EIO}) {
    for (int operation = 0;; ++operation) {
      CAPTURE(operation);
      const scratch here;
      write(here.out, 10);
      write(here.out, 20);
      fs::create_directories(here.out / "checkpoints" / ".step-000000000025.tmp");
      failing_disk disk(operation, reason);
      std::string said;
      try {
        write(here.out, 30, 2, &disk);
      } catch (const std::runtime_error& error) {
        said = error.what();
      }
      if (!disk.failed()) {
        CHECK(operation > 12);  // every operation has failed once
        CHECK(newest(here.out).step == 30);
        break;
      }
      CHECK(said.find(here.out.string()) == 0);
      CHECK(said.ends_with(std::error_code(reason, std::generic_category()).message()));
      const auto after = newest(here.out);
      CHECK(after.said.empty());
      CHECK((after.step == 20 || after.step == 30));
      write(here.out, 40);  // the next attempt
      CHECK(newest(here.out).step == 40);
      CHECK(names_in(here.out / "checkpoints").size() == 2);
    }
  }
}

TEST_CASE("a file that is truncated, missing or changed by one bit costs only its own checkpoint") {
  const scratch here;
  write(here.out, 10);
  fs::remove(here.out / "model_best.safetensors");
  overwrite(here.out / "model_best.safetensors", "the best weights");  // another file than in the first checkpoint
  write(here.out, 20);
  const auto folder = here.out / "checkpoints" / "step-000000000020";
  const auto expect_previous = [&](const std::string& file) {
    CAPTURE(file);
    const auto after = newest(here.out);
    CHECK(after.step == 10);
    CHECK(after.said.find(folder.string() + ": this checkpoint cannot be used") != std::string::npos);
    CHECK(after.said.find(file) != std::string::npos);
  };
  for (const auto& name : names_in(folder)) {
    const auto path = folder / name;
    const auto whole = read(path);
    for (const auto length : {std::size_t{0}, std::size_t{7}, whole.size() / 2, whole.size() - 1}) {
      overwrite(path, whole.substr(0, length));
      expect_previous(name);
    }
    overwrite(path, whole + '\n');
    expect_previous(name);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
      auto flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      overwrite(path, flipped);
      // A flipped bit can leave the manifest valid JSON that refers to other files. The message then names those.
      expect_previous(name == "manifest.json" ? "" : name);
    }
    fs::remove(path);
    expect_previous(name);
    overwrite(path, whole);
    CHECK(newest(here.out).step == 20);
  }
}

TEST_CASE("a checkpoint is read only from regular files in its own folder") {
  const scratch here;
  write(here.out, 10);
  const auto folder = here.out / "checkpoints" / "step-000000000010";
  fs::rename(folder / "worker-0.safetensors", here.out / "elsewhere");
  fs::create_symlink(here.out / "elsewhere", folder / "worker-0.safetensors");
  CHECK(newest(here.out).said.find("worker-0.safetensors is not a regular file") != std::string::npos);
  fs::remove(folder / "worker-0.safetensors");
  fs::rename(here.out / "elsewhere", folder / "worker-0.safetensors");
  CHECK(newest(here.out).step == 10);
  fs::rename(folder, here.out / "elsewhere");
  fs::create_directory_symlink(here.out / "elsewhere", folder);
  CHECK(newest(here.out).said.find("it is not a folder") != std::string::npos);
  fs::remove(folder);
  fs::rename(here.out / "elsewhere", here.out / "checkpoints" / "step-000000000011");
  CHECK(newest(here.out).said.find("it is of step 10, which does not match its name") != std::string::npos);
}

namespace {

/// A checkpoint of `step` and its outputs, as sent to the node that keeps copies.
state_dict packed(const scratch& from, std::uint64_t step) {
  write(from.out, step);
  auto about = about_a_run();
  about.options["csv"].path = from.out / "epochs.csv";
  return checkpoint::pack_copy(from.out, step, about);
}

/// Returns the same files, with one byte of `name` changed.
state_dict damaged(const state_dict& files, const std::string& name) {
  state_dict made;
  for (const auto& [entry, bytes] : files.entries()) {
    auto content = files.text(entry);
    if (entry == name) content[content.size() / 2] ^= 1;
    made.put_text(entry, content);
  }
  return made;
}

}  // namespace

TEST_CASE("the copy of a checkpoint can be resumed like the original") {
  const scratch here;
  const auto there = here.out / "copy";
  fs::create_directories(there);
  durable_files disk;
  for (const auto step : {10, 20, 30})
    checkpoint::write_copy(there, packed(here, static_cast<std::uint64_t>(step)), 2, disk);
  CHECK(newest(there).step == 30);
  CHECK(names_in(there / "checkpoints") == std::vector<std::string>{"step-000000000020", "step-000000000030"});
  const auto original = here.out / "checkpoints" / "step-000000000030";
  for (const auto& name : names_in(original))
    CHECK(read(there / "checkpoints" / "step-000000000030" / name) == read(original / name));
  for (const auto* name : {"topology.toml", "metrics.jsonl", "epochs.csv"}) CHECK(read(there / name) == name);
  CHECK(read(there / "csv" / "x.csv") == "epochs.csv");
}

TEST_CASE("a copy that is damaged on the way, or cannot be written, costs nothing but itself") {
  const scratch here;
  const auto there = here.out / "copy";
  fs::create_directories(there);
  durable_files disk;
  checkpoint::write_copy(there, packed(here, 10), 1, disk);
  const auto later = packed(here, 20);
  for (const auto& name : names_in(here.out / "checkpoints" / "step-000000000020")) {
    CAPTURE(name);
    CHECK_THROWS_AS(checkpoint::write_copy(there, damaged(later, "checkpoint/" + name), 1, disk), checkpoint::damaged);
    CHECK(newest(there).step == 10);
  }
  for (int operation = 0;; ++operation) {
    CAPTURE(operation);
    failing_disk failing(operation, ENOSPC);
    try {
      checkpoint::write_copy(there, later, 1, failing);
    } catch (const std::runtime_error&) {
    }
    const auto after = newest(there);
    CHECK(after.said.empty());
    CHECK((after.step == 10 || after.step == 20));
    if (!failing.failed()) {
      CHECK(after.step == 20);
      break;
    }
    fs::remove_all(there);
    fs::create_directories(there);
    checkpoint::write_copy(there, packed(here, 10), 1, disk);
  }
}

TEST_CASE("a folder without an intact checkpoint is refused") {
  const scratch here;
  CHECK(newest(here.out).said.ends_with(": the folder has no checkpoints; start the run again without --resume"));
  write(here.out, 10);
  overwrite(here.out / "checkpoints" / "step-000000000010" / "manifest.json", "{}");
  CHECK(newest(here.out).said.ends_with(": no checkpoint is intact; start the run again without --resume"));
}

}  // namespace checkpoint_write_test

// CIFAR-10 in its binary version (Krizhevsky 2009, "Learning multiple layers of features from tiny images"): files of
// records without a header, each a label and then the 32 x 32 red, green and blue values of an image, row by row.
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/input.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t channels = 3, side = 32;
constexpr std::uint64_t record_bytes = 1 + channels * side * side;

constexpr std::uint64_t published_bytes = 10'000 * record_bytes;

// About thirty times the published size of a file, so that an unusual file cannot request an absurd amount of memory.
constexpr std::uint64_t most_bytes_of_batch = std::uint64_t{1} << 30;

const std::vector<std::string>& names_of_cifar10() {
  static const std::vector<std::string> names{"airplane", "automobile", "bird",  "cat",  "deer",
                                              "dog",      "frog",       "horse", "ship", "truck"};
  return names;
}

[[noreturn]] void refuse_batch(const fs::path& file, const std::string& reason) {
  throw data_error(file.string() + ": " + reason + "; delete the file and fetch it again");
}

files::input batch_file(const fs::path& file) try { return files::input{file}; } catch (const files::missing&) {
  throw data_error(
      file.string() +
      ": no such file; run `troupe data fetch cifar10`, or set data.dir or TROUPE_DATA to the folder that contains " +
      file.parent_path().filename().string() + "/");
} catch (const files::unreadable& problem) {
  throw data_error(problem.what());
}

// Returns the number of records in the file, from its size.
std::int64_t records_in(const fs::path& file) {
  const std::uint64_t size = batch_file(file).bytes();
  if (size == 0) refuse_batch(file, "the file contains no images");
  if (size > most_bytes_of_batch) refuse_batch(file, "the file is too large for this format");
  if (size > published_bytes && size % record_bytes != 0) {
    refuse_batch(file, "the file has " + std::to_string(size % record_bytes) + " extra bytes after its " +
                           std::to_string(size / record_bytes) + " images");
  }
  if (size % record_bytes != 0) {
    refuse_batch(file, "the file is truncated: record " + std::to_string(size / record_bytes) +
                           " (counting from 0) has only " + std::to_string(size % record_bytes) + " of the " +
                           std::to_string(record_bytes) + " bytes of an image and its label");
  }
  return static_cast<std::int64_t>(size / record_bytes);
}

void read_batch(const fs::path& file, const at::Tensor& into) {
  const auto bytes = static_cast<std::size_t>(into.numel());
  try {
    if (batch_file(file).read(into.mutable_data_ptr<std::uint8_t>(), bytes) != bytes)
      refuse_batch(file, "the file shrank while it was being read");
  } catch (const files::unreadable& problem) {
    throw data_error(problem.what());
  }
  const at::Tensor labels = into.select(1, 0).contiguous();
  const auto* begin = labels.const_data_ptr<std::uint8_t>();
  const auto* end = begin + labels.numel();
  const auto* wrong = std::find_if(begin, end, [](std::uint8_t label) { return label >= names_of_cifar10().size(); });
  if (wrong != end) {
    refuse_batch(file, "label " + std::to_string(wrong - begin) + " is " + std::to_string(*wrong) + "; expected 0 to " +
                           std::to_string(names_of_cifar10().size() - 1));
  }
}

std::shared_ptr<const dataset> read_all(const std::vector<fs::path>& files) {
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (const auto& file : files) total += counts.emplace_back(records_in(file));
  const at::Tensor records = at::empty({total, static_cast<std::int64_t>(record_bytes)}, at::kByte);
  std::int64_t first = 0;
  for (std::size_t index = 0; index < files.size(); ++index) {
    read_batch(files[index], records.narrow(0, first, counts[index]));
    first += counts[index];
  }
  return std::make_shared<dataset>(dataset{
      .inputs = records.narrow(1, 1, channels * side * side).contiguous().view({total, channels, side, side}),
      .targets = records.select(1, 0).to(at::kLong),
      .classes = names_of_cifar10(),
  });
}

}  // namespace

dataset_kind cifar10() {
  return {.name = "cifar10",
          .explanation = "50,000 training and 10,000 test images in ten classes, 3 x 32 x 32 (Krizhevsky 2009)",
          .folder = "cifar-10-batches-bin",
          .sample_shape = {channels, side, side},
          .classes = 10,
          .published = {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
          .load =
              [](const data_source& from) {
                const fs::path& folder = from.folder;
                std::vector<fs::path> train;
                for (int part = 1; part <= 5; ++part)
                  train.push_back(folder / ("data_batch_" + std::to_string(part) + ".bin"));
                const std::vector<fs::path> test{folder / "test_batch.bin"};
                dataset_pair pair{
                    .train = read_all(train), .test = read_all(test), .scale = cifar10().published, .files{}};
                for (const std::vector<fs::path>* files : {&std::as_const(train), &test})
                  for (const auto& file : *files) pair.files.push_back(file.string());
                return pair;
              },
          .training_samples = 50'000,
          .test_samples = 10'000};
}

}  // namespace troupe::data

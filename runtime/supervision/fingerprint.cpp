#include "troupe/runtime/supervision/fingerprint.hpp"

#include "troupe/algorithms/device/device.hpp"
#include "troupe/data/formats/checked_rows.hpp"
#include "troupe/files/crc32c.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/launch/arithmetic.hpp"
#include "troupe/runtime/plugins/plugins.hpp"
#include "troupe/runtime/topology/canonical.hpp"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <sstream>

namespace troupe {

namespace {

/// Names of the entries that checkpoints of earlier builds do not have.
constexpr std::array later_entries{"arithmetic", "bfloat16 arithmetic", "kernel selection"};

std::string cpu_name() {
  std::istringstream file{files::read_all("/proc/cpuinfo")};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown";
}

/// CRC-32C of everything that is added, in order.
class digest {
 public:
  void add(const at::Tensor& values) {
    const auto dense = values.contiguous();
    crc_ = crc32c({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}, crc_);
  }

  void add(const data::sparse_rows& rows) {
    const std::array extents{rows.rows(), rows.columns()};
    add(std::span{extents});
    data::for_each_row(rows, [&](std::int64_t, const data::sparse_rows::row& row) {
      add(std::span{&row.count, 1});
      add(std::span{row.columns, static_cast<std::size_t>(row.count)});
      add(std::span{row.values, static_cast<std::size_t>(row.count)});
    });
  }

  void add(const data::dataset& set) {
    if (set.rows)
      add(*set.rows);
    else if (set.files)
      add(std::span<const char>{set.files->identity()});
    else
      add(set.inputs);
    add(set.targets);
    if (set.drawn_from.defined()) add(set.drawn_from);  // it may extend beyond the last whole window
  }

  void add(const std::filesystem::path& path) {
    files::input file{path};
    std::array<char, 1 << 16> part;
    while (const auto count = file.read(part.data(), part.size())) add(std::span<const char>{part.data(), count});
  }

  std::string text() const {
    char digits[9];
    std::snprintf(digits, sizeof(digits), "%08x", crc_);
    return digits;
  }

 private:
  template <class T, std::size_t N>
  void add(std::span<T, N> values) {
    crc_ = crc32c(std::as_bytes(values), crc_);
  }

  std::uint32_t crc_{0};
};

}  // namespace

std::string version() {
  return TROUPE_VERSION;
}

std::map<std::string, std::string> names_of_machine() {
  return {{"LibTorch", TORCH_VERSION}, {"CPU capability", at::get_cpu_capability()}, {"CPU", cpu_name()}};
}

std::map<std::string, std::string> fingerprint() {
  auto properties = names_of_machine();
  properties.merge(std::map<std::string, std::string>{{"CUDA", device::text_of(device::here())},
                                                      {"arithmetic", arithmetic_here().float32},
                                                      {"bfloat16 arithmetic", arithmetic_here().bfloat16},
                                                      {"kernel selection", kernel_settings()}});
  return properties;
}

std::map<std::string, std::string> fingerprint_of(const plan& plan) {
  auto properties = fingerprint();
  const auto is_cpu = [](const auto& device) { return device.is_cpu(); };
  if (std::all_of(plan.devices.begin(), plan.devices.end(), is_cpu)) properties.erase("CUDA");
  if (plan.file.workers.precision != "bfloat16") properties.erase("bfloat16 arithmetic");
  for (const auto& file : plan.file.plugins) {
    const auto name = "the plug-in " + std::filesystem::path(file).filename().string();
    auto& digests = properties[name];  // two libraries in different folders may have the same name
    digests += (digests.empty() ? "" : " and ") + plugins::digest_of(file);
  }
  return properties;
}

std::string differing(const std::map<std::string, std::string>& ours,
                      const std::map<std::string, std::string>& theirs) {
  std::string text;
  for (const auto& [property, our_value] : ours) {
    const auto other = theirs.find(property);
    if (other != theirs.end() && other->second == our_value) continue;
    if (other == theirs.end() && std::ranges::find(later_entries, property) != later_entries.end()) continue;
    const auto their_value = other == theirs.end() ? "unknown" : text::printable(other->second);
    text += (text.empty() ? "" : ", ") + property + " is " + their_value + " there and " + our_value + " here";
  }
  return text;
}

std::string digest_of(const at::Tensor& values, const std::filesystem::path& script) {
  digest of_all;
  of_all.add(values);
  if (!script.empty()) of_all.add(script);
  return of_all.text();
}

std::string digest_of(const data::dataset_pair& data) {
  digest of_all;
  of_all.add(*data.train);
  of_all.add(*data.test);
  return of_all.text();
}

}  // namespace troupe

#include "troupe/runtime/node/fingerprint.hpp"

#include "troupe/actors/device/device.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>

namespace troupe {

namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown";
}

std::string crc_of(std::initializer_list<at::Tensor> tensors) {
  std::uint32_t crc = 0;
  for (const auto& tensor : tensors) {
    const auto dense = tensor.contiguous();
    crc = transport::crc32c({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}, crc);
  }
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", crc);
  return digits;
}

}  // namespace

std::string version() {
  return TROUPE_VERSION;
}

std::map<std::string, std::string> fingerprint() {
  return {{"LibTorch", TORCH_VERSION},
          {"CPU capability", at::get_cpu_capability()},
          {"CPU", cpu_name()},
          {"CUDA", device::text_of(device::here())}};
}

std::string differing(const std::map<std::string, std::string>& ours,
                      const std::map<std::string, std::string>& theirs) {
  std::string text;
  for (const auto& [what, here] : ours) {
    const auto found = theirs.find(what);
    if (found != theirs.end() && found->second == here) continue;
    const auto there = found == theirs.end() ? "unknown" : topology::printable(found->second);
    text += (text.empty() ? "" : ", ") + what + " is " + there + " there and " + here + " here";
  }
  return text;
}

std::string digest_of(const at::Tensor& values) {
  return crc_of({values});
}

std::string digest_of(const data::dataset_pair& data) {
  return crc_of({data.train->inputs, data.train->targets, data.test->inputs, data.test->targets});
}

}  // namespace troupe

// The implementation of device.hpp and collective.hpp in a build without CUDA support.
#include "troupe/algorithms/device/collective.hpp"
#include "troupe/algorithms/device/device.hpp"

#include <stdexcept>

namespace troupe::device {

namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("this build has no CUDA support; configure it with -DTROUPE_CUDA=ON");
}

}  // namespace

const census& here() {
  static const census none{.compiled = false, .version = {}, .gpus = {}, .problem = "this build has no CUDA support"};
  return none;
}

std::shared_ptr<const mark> mark_here(c10::Device) {
  refuse();
}

std::shared_ptr<accelerator> open(c10::Device) {
  refuse();
}

std::string make_nccl_id() {
  refuse();
}

std::unique_ptr<collective> open_nccl(c10::Device) {
  refuse();
}

}  // namespace troupe::device

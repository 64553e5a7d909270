#include "troupe/runtime/launch/arithmetic.hpp"

#include "troupe/algorithms/support/intra_op.hpp"
#include "troupe/files/crc32c.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/canonical.hpp"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace troupe {

namespace {

/// Sets one intra-op thread for the calling thread. The destructor restores the previous number.
class one_thread {
 public:
  one_thread() : before_(at::get_num_threads()) { use_intra_op_threads(1); }
  ~one_thread() { use_intra_op_threads(before_); }
  one_thread(const one_thread&) = delete;
  one_thread& operator=(const one_thread&) = delete;

 private:
  std::int64_t before_;
};

/// Returns float32 numbers from -0.5 to 0.5 without a pattern. They are exact, so they are the same on every machine.
at::Tensor numbers(at::IntArrayRef shape, std::int64_t seed) {
  auto values = at::empty(shape, at::kFloat);
  auto* to = values.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    to[i] = static_cast<float>((i * 7919 + seed * 104729) % 65536) / 65536 - 0.5F;
  return values;
}

std::string digest_of_results(const std::vector<at::Tensor>& results) {
  std::uint32_t crc = 0;
  for (const auto& result : results) {
    const auto dense = result.contiguous();
    crc = crc32c({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}, crc);
  }
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", crc);
  return digits.data();
}

at::Tensor convolved(const at::Tensor& images, const at::Tensor& kernels) {
  return at::convolution(images, kernels, {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1);
}

}  // namespace

arithmetic compute_arithmetic() {
  const c10::InferenceMode no_gradients;
  const one_thread alone;
  const auto rows = numbers({32, 784}, 1), matrix = numbers({784, 50}, 2), errors = numbers({32, 50}, 3);
  const auto images = numbers({16, 10, 12, 12}, 4), kernels = numbers({20, 10, 5, 5}, 5);
  const auto product = at::mm(rows, matrix), convolution = convolved(images, kernels);
  const auto [of_images, of_kernels, of_bias] =
      at::convolution_backward(numbers({16, 20, 8, 8}, 6), images, kernels, std::vector<std::int64_t>{20}, {1, 1},
                               {0, 0}, {1, 1}, false, {0, 0}, 1, {true, true, true});
  return {
      .float32 = digest_of_results({product, at::mm(rows.t(), errors), at::mv(rows, matrix.select(1, 0).contiguous()),
                                    convolution, of_images, of_kernels, of_bias, at::log_softmax(product, 1),
                                    at::tanh(rows), at::exp(rows), at::sum(rows, 0), at::sum(rows)}),
      .bfloat16 = digest_of_results({at::mm(rows.to(at::kBFloat16), matrix.to(at::kBFloat16)),
                                     convolved(images.to(at::kBFloat16), kernels.to(at::kBFloat16))})};
}

const arithmetic& arithmetic_here() {
  static const auto result = compute_arithmetic();
  return result;
}

std::string kernel_settings() {
  std::string text;
  for (const auto* name :
       {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE",
        "DNNL_DEFAULT_FPMATH_MODE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"})
    if (const auto* value = std::getenv(name); value != nullptr)
      text += (text.empty() ? "" : " ") + std::string(name) + "=" + text::printable(value);
  return text.empty() ? "default" : text;
}

}  // namespace troupe

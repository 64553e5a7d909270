#include "troupe/models/networks/network.hpp"

#include "troupe/models/storage/sparse_sgd.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace troupe::models {

// Factories of the models, each defined in the file of its model.
std::unique_ptr<network> make_convnet(const network_shape& shape);
std::unique_ptr<network> make_exported(const network_shape& shape);
std::unique_ptr<network> make_gpt(const network_shape& shape);
std::unique_ptr<network> make_lenet(const network_shape& shape);
std::unique_ptr<network> make_logistic(const network_shape& shape);
std::unique_ptr<network> make_matrix_completion(const network_shape& shape);
std::unique_ptr<network> make_mlp(const network_shape& shape);
std::unique_ptr<network> make_resnet18(const network_shape& shape);
std::unique_ptr<network> make_resnet18_small_images(const network_shape& shape);
std::unique_ptr<network> make_resnet20(const network_shape& shape);
std::unique_ptr<network> make_script(const network_shape& shape);
std::unique_ptr<network> make_svm(const network_shape& shape);
std::unique_ptr<network> make_vgg11(const network_shape& shape);
std::unique_ptr<network> make_vgg11_bn(const network_shape& shape);
std::unique_ptr<network> make_wide_resnet(const network_shape& shape);
std::unique_ptr<network> make_wide_resnet_pooled(const network_shape& shape);

namespace {

constexpr const char* not_drawn = "the initial weights of this model cannot be drawn from a normal distribution";

}  // namespace

std::string name_of(loss_kind kind) {
  switch (kind) {
    case loss_kind::cross_entropy:
      return "cross_entropy";
    case loss_kind::nll:
      return "nll";
    case loss_kind::binary_cross_entropy:
      return "binary_cross_entropy";
    case loss_kind::hinge:
      return "hinge";
    case loss_kind::mse:
      return "mse";
  }
  return {};
}

at::Tensor mean_loss(loss_kind kind, const at::Tensor& output, const at::Tensor& target) {
  if (target.dim() > 1 && output.dim() == target.dim() + 1)  // text: each character is a sample
    return mean_loss(kind, output.flatten(0, -2), target.flatten());
  switch (kind) {
    case loss_kind::nll:
      return at::nll_loss(output, target);
    case loss_kind::binary_cross_entropy:
      return at::binary_cross_entropy_with_logits(output, target.to(output.scalar_type()));
    case loss_kind::hinge:
      return at::relu(1.0 - (target.to(output.scalar_type()) * 2.0 - 1.0) * output).mean();
    case loss_kind::mse:
      return at::mse_loss(output, target.to(output.scalar_type()));
    case loss_kind::cross_entropy:
      break;
  }
  return at::cross_entropy_loss(output, target);
}

std::optional<std::int64_t> count_correct(loss_kind kind, const at::Tensor& output, const at::Tensor& target,
                                          std::int64_t k) {
  if (kind == loss_kind::mse) return std::nullopt;
  const auto scores_of_each_class = kind == loss_kind::cross_entropy || kind == loss_kind::nll;
  if (scores_of_each_class && k > 1) {
    const auto most = std::min(k, output.size(-1));
    return std::get<1>(output.topk(most, -1)).eq(target.unsqueeze(-1)).sum().item<std::int64_t>();
  }
  return correct_targets(kind, output, target)->item<std::int64_t>();
}

namespace {

// Returns the number of correct samples as argmax and eq do, without their four passes through the dispatcher, which
// take longer than the forward pass of a small model. `scores` [rows, classes], contiguous.
std::int64_t count_highest(const float* scores, const std::int64_t* target, std::int64_t rows, std::int64_t classes) {
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < rows; ++row, scores += classes) {
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < classes; ++k)
      if (scores[k] > scores[best] || (std::isnan(scores[k]) && !std::isnan(scores[best]))) best = k;
    correct += best == target[row];
  }
  return correct;
}

}  // namespace

std::optional<at::Tensor> correct_targets(loss_kind kind, const at::Tensor& output, const at::Tensor& target) {
  if (kind == loss_kind::mse) return std::nullopt;
  if (kind != loss_kind::cross_entropy && kind != loss_kind::nll) return output.gt(0).to(at::kLong).eq(target).sum();
  const auto is_plain = output.is_cpu() && output.scalar_type() == at::kFloat && output.is_contiguous() &&
                        target.is_cpu() && target.scalar_type() == at::kLong && target.is_contiguous();
  if (!is_plain) return output.argmax(-1).eq(target).sum();
  const auto classes = output.size(-1);
  return at::scalar_tensor(count_highest(output.const_data_ptr<float>(), target.const_data_ptr<std::int64_t>(),
                                         output.numel() / classes, classes),
                           at::kLong);
}

namespace {

template <std::int64_t least>
bool fits_images(sample_kind kind, const network_shape& shape) {
  const auto dense = kind == sample_kind::images || kind == sample_kind::numbers;
  return dense && shape.input.size() == 3 && shape.input[1] >= least && shape.input[2] >= least && shape.classes >= 1;
}

bool fits_dense(sample_kind kind, const network_shape& shape) {
  const auto dense = kind == sample_kind::images || kind == sample_kind::numbers;
  return dense && (shape.input.size() == 3 || shape.input.size() == 1);
}

bool fits_text(sample_kind kind, const network_shape& shape) {
  return kind == sample_kind::characters && shape.input.size() == 1 && shape.classes >= 1;
}

bool fits_rows(sample_kind kind, const network_shape& shape) {
  return kind == sample_kind::sparse && shape.input.size() == 1 && shape.classes == 2;
}

bool fits_ratings(sample_kind kind, const network_shape& shape) {
  return kind == sample_kind::sparse && shape.input.size() == 2 && shape.classes == 0;
}

/// Makes the entry of a model of images with at least `least` pixels on each side.
template <std::int64_t least>
network_kind of_images(std::string name, std::string explanation,
                       std::unique_ptr<network> (*make)(const network_shape&), std::vector<std::string> reads = {}) {
  const auto limit =
      least > 1 ? " of at least " + std::to_string(least) + " x " + std::to_string(least) + " pixels" : "";
  return {.name = std::move(name),
          .explanation = std::move(explanation),
          .make = make,
          .reads = std::move(reads),
          .takes = "images" + limit,
          .fits = fits_images<least>};
}

/// Makes the entry of a model of sparse rows in two classes.
network_kind of_rows(std::string name, std::string explanation, std::unique_ptr<network> (*make)(const network_shape&),
                     sparse_sgd step) {
  return {.name = std::move(name),
          .explanation = std::move(explanation),
          .make = make,
          .step = step,
          .takes = "sparse rows in 2 classes",
          .fits = fits_rows};
}

}  // namespace

const std::vector<network_kind>& network_kinds() {
  static const std::vector<network_kind> kinds{
      of_images<16>("convnet",
                    "Two convolutions with dropout and two linear layers, as in PyTorch's MNIST example (2017).",
                    make_convnet),
      of_images<14>("lenet", "Two convolutions, average pooling and two linear layers. Nothing in it is random.",
                    make_lenet),
      of_images<1>("resnet20",
                   "Residual network of 20 layers for small images, with batch norm (He et al. 2015, section 4.2).",
                   make_resnet20, {"shortcut"}),
      of_images<1>("resnet18",
                   "Residual network of 18 layers for large images, with batch norm (He et al. 2015, table 1).",
                   make_resnet18),
      of_images<1>("resnet18_small_images",
                   "resnet18 for small images: a 3 x 3 stem without pooling, and biases (Dive into Deep Learning, "
                   "section 13.6).",
                   make_resnet18_small_images),
      of_images<32>("vgg11",
                    "Eight convolutions in a row, max pooling and one linear layer (Simonyan, Zisserman 2014), in the "
                    "form for CIFAR.",
                    make_vgg11),
      of_images<32>("vgg11_bn", "vgg11 with batch norm after each convolution.", make_vgg11_bn),
      of_images<1>("wide_resnet", "Wide residual network, WRN-16-10 by default (Zagoruyko, Komodakis 2016).",
                   make_wide_resnet, {"layers", "width", "dropout"}),
      of_images<28>(
          "wide_resnet_pooled",
          "Six wide residual blocks that normalize after they convolve, with max pooling between pairs of blocks.",
          make_wide_resnet_pooled, {"width", "dropout"}),
      {.name = "mlp",
       .explanation = "Linear layers with ReLU between them. Takes images or numbers; predicts classes or a number.",
       .make = make_mlp,
       .reads = {"layers", "width", "dropout"},
       .takes = "images or numbers",
       .fits = fits_dense},
      {.name = "gpt",
       .explanation = "Small transformer that continues a text, character by character (nanoGPT's definition).",
       .make = make_gpt,
       .reads = {"layers", "width", "heads", "dropout"},
       .takes = "text",
       .fits = fits_text},
      {.name = "exported",
       .explanation = "Any module of PyTorch that torch.export can export, read from the file model.exported.",
       .make = make_exported,
       .reads = {"exported"}},
      {.name = "script",
       .explanation = "Any TorchScript module, read from the file model.script (deprecated by PyTorch 2.11).",
       .make = make_script,
       .reads = {"script"}},
      of_rows("logistic", "Logistic regression on sparse rows in two classes.", make_logistic, logistic_sgd),
      of_rows("svm", "Linear support vector machine on sparse rows in two classes (Niu et al. 2011, section 2).",
              make_svm, svm_sgd),
      {.name = "matrix_completion",
       .explanation =
           "Product of two thin matrices that is fitted to the known entries of a matrix (Niu et al. 2011, section 2).",
       .make = make_matrix_completion,
       .step = matrix_completion_sgd,
       .reads = {"rank"},
       .takes = "ratings",
       .fits = fits_ratings},
  };
  return kinds;
}

bool draws_normal_weights(const network_kind& kind) {
  const auto reads = [&](const char* key) {
    return std::find(kind.reads.begin(), kind.reads.end(), key) != kind.reads.end();
  };
  return kind.step == nullptr && !reads("script") && !reads("exported");
}

const network_kind* find_network(const std::string& name) {
  for (const auto& kind : network_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::unique_ptr<network> make_network(const network_kind& kind, const network_shape& shape, std::uint64_t seed) {
  // Initialisers draw from the generator of the process, so one network is made at a time.
  static std::mutex one_at_a_time;
  const std::lock_guard lock{one_at_a_time};
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard generator_lock{generator.mutex()};
    generator.set_current_seed(seed);
  }
  auto result = kind.make(shape);
  if (!shape.normal) return result;
  if (!draws_normal_weights(kind)) throw std::invalid_argument(not_drawn);
  result->draw_weights(*shape.normal);
  return result;
}

void network::draw_weights(const normal_initializer&) {
  throw std::invalid_argument(not_drawn);
}

}  // namespace troupe::models

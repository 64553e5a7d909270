#include "troupe/models/networks/network.hpp"

#include "troupe/files/kind_list.hpp"
#include "troupe/models/storage/sparse_sgd.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

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

namespace {

kind_list<network_kind>& networks() {
  static kind_list<network_kind> kinds{
      "a model",
      {
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
          of_images<32>(
              "vgg11",
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
           .explanation =
               "Linear layers with ReLU between them. Takes images or numbers; predicts classes or a number.",
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
           .explanation = "Product of two thin matrices that is fitted to the known entries of a matrix (Niu et al. "
                          "2011, section 2).",
           .make = make_matrix_completion,
           .step = matrix_completion_sgd,
           .reads = {"rank"},
           .takes = "ratings",
           .fits = fits_ratings},
      }};
  return kinds;
}

}  // namespace

const std::deque<network_kind>& network_kinds() {
  return networks().all();
}

const network_kind* find_network(const std::string& name) {
  return networks().find(name);
}

void register_network(network_kind kind) {
  if (!kind.make) throw std::invalid_argument("the model \"" + kind.name + "\" has no function `make`");
  networks().add(std::move(kind));
}

bool draws_normal_weights(const network_kind& kind) {
  const auto reads = [&](const char* key) {
    return std::find(kind.reads.begin(), kind.reads.end(), key) != kind.reads.end();
  };
  return kind.step == nullptr && !reads("script") && !reads("exported");
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
  if (!result) throw std::invalid_argument("the function `make` of this model returned no network");
  if (!shape.normal) return result;
  if (!draws_normal_weights(kind)) throw std::invalid_argument(not_drawn);
  result->draw_weights(*shape.normal);
  return result;
}

void network::draw_weights(const normal_initializer&) {
  throw std::invalid_argument(not_drawn);
}

}  // namespace troupe::models

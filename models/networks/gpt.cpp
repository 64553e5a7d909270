// A decoder-only transformer over characters (Radford et al. 2019), with the names, the operations and the initialisers
// of github.com/karpathy/nanoGPT: pre-norm blocks, learned positions, and a table of characters that is also the
// weights of the output. With the defaults, it has 793,344 parameters in addition to the tables of characters and
// positions.
#include "troupe/models/networks/module.hpp"
#include "troupe/models/networks/random_operators.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <stdexcept>

namespace troupe::models {

namespace {

constexpr double deviation = 0.02;  ///< Standard deviation of initial weights.

// Dropout with probability p, which is zero in evaluation.
struct dropping {
  at::Tensor operator()(const at::Tensor& x) const { return dropout(x, p, generator); }

  double p;
  at::Generator generator;
};

torch::nn::LayerNorm norm_of(std::int64_t width) {
  return torch::nn::LayerNorm{torch::nn::LayerNormOptions({width})};
}

// Each character attends to itself and to those before it.
class self_attention final : public torch::nn::Module {
 public:
  self_attention(std::int64_t width, std::int64_t heads)
      : heads{heads},
        c_attn{register_module("c_attn", torch::nn::Linear(width, 3 * width))},
        c_proj{register_module("c_proj", torch::nn::Linear(width, width))} {}

  // `x` is [N, T, width].
  at::Tensor forward(const at::Tensor& x, const dropping& drop) {
    const std::int64_t width = x.size(2);
    const auto by_head = [&](const at::Tensor& tensor) {
      return tensor.view({x.size(0), x.size(1), heads, width / heads}).transpose(1, 2);  // [N, heads, T, width / heads]
    };
    const auto parts = c_attn->forward(x).split(width, 2);
    const at::Tensor q = by_head(parts[0]), k = by_head(parts[1]), v = by_head(parts[2]);
    const at::Tensor y = drop.p > 0 ? attention(q, k, v, {.p = drop.p, .causal = true}, drop.generator)
                                    : at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0,
                                                                       /*is_causal=*/true);
    return drop(c_proj->forward(y.transpose(1, 2).contiguous().view(x.sizes())));
  }

 private:
  std::int64_t heads;
  torch::nn::Linear c_attn, c_proj;
};

class mlp final : public torch::nn::Module {
 public:
  explicit mlp(std::int64_t width)
      : c_fc{register_module("c_fc", torch::nn::Linear(width, 4 * width))},
        c_proj{register_module("c_proj", torch::nn::Linear(4 * width, width))} {}

  at::Tensor forward(const at::Tensor& x, const dropping& drop) {
    return drop(c_proj->forward(at::gelu(c_fc->forward(x))));
  }

 private:
  torch::nn::Linear c_fc, c_proj;
};

class transformer_block final : public torch::nn::Module {
 public:
  transformer_block(std::int64_t width, std::int64_t heads)
      : ln_1{register_module("ln_1", norm_of(width))},
        attn{register_module("attn", std::make_shared<self_attention>(width, heads))},
        ln_2{register_module("ln_2", norm_of(width))},
        feed{register_module("mlp", std::make_shared<mlp>(width))} {}

  at::Tensor forward(const at::Tensor& x, const dropping& drop) {
    const at::Tensor y = x + attn->forward(ln_1->forward(x), drop);
    return y + feed->forward(ln_2->forward(y), drop);
  }

 private:
  torch::nn::LayerNorm ln_1;
  std::shared_ptr<self_attention> attn;
  torch::nn::LayerNorm ln_2;
  std::shared_ptr<mlp> feed;
};

struct sizes {
  std::int64_t characters, length, layers, width, heads;
};

class transformer final : public torch::nn::Module {
 public:
  explicit transformer(const sizes& of)
      : wte{register_module("wte", torch::nn::Embedding(of.characters, of.width))},
        wpe{register_module("wpe", torch::nn::Embedding(of.length, of.width))} {
    const auto h = register_module("h", std::make_shared<torch::nn::Module>());
    for (std::int64_t index = 0; index < of.layers; ++index) {
      blocks.push_back(
          h->register_module(std::to_string(index), std::make_shared<transformer_block>(of.width, of.heads)));
    }
    ln_f = register_module("ln_f", norm_of(of.width));
  }

  at::Tensor forward(const at::Tensor& input, const dropping& drop) {
    const at::Tensor places = at::arange(input.size(1), input.options());
    at::Tensor x = drop(wte->forward(input) + wpe->forward(places));
    for (const auto& block : blocks) x = block->forward(x, drop);
    return ln_f->forward(x);
  }

  torch::nn::Embedding wte, wpe;

 private:
  std::vector<std::shared_ptr<transformer_block>> blocks;
  torch::nn::LayerNorm ln_f{nullptr};
};

// A linear layer without bias whose weights [characters, width] are those of another module.
class tied_head final : public torch::nn::Module {
 public:
  explicit tied_head(const at::Tensor& table) : weight{register_parameter("weight", table)} {
    const torch::nn::Linear drawn{
        torch::nn::LinearOptions(table.size(1), table.size(0)).bias(false)};  // drawn and discarded, as in Python
  }

  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight); }

  at::Tensor weight;
};

class GptImpl final : public random_module {
 public:
  GptImpl(const sizes& of, double share) : share{share} {
    body = register_module("transformer", std::make_shared<transformer>(of));
    head = register_module("lm_head", std::make_shared<tied_head>(body->wte->weight));
    initialise(of.layers);
  }

  at::Tensor forward(const at::Tensor& input) override {
    require_characters("gpt", input);
    const dropping drop{is_training() ? share : 0, generator()};
    return head->forward(body->forward(input, drop));
  }

  // The head is a linear layer, so its weights, which are also the table of characters, are drawn too.
  void draw_weights(const normal_initializer& how) override {
    random_module::draw_weights(how);
    const at::NoGradGuard unrecorded;
    head->weight.normal_(0, how.deviation);
  }

 private:
  void initialise(std::int64_t layers) {
    const at::NoGradGuard unrecorded;
    for (const auto& child : modules(/*include_self=*/false)) {
      if (const auto linear = std::dynamic_pointer_cast<torch::nn::LinearImpl>(child)) {
        linear->weight.normal_(0, deviation);
        linear->bias.zero_();
      }
      if (const auto table = std::dynamic_pointer_cast<torch::nn::EmbeddingImpl>(child))
        table->weight.normal_(0, deviation);
    }
    head->weight.normal_(0, deviation);
    const double scaled = deviation / std::sqrt(2 * static_cast<double>(layers));
    for (auto& item : named_parameters()) {
      if (item.key().ends_with("c_proj.weight")) item.value().normal_(0, scaled);
    }
  }

  double share;
  std::shared_ptr<transformer> body;
  std::shared_ptr<tied_head> head;
};

/// Throws setting_error for a width that is not a multiple of the number of heads, naming the key that was set.
[[noreturn]] void refuse_heads(const sizes& of, bool width_is_set) {
  const auto width = "model.width = " + std::to_string(of.width), heads = "model.heads = " + std::to_string(of.heads);
  if (!width_is_set) {
    auto fits = std::min(of.heads, of.width);
    while (of.width % fits != 0) --fits;
    throw setting_error("heads", heads + " does not divide " + width + "; use for instance " + std::to_string(fits));
  }
  const auto below = of.width - of.width % of.heads;
  throw setting_error("width", width + " is not a multiple of " + heads + "; use for instance " +
                                   (below > 0 ? std::to_string(below) + " or " : "") +
                                   std::to_string(below + of.heads));
}

}  // namespace

std::unique_ptr<network> make_gpt(const network_shape& shape) {
  if (shape.input.size() != 1 || shape.input[0] < 1 || shape.classes < 1)
    throw std::invalid_argument("gpt requires text, that is, samples of at least one character, not " + given(shape));
  const sizes dimensions{.characters = shape.classes,
                         .length = shape.input[0],
                         .layers = shape.layers.value_or(4),
                         .width = shape.width.value_or(128),
                         .heads = shape.heads.value_or(4)};
  if (dimensions.width % dimensions.heads != 0) refuse_heads(dimensions, shape.width.has_value());
  return as_built_in(std::make_shared<GptImpl>(dimensions, shape.dropout.value_or(0)), loss_function::cross_entropy);
}

}  // namespace troupe::models

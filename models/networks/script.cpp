#include "troupe/models/networks/script.hpp"

#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/networks/torch_file.hpp"

#include <ATen/core/Tensor.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace troupe::models {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what, const std::string& mend) {
  throw file_error(path.string() + ": " + what + "; " + mend);
}

constexpr const char* how_to_export = "export the module with torch.jit.script(model).save(\"model.pt\")";

// Throws unless the file is a TorchScript archive that this LibTorch can read. An archive of torch.save() contains
// "data.pkl" but no code.
void require_script(const std::filesystem::path& path) try {
  const auto file = std::make_shared<torch_file>(path);
  char magic[4]{};
  file->read(0, magic, sizeof(magic));
  if (std::string_view{magic, sizeof(magic)} != std::string_view{"PK\3\4", 4})
    refuse(path, "not a TorchScript file", how_to_export);
  caffe2::serialize::PyTorchStreamReader archive{file};
  if (!archive.hasRecord("constants.pkl"))
    refuse(path,
           archive.hasRecord("archive_format") || archive.hasRecord("models/model.json")
               ? "the file is an exported program (torch.export.save), not a TorchScript module"
               : "the file contains values written by torch.save(), not a module",
           how_to_export);
} catch (const files::unreadable& problem) {
  throw file_error(problem.what());
} catch (const c10::Error& failure) {
  refuse(path, "LibTorch " TORCH_VERSION " cannot read this as a TorchScript file: " + reason_of(failure),
         "export it with PyTorch " TORCH_VERSION " or older");
}

struct argument {
  const char* name;
  double harmless;  ///< Value with which nothing is drawn.
};

// Operators that draw from the generator of the process, and the arguments that prevent it.
const std::unordered_map<std::string, std::vector<argument>>& random_operators() {
  const std::vector<argument> of_dropout{{"p", 0}, {"train", 0}};
  const std::vector<argument> of_recurrent{
      {"dropout", 0}, {"train", 0}, {"num_layers", 1}};  // dropout is between layers
  static const std::unordered_map<std::string, std::vector<argument>> operators{
      {"dropout", of_dropout},
      {"dropout_", of_dropout},
      {"feature_dropout", of_dropout},
      {"feature_dropout_", of_dropout},
      {"alpha_dropout", of_dropout},
      {"alpha_dropout_", of_dropout},
      {"feature_alpha_dropout", of_dropout},
      {"feature_alpha_dropout_", of_dropout},
      {"native_dropout", of_dropout},
      {"lstm", of_recurrent},
      {"gru", of_recurrent},
      {"rnn_tanh", of_recurrent},
      {"rnn_relu", of_recurrent},
      {"rrelu", {{"training", 0}}},
      {"rrelu_", {{"training", 0}}},
      {"rrelu_with_noise", {{"training", 0}}},
      {"scaled_dot_product_attention", {{"dropout_p", 0}}},
      {"bernoulli", {}},
      {"bernoulli_", {}},
      {"binomial", {}},
      {"cauchy_", {}},
      {"exponential_", {}},
      {"geometric_", {}},
      {"log_normal_", {}},
      {"multinomial", {}},
      {"normal", {}},
      {"normal_", {}},
      {"poisson", {}},
      {"rand", {}},
      {"rand_like", {}},
      {"randint", {}},
      {"randint_like", {}},
      {"randn", {}},
      {"randn_like", {}},
      {"random", {}},
      {"random_", {}},
      {"randperm", {}},
      {"uniform", {}},
      {"uniform_", {}},
  };
  return operators;
}

bool is_harmless(const torch::jit::Node& node, const argument& which) {
  const auto index = node.schema().argumentIndexWithName(which.name);
  if (!index) return false;
  const auto value = torch::jit::toIValue(node.input(static_cast<std::size_t>(*index)));
  return value && ((value->isScalar() && value->toScalar().toDouble() == which.harmless) ||
                   (value->isBool() && static_cast<double>(value->toBool()) == which.harmless));
}

void add_random_of(torch::jit::Graph& graph, std::set<std::string>& found);

void add_random(torch::jit::Block* block, std::set<std::string>& found) {
  for (torch::jit::Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) add_random(inner, found);
    if (node->hasAttribute(torch::jit::attr::Subgraph))  // in prim::fork
      add_random_of(*node->g(torch::jit::attr::Subgraph), found);
    if (!node->kind().is_aten()) continue;
    const auto known = random_operators().find(node->kind().toUnqualString());
    if (known == random_operators().end()) continue;
    const auto harmless = [&](const argument& candidate) { return is_harmless(*node, candidate); };
    if (std::none_of(known->second.begin(), known->second.end(), harmless)) found.insert(known->first);
  }
}

void add_random_of(torch::jit::Graph& graph, std::set<std::string>& found) {
  const auto flat = graph.copy();
  torch::jit::Inline(*flat);
  add_random(flat->block(), found);
}

class script_network final : public network {
 public:
  script_network(std::filesystem::path path, const loss_function& loss)
      : path_{std::move(path)}, loss_{loss}, module_{load_script(path_)} {
    if (!module_.find_method("forward")) refuse(path_, "the module has no forward()", how_to_export);
    list_tensors();
    if (!learns_)
      refuse(path_, "the module has no trainable parameters",
             "export it before torch.jit.freeze(), with requires_grad set on the parameters to train");
  }

  at::Tensor forward(const at::Tensor& input) override {
    const torch::jit::GraphOptimizerEnabledGuard as_written{false};
    c10::IValue output;
    try {
      output = module_.forward({input});
    } catch (const std::exception& failure) {
      throw file_error(path_.string() + ": " + reason_of(failure));
    }
    if (!output.isTensor())
      throw file_error(path_.string() + ": its forward() returns a " + output.tagKind() +
                       "; expected a single tensor for the loss");
    keep_buffers();
    return output.toTensor();
  }

  void train(bool on) override { module_.train(on); }
  void draw_from(at::Generator) override {}  // TorchScript operators accept no generator: see draws_elsewhere()
  named_tensors parameters() const override { return parameters_; }
  named_tensors buffers() const override { return buffers_; }
  bool counts(const std::string& buffer) const override { return counters_.contains(buffer); }
  loss_function loss() const override { return loss_; }
  bool takes_any_loss() const override { return true; }

  std::vector<std::string> notes() const override {
    return {
        "TorchScript is deprecated since PyTorch 2.11; export the module with torch.export, and use model.exported"};
  }

  std::vector<std::string> draws_elsewhere() const override {
    std::set<std::string> names;
    add_random_of(*module_.get_method("forward").graph(), names);
    return {names.begin(), names.end()};
  }

 private:
  // An attribute of a module that holds a buffer.
  struct place {
    torch::jit::Module owner;
    std::string attribute;
    at::Tensor buffer;
    std::string name;         ///< Full name in the module, for messages.
    std::int64_t version{0};  ///< Constants only: the tensor's version when it was loaded.
  };

  // A frozen parameter is treated as a buffer: it does not change, and results contain it.
  void list_tensors() {
    for (const auto& parameter : module_.named_parameters()) {
      if (parameter.value.scalar_type() != at::kFloat)
        refuse(
            path_,
            parameter.name + " is " + c10::toString(parameter.value.scalar_type()) + ", but parameters must be float32",
            "export model.float()");
      if (parameter.value.numel() == 0)
        refuse(path_, parameter.name + " has no elements", "export the module without it, or give it a size");
      learns_ = learns_ || parameter.value.requires_grad();
      (parameter.value.requires_grad() ? parameters_ : buffers_).emplace_back(parameter.name, parameter.value);
    }
    for (const auto& item : module_.named_buffers()) {
      at::Tensor buffer = item.value;
      if (counts_batches(item.name, buffer)) {
        buffer.set_data(buffer.to(at::kFloat));
        counters_.insert(item.name);
      }
      if (buffer.is_floating_point() && buffer.scalar_type() != at::kFloat)
        refuse(
            path_,
            item.name + " is " + c10::toString(buffer.scalar_type()) + ", but floating-point buffers must be float32",
            "export model.float()");
      buffers_.emplace_back(item.name, buffer);
    }
    for (const auto& owner : module_.named_modules()) {
      const std::string prefix = owner.name.empty() ? "" : owner.name + ".";
      for (const auto& item : owner.value.named_buffers(/*recurse=*/false))
        places_.push_back({owner.value, item.name, item.value, prefix + item.name, item.value._version()});
    }
  }

  // A module's code may replace a buffer by another tensor (self.count = self.count + 1). Copies the values of that
  // tensor into the buffer that flat storage refers to, and puts that buffer back.
  void keep_buffers() {
    for (auto& entry : places_) {
      const at::Tensor current = entry.owner.attr(entry.attribute).toTensor();
      if (!entry.buffer.is_floating_point()) require_constant(entry, current);
      if (current.is_same(entry.buffer)) continue;
      const at::NoGradGuard unrecorded;
      entry.buffer.copy_(current);
      entry.owner.setattr(entry.attribute, entry.buffer);
    }
  }

  void require_constant(const place& entry, const at::Tensor& current) const {
    if (current.is_same(entry.buffer) ? current._version() == entry.version : current.equal(entry.buffer)) return;
    throw file_error(path_.string() + ": its forward() changes the buffer " + entry.name + ", which is " +
                     c10::toString(entry.buffer.scalar_type()) +
                     ", but only float32 buffers may change; make it float32");
  }

  std::filesystem::path path_;
  loss_function loss_;
  torch::jit::Module module_;
  named_tensors parameters_, buffers_;
  std::unordered_set<std::string> counters_;
  std::vector<place> places_;
  bool learns_{false};
};

}  // namespace

torch::jit::Module load_script(const std::filesystem::path& path) {
  require_script(path);
  try {
    return torch::jit::load(std::make_shared<torch_file>(path), at::kCPU);
  } catch (const std::exception& failure) {
    refuse(path, "LibTorch " TORCH_VERSION " cannot read this as a TorchScript module: " + reason_of(failure),
           "export it with PyTorch " TORCH_VERSION " or older");
  }
}

std::unique_ptr<network> make_script(const network_shape& shape) {
  return std::make_unique<script_network>(shape.file,
                                          shape.classes == 0 ? loss_function::mse : loss_function::cross_entropy);
}

}  // namespace troupe::models

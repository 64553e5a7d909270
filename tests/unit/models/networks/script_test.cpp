#include "troupe/models/networks/script.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/storage/constants.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/module.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace script_test {

using namespace troupe::models;

namespace {

// A file that is removed at the end of the test.
struct scratch {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("troupe-script-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".pt");
  ~scratch() { std::filesystem::remove(path); }

 private:
  static inline int count = 0;
};

// y = x·w + b, with a counter that each pass replaces and a parameter that is not trained.
torch::jit::Module affine(const std::string& forward = "    return torch.matmul(x, self.w) * self.fixed + self.b\n") {
  torch::jit::Module module{"affine"};
  module.register_parameter("w", at::arange(6, at::kFloat).view({3, 2}).requires_grad_(), false);
  module.register_parameter("b", at::ones({2}).requires_grad_(), false);
  module.register_parameter("fixed", at::full({}, 2.0), false);
  module.register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  module.register_buffer("places", at::arange(2));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define("def forward(self, x):\n    self.num_batches_tracked = self.num_batches_tracked + 1\n" + forward);
  return module;
}

std::unique_ptr<network> network_of(const scratch& file, const torch::jit::Module& module) {
  module.save(file.path.string());
  return make_network(*find_network("script"), {.input = {3}, .classes = 2, .file = file.path}, 1);
}

std::string refusal(const std::filesystem::path& path) {
  try {
    load_script(path);
  } catch (const file_error& reason) {
    return reason.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a script is a network: its parameters, its buffers, its formula") {
  const scratch file;
  const auto net = network_of(file, affine());
  const auto layout = layout_of(*net);
  REQUIRE(layout.parameters.size() == 2);
  CHECK(layout.parameters[0].name == "w");
  CHECK(layout.parameter_count == 8);
  REQUIRE(layout.buffers.size() == 2);  // parameters that are not trained are kept, and counters are exact
  CHECK(layout.buffers[0].name == "fixed");
  CHECK(layout.buffers[1].integer);
  const at::Tensor y = net->forward(at::ones({1, 3}));
  CHECK(y.detach().equal(at::tensor({13.0f, 19.0f}).view({1, 2})));
  CHECK(net->takes_any_loss());
  CHECK(net->draws_elsewhere().empty());
}

TEST_CASE("a script lies in flat storage, weights, gradients and buffers that it replaces") {
  const scratch file;
  const auto net = network_of(file, affine());
  const auto layout = layout_of(*net);
  buffer_pool pool;
  std::vector<std::size_t> heard;
  watch_gradients(*net, [&](std::size_t index) { heard.push_back(index); });
  for (int turn = 1; turn <= 2; ++turn) {  // in another memory at each step
    const at::Tensor flat = flatten(*net, layout, pool), gradient = pool.take_zeros(layout.parameter_end);
    bind_weights(*net, layout, flat);
    bind_gradients(*net, layout, gradient);
    heard.clear();
    net->forward(at::ones({1, 3})).sum().backward();
    CHECK(heard.size() == 2);
    CHECK(gradient.narrow(0, layout.parameters[0].first, 6).equal(at::full({6}, 2.0f)));
    CHECK(gradient.narrow(0, layout.parameters[1].first, 2).equal(at::ones({2})));
    CHECK(flat[layout.buffers[1].first].item<float>() == static_cast<float>(turn));
    flat.narrow(0, layout.parameters[0].first, 6).zero_();
    CHECK(net->forward(at::ones({1, 3})).detach().equal(at::ones({1, 2})));
    flat[layout.buffers[1].first] = static_cast<float>(turn);
  }
}

TEST_CASE("random operators of a script are found, and only where they draw") {
  const auto found = [](const std::string& forward) {
    const scratch file;
    return network_of(file, affine(forward))->draws_elsewhere();
  };
  using names = std::vector<std::string>;
  CHECK(found("    return torch.dropout(torch.matmul(x, self.w), 0.5, self.training)\n") == names{"dropout"});
  CHECK(found("    return torch.dropout(torch.matmul(x, self.w), 0.0, self.training)\n").empty());
  CHECK(found("    return torch.dropout(torch.matmul(x, self.w), 0.5, False)\n").empty());
  CHECK(found("    y = torch.matmul(x, self.w)\n    if self.training:\n        y = y + torch.randn_like(y)\n"
              "    return torch.bernoulli(y)\n") == names{"bernoulli", "randn_like"});
  const auto lstm = [&](const std::string& layers_dropout_train) {
    return found("    h = torch.zeros([1, 1, 2])\n    y, _, _ = torch.lstm(x, [h, h], [self.w, self.w], False, " +
                 layers_dropout_train + ", False, False)\n    return y\n");
  };
  CHECK(lstm("2, 0.5, self.training") == names{"lstm"});
  CHECK(lstm("2, 0.0, self.training").empty());
  CHECK(lstm("2, 0.5, False").empty());
  CHECK(lstm("1, 0.5, self.training").empty());  // dropout applies only between layers
  for (const std::string name : {"gru", "rnn_tanh", "rnn_relu"})
    CHECK(found("    y, _ = torch." + name +
                "(x, torch.zeros([1, 1, 2]), [self.w, self.w], False, 2, 0.5, True, False, False)\n    return y\n") ==
          names{name});
}

TEST_CASE("whole numbers of a script are constants, and code that changes them is refused") {
  const scratch file;
  const auto net = network_of(file, affine("    return torch.matmul(x, self.w)[:, self.places]\n"));
  const auto constants = constants_of(*net);
  REQUIRE(constants.size() == 1);  // the counter of batches is not a constant
  CHECK(constants[0].first == "places");
  CHECK(constants[0].second.equal(at::arange(2)));
  CHECK(net->forward(at::ones({1, 3})).sizes() == at::IntArrayRef{1, 2});
  for (const std::string change : {"self.places = self.places + 1", "self.places.add_(1)"}) {
    const scratch other;
    const auto changing = network_of(other, affine("    " + change + "\n    return torch.matmul(x, self.w)\n"));
    CHECK_THROWS_WITH_AS(changing->forward(at::ones({1, 3})),
                         (other.path.string() + ": its forward() changes the buffer places, which is Long, but only "
                                                "float32 buffers may change; make it float32")
                             .c_str(),
                         file_error);
  }
}

TEST_CASE("a script gives the same bits however often it has run") {
  const scratch file;
  const auto net =
      network_of(file, affine("    return torch.tanh(torch.sigmoid(torch.matmul(x, self.w)) * x.sum())\n"));
  const at::Tensor input = at::rand({5, 3});
  const at::Tensor first = net->forward(input).detach();
  for (int i = 0; i < 4; ++i) CHECK(net->forward(input).detach().equal(first));
}

TEST_CASE("scripts are loaded by several threads at once") {
  const scratch file;
  affine().save(file.path.string());
  std::array<at::Tensor, 4> outputs;
  std::vector<std::thread> threads;
  for (auto& output : outputs)
    threads.emplace_back([&] {
      auto module = load_script(file.path);
      output = module.forward({at::ones({1, 3})}).toTensor().detach();
    });
  for (auto& thread : threads) thread.join();
  for (const auto& output : outputs) CHECK(output.equal(outputs.front()));
}

TEST_CASE("what is no script to train is refused with the file, the reason and the mend") {
  const scratch text;
  CHECK(refusal(text.path) == text.path.string() + ": no such file; check the path");
  std::ofstream{text.path} << "import torch";
  CHECK(refusal(text.path) == text.path.string() +
                                  ": not a TorchScript file; export the module with "
                                  "torch.jit.script(model).save(\"model.pt\")");
  const scratch broken;
  affine().save(broken.path.string());
  std::filesystem::resize_file(broken.path, std::filesystem::file_size(broken.path) / 2);
  CHECK(refusal(broken.path).find("cannot read this as a TorchScript file") != std::string::npos);
  CHECK(refusal(broken.path).find('\n') == std::string::npos);
  const scratch frozen;
  torch::jit::Module nothing{"nothing"};
  nothing.define("def forward(self, x):\n    return x\n");
  CHECK_THROWS_WITH_AS(
      network_of(frozen, nothing),
      (frozen.path.string() + ": the module has no trainable parameters; export it before torch.jit.freeze(), with "
                              "requires_grad set on the parameters to train")
          .c_str(),
      file_error);
}

TEST_CASE("what a script's own code fails with is one line") {
  const scratch file;
  const auto net = network_of(file, affine());
  CHECK_THROWS_WITH_AS(net->forward(at::ones({1, 4})),
                       (file.path.string() + ": mat1 and mat2 shapes cannot be multiplied (1x4 and 3x2)").c_str(),
                       file_error);
  const scratch pair;
  CHECK_THROWS_WITH_AS(
      network_of(pair, affine("    return (x, self.b)\n"))->forward(at::ones({1, 3})),
      (pair.path.string() + ": its forward() returns a Tuple; expected a single tensor for the loss").c_str(),
      file_error);
}

}  // namespace script_test

#include "troupe/models/exported/exported.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/stored_archive.hpp"

#include "troupe/files/json.hpp"
#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/storage/constants.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace exported_test {

using namespace troupe::models;
using troupe::files::json;
namespace testing = troupe::testing;

namespace {

// The parts of a file of torch.export.save(); see torch/_export/serde/schema.py.

enum : int { of_int64 = 5, of_float32 = 7, of_float64 = 8 };

json tensor_meta(int type, const std::vector<std::int64_t>& sizes, bool learns = false) {
  json all = json::array(), strides = json::array();
  std::int64_t stride = 1;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    strides.insert(strides.begin(), json{{"as_int", stride}});
    stride *= *size;
  }
  for (const auto size : sizes) all.push_back({{"as_int", size}});
  return {{"dtype", type},
          {"sizes", all},
          {"requires_grad", learns},
          {"device", {{"type", "cpu"}}},
          {"strides", strides},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7}};
}

json as_tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

/// A call of an operator of ATen with one result, which has the operator's name and number.
json call(const std::string& target, const std::vector<std::pair<std::string, json>>& arguments, const json& output) {
  json inputs = json::array();
  for (const auto& [name, value] : arguments) inputs.push_back({{"name", name}, {"arg", value}});
  const auto trace = std::string("  File \"/home/me/net.py\", line 7, in forward\n    return x\n") +
                     "  File \"/lib/torch/nn/functional.py\", line 9, in other\n";
  return {{"target", "torch.ops.aten." + target},
          {"inputs", inputs},
          {"outputs", json::array({output})},
          {"metadata", {{"stack_trace", trace}}}};
}

/// Arithmetic on sizes.
json arithmetic(const std::string& target, const std::vector<json>& operands, const std::string& output) {
  json inputs = json::array();
  for (const auto& operand : operands) inputs.push_back({{"name", ""}, {"arg", operand}});
  const json made{{"as_sym_int", {{"as_name", output}}}};
  return {{"target", target}, {"inputs", inputs}, {"outputs", json::array({made})}, {"metadata", json::object()}};
}

/// A stored tensor: where the graph and the file have it, and its values.
struct stored {
  std::string argument, name;
  json meta;
  std::string bytes;
  bool is_parameter{true};
};

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// A module x ↦ dropout(x·wᵀ + b)·scale + x·wᵀ, which counts its batches. w [2, 3] has two names, and scale is float64.
struct file_parts {
  std::vector<stored> tensors{
      {"p_w", "w", tensor_meta(of_float32, {2, 3}, true), bytes_of<float>({0, 1, 2, 3, 4, 5})},
      {"p_b", "b", tensor_meta(of_float32, {2}, true), bytes_of<float>({1, 1})},
      {"b_scale", "scale", tensor_meta(of_float64, {2}), bytes_of<double>({2, 2}), false},
      {"b_count", "norm.num_batches_tracked", tensor_meta(of_int64, {}), bytes_of<std::int64_t>({0}), false}};
  std::vector<json> nodes{
      call("sym_size.int", {{"self", as_tensor("x")}, {"dim", {{"as_int", 1}}}},
           {{"as_sym_int", {{"as_name", "three"}}}}),
      arithmetic("_operator.mul", {{{"as_sym_int", {{"as_name", "three"}}}}, {{"as_int", 2}}}, "six"),
      call("add_.Tensor", {{"self", as_tensor("b_count")}, {"other", {{"as_int", 1}}}}, as_tensor("counted")),
      call("linear.default", {{"input", as_tensor("x")}, {"weight", as_tensor("p_w")}, {"bias", as_tensor("p_b")}},
           as_tensor("linear")),
      call("dropout.default",
           {{"input", as_tensor("linear")}, {"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", true}}}},
           as_tensor("dropped")),
      call("mul.Tensor", {{"self", as_tensor("dropped")}, {"other", as_tensor("b_scale")}}, as_tensor("scaled")),
      call("_to_copy.default", {{"self", as_tensor("scaled")}, {"dtype", {{"as_scalar_type", of_float32}}}},
           as_tensor("single"))};
  std::string output{"single"};
  std::string torch_version{"2.11.0+cpu"};
  bool ties{true};
  json first_size{{"as_expr", {{"expr_str", "Symbol('s7', positive=True, integer=True)"}}}};

  json model() const {
    json inputs = json::array(), values = json::object(), graph_inputs = json::array();
    for (const auto& tensor : tensors) {
      const json argument{{"name", tensor.argument}};
      if (tensor.is_parameter)
        inputs.push_back({{"parameter", {{"arg", argument}, {"parameter_name", tensor.name}}}});
      else
        inputs.push_back({{"buffer", {{"arg", argument}, {"buffer_name", tensor.name}, {"persistent", true}}}});
      values[tensor.argument] = tensor.meta;
    }
    inputs.push_back({{"user_input", {{"arg", as_tensor("x")}}}});
    values["x"] = tensor_meta(of_float32, {1, 3});
    values["x"]["sizes"][0] = first_size;
    values["linear"] = tensor_meta(of_float32, {1, 2});
    values["linear"]["sizes"][0] = {
        {"as_expr", {{"expr_str", "Mul(Integer(2), Symbol('s7', positive=True, integer=True))"}}}};
    const json made{{"user_output", {{"arg", as_tensor(output)}}}};
    const json graph{{"inputs", graph_inputs}, {"nodes", nodes}, {"tensor_values", values}};
    const json signature{{"input_specs", inputs}, {"output_specs", json::array({made})}};
    return {{"graph_module", {{"graph", graph}, {"signature", signature}}},
            {"range_constraints", {{"s7", {{"min_val", 2}, {"max_val", 100}}}}},
            {"schema_version", {{"major", 8}, {"minor", 17}}},
            {"torch_version", torch_version}};
  }

  std::vector<testing::archive_entry> entries() const {
    std::vector<testing::archive_entry> all{{"net/archive_format", "pt2"}, {"net/models/model.json", model().dump()}};
    json weights = json::object();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto path = "weight_" + std::to_string(i);
      all.push_back({"net/data/weights/" + path, tensors[i].bytes});
      weights[tensors[i].name] = {{"path_name", path},
                                  {"is_param", tensors[i].is_parameter},
                                  {"use_pickle", false},
                                  {"tensor_meta", tensors[i].meta}};
    }
    if (ties) weights["head.w"] = weights["w"];
    all.push_back({"net/data/weights/model_weights_config.json", json{{"config", weights}}.dump()});
    all.push_back({"net/data/constants/model_constants_config.json", R"({"config": {}})"});
    return all;
  }
};

struct exported_file {
  explicit exported_file(const file_parts& parts = {})
      : path{folder.write("net.pt2", testing::stored_archive(parts.entries()))} {}

  std::unique_ptr<network> make() const {
    return make_network(*find_network("exported"), {.input = {3}, .classes = 2, .file = path}, 1);
  }

  testing::scratch folder;
  std::filesystem::path path;
};

/// Returns why a file is refused, without its path.
std::string refusal_of(const file_parts& parts) {
  const exported_file file{parts};
  try {
    file.make();
  } catch (const file_error& reason) {
    const std::string text = reason.what(), path = file.path.string() + ": ";
    return text.starts_with(path) ? text.substr(path.size()) : "another path: " + text;
  }
  return {};
}

at::Tensor samples() {
  return at::arange(6, at::kFloat).view({2, 3});
}

}  // namespace

TEST_CASE("an exported program is a network: its parameters, its buffers, its formula") {
  const exported_file file;
  const auto net = file.make();
  const auto layout = layout_of(*net);
  REQUIRE(layout.parameters.size() == 2);
  CHECK(layout.parameters[0].name == "w");
  REQUIRE(layout.buffers.size() == 1);
  CHECK(layout.buffers[0].integer);
  const auto constants = constants_of(*net);
  REQUIRE(constants.size() == 1);
  CHECK(constants[0].first == "scale");
  CHECK((constants[0].second.scalar_type() == at::kDouble));
  const auto tied = tied_names_of(*net);
  REQUIRE(tied.size() == 1);
  CHECK(tied[0].name == "head.w");
  net->train(false);
  CHECK(net->forward(samples()).detach().equal(at::tensor({12.0f, 30.0f, 30.0f, 102.0f}).view({2, 2})));
  CHECK(net->takes_any_loss());
  CHECK(net->draws_elsewhere().empty());
  CHECK(net->accepts().most == 100);
  CHECK(net->accepts().least == 0);
}

TEST_CASE("an exported program is in flat storage: weights, gradients and counters") {
  const exported_file file;
  const auto net = file.make();
  const auto layout = layout_of(*net);
  buffer_pool pool;
  std::vector<std::size_t> completed;
  watch_gradients(*net, [&](std::size_t index) { completed.push_back(index); });
  for (int turn = 1; turn <= 2; ++turn) {  // in another memory in each step
    const at::Tensor flat = flatten(*net, layout, pool), gradient = pool.take_zeros(layout.parameter_end);
    bind_weights(*net, layout, flat);
    bind_gradients(*net, layout, gradient);
    completed.clear();
    net->draw_from(at::detail::createCPUGenerator(3));
    net->train(true);
    const auto output = net->forward(samples());
    output.sum().backward();
    CHECK(completed.size() == 2);
    CHECK(gradient.narrow(0, layout.parameters[1].first, 2).ne(0).any().item<bool>());
    CHECK(flat[layout.buffers[0].first].item<float>() == static_cast<float>(turn));
    net->train(false);  // evaluation changes no buffer
    net->forward(samples());
    CHECK(flat[layout.buffers[0].first].item<float>() == static_cast<float>(turn));
  }
}

TEST_CASE("an exported program draws from the generator it is given") {
  const exported_file file;
  const auto net = file.make();
  const auto drawn = [&](std::uint64_t seed) {
    net->draw_from(at::detail::createCPUGenerator(seed));
    return net->forward(at::ones({20, 3})).detach().clone();
  };
  const auto first = drawn(1);
  CHECK(drawn(1).equal(first));
  CHECK_FALSE(drawn(2).equal(first));
  CHECK(first.eq(0).any().item<bool>());
}

TEST_CASE("operators of an exported program are listed with their sizes and places") {
  const exported_file file;
  const auto rows = operators_of(file.path);
  REQUIRE(rows.size() == 7);
  CHECK(rows[3].name == "aten.linear.default");
  CHECK(rows[3].sizes == "[2·N, 2]");
  CHECK(rows[3].place == "net.py:7");
  CHECK(rows[4].sizes.empty());
}

TEST_CASE("samples that do not fit, and failures of operators, are named with the line of Python") {
  const exported_file file;
  const auto net = file.make();
  CHECK_THROWS_WITH_AS(
      net->forward(at::ones({2, 4})),
      (file.path.string() + ": its forward() takes float32 [N, 3], but the samples are float32 [N, 4]").c_str(),
      file_error);
  CHECK_THROWS_AS(net->forward(at::ones({2, 3}, at::kLong)), file_error);
  file_parts parts;
  parts.nodes[5]["inputs"][1]["arg"] = as_tensor("x");
  const exported_file other{parts};
  CHECK_THROWS_WITH_AS(
      other.make()->forward(samples()),
      (other.path.string() + ": net.py:7: aten.mul.Tensor: The size of tensor a (2) must match the size "
                             "of tensor b (3) at non-singleton dimension 1")
          .c_str(),
      file_error);
}

TEST_CASE("what cannot be trained is refused before the first step") {
  const auto refused = [](const std::function<void(file_parts&)>& change) {
    file_parts parts;
    change(parts);
    return refusal_of(parts);
  };
  CHECK(refused([](auto&) {}).empty());
  CHECK(refused([](auto& parts) {
          parts.nodes[3]["target"] = "torch.ops.aten.nonzero.default";
        }).starts_with("net.py:7: aten.nonzero.default: it returns a shape or a number that depends on the values"));
  CHECK(refused([](auto& parts) {
          parts.nodes[3]["target"] = "torch.ops.mine.layer.default";
        }).starts_with("net.py:7: mine.layer.default: it is a custom operator, which this program does not have"));
  CHECK(refused([](auto& parts) { parts.nodes[2]["inputs"][0]["arg"] = as_tensor("b_scale"); })
            .starts_with("net.py:7: its forward() changes the buffer scale, which is float64, but only float32 buffers "
                         "may change"));
  CHECK(refused([](auto& parts) {
          parts.nodes[2]["inputs"][0]["arg"] = as_tensor("x");
        }).starts_with("net.py:7: its forward() changes its input"));
  CHECK(refused([](auto& parts) { parts.torch_version = "2.12.0"; }).starts_with("it was written by PyTorch 2.12.0"));
  CHECK(refused([](auto& parts) { parts.output = "x"; }).starts_with("its forward() returns its input or a tensor of"));
  CHECK(refused([](auto& parts) {
          parts.nodes[2]["inputs"][0]["arg"] = as_tensor("p_w");
        }).starts_with("net.py:7: its forward() changes the parameter w"));
  CHECK(refused([](auto& parts) {
          parts.nodes[1]["outputs"] = json::array();
        }).starts_with("_operator.mul: it has no result"));
  CHECK(refused([](auto& parts) { parts.output = "gone"; }) == "it uses a value gone that no earlier operator returns");
  CHECK(refused([](auto& parts) {
          parts.first_size = {{"as_int", 4}};
        }).starts_with("the number of samples in a batch is fixed to 4"));
  CHECK(refused([](auto& parts) {
          parts.tensors[0].bytes.pop_back();
        }).starts_with("its tensor w is larger than the data stored for it"));
  CHECK(refused([](auto& parts) {
          parts.nodes[4]["inputs"][1]["arg"] = {{"as_string", "x"}};
        }).starts_with("net.py:7: aten.dropout.default: its argument p (as_string) is not what the operator requires"));
}

namespace {

/// Returns everything that a network is made of, as text: its graph, and the bytes of its tensors.
std::string contents_of(const std::filesystem::path& path) {
  std::string text;
  for (const auto& row : operators_of(path)) text += row.name + row.sizes + row.place + "\n";
  for (const auto& [name, values] : weights_of_exported(path))
    text += name + std::string{static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
  return text;
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

TEST_CASE("a file with other bytes is refused, or is the same program") {
  const auto turns = std::getenv("TROUPE_TESTS_FULL") != nullptr ? 100'000 : 1'000;
  const auto whole = testing::stored_archive(file_parts{}.entries());
  const testing::scratch folder;
  const auto expected = contents_of(folder.write("net.pt2", whole));
  std::mt19937 random{1};
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
  };
  [[maybe_unused]] const auto before = peak_memory();
  for (int turn = 0; turn < turns; ++turn) {
    auto bytes = whole;
    for (auto changes = 1 + below(3); changes > 0; --changes) {
      const auto at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes.resize(at + 1);
          break;
        case 1:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(50)));
          break;
        case 2:
          bytes.erase(at, below(50));
          break;
        default:
          bytes[at] = static_cast<char>(below(256));
      }
      if (bytes.empty()) bytes = "P";
    }
    try {
      const auto found = contents_of(folder.write("net.pt2", bytes));
      REQUIRE(found == expected);
    } catch (const file_error&) {
    }
  }
#ifndef __SANITIZE_ADDRESS__                  // which keeps what is freed
  CHECK(peak_memory() - before < 64u << 20);  // the allocator's, not that of a size in a file
#endif
}

TEST_CASE("a file with another graph is refused, or runs") {
  const auto turns = std::getenv("TROUPE_TESTS_FULL") != nullptr ? 100'000 : 500;
  const auto entries = file_parts{}.entries();
  const testing::scratch folder;
  std::mt19937 random{1};
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
  };
  int ran = 0;
  for (int turn = 0; turn < turns; ++turn) {
    auto changed = entries;
    auto& text = changed[below(4) == 0 ? changed.size() - 2 : 1].content;
    for (auto changes = 1 + below(2); changes > 0; --changes) {
      const auto at = below(text.size());
      const std::string digits = "0123456789-\"{}[],:";
      if (below(3) == 0)
        text.replace(at, below(9), text.substr(below(text.size()), below(20)));
      else
        text[at] = digits[below(digits.size())];
    }
    const auto path = folder.write("net.pt2", testing::stored_archive(changed));
    std::unique_ptr<network> net;
    try {
      net = make_network(*find_network("exported"), {.input = {3}, .classes = 2, .file = path}, 1);
    } catch (const file_error&) {
      continue;
    }
    try {
      net->forward(samples()).sum().backward();
      ++ran;
    } catch (const std::exception&) {  // of LibTorch, in backward
    }
  }
  CHECK(ran > 0);
}

}  // namespace exported_test

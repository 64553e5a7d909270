#include "troupe/runtime/checkpoint/safetensors.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/read_weights.hpp"
#include "troupe/runtime/support/write_aside.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace checkpoint_safetensors_test {

using namespace troupe;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

/// A folder of one test.
struct scratch {
  fs::path folder = fs::temp_directory_path() / ("troupe-" + std::to_string(::getpid()));
  scratch() { fs::create_directories(folder); }
  ~scratch() { fs::remove_all(folder); }
  fs::path write(const std::string& bytes) const {
    std::ofstream(folder / "w.safetensors", std::ios::binary) << bytes;
    return folder / "w.safetensors";
  }
};

std::string refusal(const fs::path& path) {
  try {
    checkpoint::read_safetensors(path);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

/// The flat layout of one layer [2, 3] with a bias [2].
models::flat_layout tiny_layout() {
  models::flat_layout layout;
  layout.parameters = {{"fc.weight", {2, 3}, 0, 6}, {"fc.bias", {2}, 16, 2}};
  layout.parameter_end = layout.total = 32;
  layout.parameter_count = 8;
  return layout;
}

at::Tensor tiny_weights() {
  auto flat = at::zeros({32});
  flat.narrow(0, 0, 6).copy_(at::arange(1, 7));
  flat.narrow(0, 16, 2).copy_(at::arange(8, 10));
  return flat;
}

}  // namespace

TEST_CASE("a file that cannot be written is named, with the reason") {
  const scratch here;
  const auto path = here.folder / "missing" / "w.safetensors";
  CHECK_THROWS_WITH_AS(checkpoint::write_safetensors(path, {}),
                       ("cannot write " + path.string() + ": No such file or directory").c_str(), std::runtime_error);
}

TEST_CASE("weights that cannot be read are wrong input") {
  const scratch here;
  const auto path = here.write("short");
  const auto broken = path.string() + ": not a complete safetensors file: it has only 5 bytes; save or copy it again";
  CHECK(refusal(path) == broken);
  CHECK_THROWS_WITH_AS(
      checkpoint::read_weights(path),
      (broken + ", or give an exported program, a TorchScript module or a dict of tensors saved by torch.save").c_str(),
      input_error);
  const auto other = here.write("no weights, but some text");
  CHECK_THROWS_WITH_AS(
      checkpoint::read_weights(other),
      (other.string() +
       ": not a safetensors file; expected a safetensors file, an exported program, a TorchScript module or a dict of "
       "tensors saved by torch.save")
          .c_str(),
      input_error);
  CHECK(!fs::exists(path.string() + aside_suffix));
}

TEST_CASE("a model file holds what one must know to use the weights") {
  const scratch here;
  const auto path = here.folder / "model.safetensors";
  checkpoint::write_model(path, {"tiny", "mnist", {{0.1307}, {0.3081}}, "nll"}, tiny_layout(), tiny_weights());
  const auto content = checkpoint::read_safetensors(path);
  const auto card = checkpoint::card_of(path, content);
  CHECK(card.model == "tiny");
  CHECK(card.data == "mnist");
  CHECK(card.scale.mean == std::vector{0.1307});
  CHECK(card.scale.std == std::vector{0.3081});
  CHECK(card.loss == "nll");
  models::buffer_pool pool;
  CHECK(checkpoint::load_into(path, content, "tiny", tiny_layout(), pool).equal(tiny_weights()));
}

TEST_CASE("a model file says how its model is made, as settings") {
  const scratch here;
  const auto path = here.folder / "model.safetensors";
  const checkpoint::model_card card{.model = "gpt",
                                    .data = "text",
                                    .scale{},
                                    .loss = "cross_entropy",
                                    .shape = {64},
                                    .class_names = {"a", "b"},
                                    .made_by = {"model.layers=2"}};
  checkpoint::write_model(path, card, tiny_layout(), tiny_weights());
  const auto content = checkpoint::read_safetensors(path);
  const auto found = checkpoint::card_of(path, content);
  CHECK(found.shape == std::vector<std::int64_t>{64});
  CHECK(found.class_names == std::vector<std::string>{"a", "b"});
  CHECK(found.made_by == std::vector<std::string>{"model.layers=2"});
}

TEST_CASE("a tied tensor is in the file under each of its names, and any of them is enough") {
  const scratch here;
  const auto path = here.folder / "model.safetensors";
  const std::vector<models::tied_name> tied{{"head.weight", "fc.weight"}};
  checkpoint::write_model(path, {.model = "tiny", .data{}, .scale{}, .loss{}, .tied = tied}, tiny_layout(),
                          tiny_weights());
  auto content = checkpoint::read_safetensors(path);
  models::buffer_pool pool;
  const auto load = [&] { return checkpoint::load_into(path, content, "tiny", tiny_layout(), pool, tied); };
  const auto named = [&](const std::string& name) {
    return std::find_if(content.tensors.begin(), content.tensors.end(),
                        [&](const auto& it) { return it.first == name; });
  };
  REQUIRE(named("head.weight") != content.tensors.end());
  CHECK(named("head.weight")->second.equal(named("fc.weight")->second));
  CHECK(load().equal(tiny_weights()));
  CHECK_THROWS_AS(checkpoint::load_into(path, content, "tiny", tiny_layout(), pool), input_error);
  named("head.weight")->second.add_(1);
  CHECK_THROWS_AS(load(), input_error);
  named("head.weight")->second.sub_(1);
  content.tensors.erase(named("fc.weight"));
  CHECK(load().equal(tiny_weights()));
}

TEST_CASE("constants are in the file as they are, and accepted where they are the same or left out") {
  const scratch here;
  const auto path = here.folder / "model.safetensors";
  const models::network::named_tensors constants{{"mask", at::eye(3).to(at::kBool)}, {"places", at::arange(4)}};
  checkpoint::write_model(path, {.model = "tiny", .data{}, .scale{}, .loss{}, .constants = constants}, tiny_layout(),
                          tiny_weights());
  auto content = checkpoint::read_safetensors(path);
  models::buffer_pool pool;
  const auto load = [&] { return checkpoint::load_into("w", content, "tiny", tiny_layout(), pool, {}, constants); };
  const auto named = [&](const std::string& name) {
    return std::find_if(content.tensors.begin(), content.tensors.end(),
                        [&](const auto& it) { return it.first == name; });
  };
  for (const auto& [name, right] : constants) {
    REQUIRE(named(name) != content.tensors.end());
    CHECK((named(name)->second.scalar_type() == right.scalar_type()));
    CHECK(named(name)->second.equal(right));
  }
  CHECK(load().equal(tiny_weights()));
  CHECK_THROWS_AS(checkpoint::load_into("w", content, "tiny", tiny_layout(), pool), input_error);
  named("places")->second.add_(1);
  CHECK_THROWS_WITH_AS(
      load(), "w: places is a constant of tiny, but it differs in this file; use weights that were saved from tiny",
      input_error);
  content.tensors.erase(named("places"));
  CHECK(load().equal(tiny_weights()));
}

TEST_CASE("weights of double precision are converted") {
  models::buffer_pool pool;
  const checkpoint::weights content{
      {{"fc.bias", at::arange(8, 10, at::kDouble)}, {"fc.weight", at::arange(1, 7, at::kDouble).view({2, 3})}}, {}};
  CHECK(checkpoint::load_into("w", content, "tiny", tiny_layout(), pool).equal(tiny_weights()));
}

TEST_CASE("what counts is an integer in the file, and float32 again in flat storage") {
  const scratch here;
  const auto path = here.folder / "w.safetensors";
  models::flat_layout layout = tiny_layout();
  layout.buffers.push_back(
      {.name = "norm.num_batches_tracked", .shape{}, .first = layout.total, .count = 1, .integer = true});
  layout.total += 16;
  models::buffer_pool pool;
  const at::Tensor flat = pool.take_zeros(layout.total);
  flat.select(0, layout.buffers[0].first).fill_(7);
  checkpoint::write_model(path, {.model = "tiny", .data{}, .scale{}, .loss{}}, layout, flat);
  const auto content = checkpoint::read_safetensors(path);
  const auto& [name, count] = content.tensors.back();
  CHECK(name == "norm.num_batches_tracked");
  CHECK((count.scalar_type() == at::kLong));
  CHECK(count.dim() == 0);
  CHECK(count.item<std::int64_t>() == 7);
  CHECK(checkpoint::load_into(path, content, "tiny", layout, pool).equal(flat));
}

TEST_CASE("weights of another model are refused with what differs") {
  models::buffer_pool pool;
  const auto refused = [&](const checkpoint::weights& content) {
    try {
      checkpoint::load_into("w", content, "tiny", tiny_layout(), pool);
    } catch (const input_error& error) {
      return std::string(error.what());
    }
    return "accepted"s;
  };
  CHECK(refused({{{"fc.weight", at::zeros({3, 2})}, {"extra", at::zeros({1})}}, {}}) ==
        "w: these are not the weights of tiny (missing: fc.bias; unexpected: extra; wrong shape: fc.weight [3, 2] "
        "instead of [2, 3]); use weights that were saved from tiny");
  CHECK(refused({{{"a", at::zeros({1})}, {"b", at::zeros({1})}, {"c", at::zeros({1})}, {"d", at::zeros({1})}},
                 {{"model", "lenet"}}}) ==
        "w: these are not the weights of tiny (missing: fc.weight, fc.bias; unexpected: a, b, c and 1 more); the file "
        "was saved from lenet; use the model lenet");
}

TEST_CASE("metadata that make no sense are refused") {
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"mean", "[1"}}}), input_error);
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"mean", "[1]"}}}), input_error);
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"troupe_format", "2"}}}), input_error);
}

}  // namespace checkpoint_safetensors_test

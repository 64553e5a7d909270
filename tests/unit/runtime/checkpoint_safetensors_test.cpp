#include "tests/support/doctest.hpp"

#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/safetensors.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

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

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file of this header, with its length before it, and these data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string refusal(const fs::path& path) {
  try {
    checkpoint::read_safetensors(path);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

/// What Python's safetensors 0.6.2 writes for {"fc.weight": float32 [[1, 2, 3], [4, 5, 6]], "steps": int64 [7]} with
/// metadata {"model": "tiny"}.
std::string python_file() {
  return "\xa0\0\0\0\0\0\0\0"s +
         R"({"__metadata__":{"model":"tiny"},"steps":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
         R"("fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}      )" +
         "\x07\0\0\0\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@\0\0\xc0@"s;
}

/// One layer [2, 3] with a bias [2], as flat storage lays them out.
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

TEST_CASE("a file written by Python is read") {
  const scratch here;
  const auto content = checkpoint::read_safetensors(here.write(python_file()));
  CHECK(content.metadata.at("model") == "tiny");
  REQUIRE(content.tensors.size() == 2);
  CHECK(content.tensors[0].first == "steps");
  CHECK(content.tensors[0].second.item<std::int64_t>() == 7);
  CHECK(content.tensors[1].first == "fc.weight");
  CHECK(content.tensors[1].second.equal(at::arange(1, 7, at::kFloat).view({2, 3})));
}

TEST_CASE("what is written is read back, and equal content gives equal bytes") {
  const scratch here;
  const checkpoint::weights content{{{"b", at::arange(3, at::kFloat)}, {"a", at::ones({2, 2}, at::kDouble).t()}},
                                    {{"model", "tiny \"quoted\""}}};
  checkpoint::write_safetensors(here.folder / "1", content);
  checkpoint::write_safetensors(here.folder / "2", content);
  const auto bytes = read(here.folder / "1");
  CHECK(bytes == read(here.folder / "2"));
  CHECK((bytes.size() - 12 - 32) % 8 == 0);  // the data begin at a multiple of eight
  CHECK(!fs::exists(here.folder / "1.tmp"));
  const auto back = checkpoint::read_safetensors(here.folder / "1");
  CHECK(back.metadata == content.metadata);
  REQUIRE(back.tensors.size() == 2);
  CHECK(back.tensors[0].first == "b");
  CHECK((back.tensors[1].second.scalar_type() == at::kDouble));
  CHECK(back.tensors[1].second.equal(content.tensors[1].second));
}

TEST_CASE("a file that cannot be written is named, with the reason") {
  const scratch here;
  const auto path = here.folder / "missing" / "w.safetensors";
  CHECK_THROWS_WITH_AS(checkpoint::write_safetensors(path, {}),
                       ("cannot write " + path.string() + ": No such file or directory").c_str(), std::runtime_error);
}

TEST_CASE("a broken file is refused with the reason") {
  const scratch here;
  const auto four = std::string(4, 'x');
  const auto entry = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const struct {
    std::string bytes, reason;
  } broken[] = {
      {"", "it has 0 bytes"},
      {"\xff\0"s, "it has 2 bytes"},
      {"\xff\xff\xff\xff\xff\xff\xff\xff{}", "its header claims 18446744073709551615 bytes of 10"},
      {"\x03\0\0\0\0\0\0\0{}"s, "its header claims 3 bytes of 10"},
      {file_of("[]", ""), "its header is not a JSON object"},
      {file_of("{\"t\":", ""), "its header is not JSON"},
      {file_of(std::string(100'000, '['), ""), "its header is not JSON"},
      {file_of("{\"__metadata__\":{\"a\":1}}", ""), "its metadata a is not a string"},
      {file_of("{\"__metadata__\":[]}", ""), "its metadata is not a JSON object"},
      {file_of("{\"t\":1}", four), "tensor t is not described by a JSON object"},
      {file_of(entry(R"("shape":[1],"data_offsets":[0,4])"), four), "tensor t has no dtype"},
      {file_of(entry(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), four), "which is not supported"},
      {file_of(entry(R"("dtype":"F32","data_offsets":[0,4])"), four), "tensor t has no list shape"},
      {file_of(entry(R"("dtype":"F32","shape":[1])"), four), "tensor t has no list data_offsets"},
      {file_of(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four), "a number in shape that is no size"},
      {file_of(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), four),
       "a number in shape that is no size"},
      {file_of(entry(R"("dtype":"F32","shape":[1e30],"data_offsets":[0,4])"), four),
       "a number in shape that is no size"},
      {file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four), "not what its shape takes"},
      {file_of(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,0])"), four), "not what its shape takes"},
      {file_of(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), ""),
       "not what its shape takes"},  // 2^64 elements: zero, to those who overflow
      {file_of(entry(R"("dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0])"), ""),
       "not what its shape takes"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), four), "lies outside the file"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), four), "lies outside the file"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), four), "lies outside the file"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"u":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           four),
       "tensors t and u overlap"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           four),
       "tensor t is listed twice"},
  };
  for (const auto& [bytes, reason] : broken) {
    CAPTURE(reason);
    const auto path = here.write(bytes);
    const auto said = refusal(path);
    CHECK(said.starts_with(path.string() + ": "));
    CHECK(said.find(reason) != std::string::npos);
  }
  CHECK(refusal(here.folder / "none").find("No such file or directory; check the path") != std::string::npos);
  CHECK(refusal(here.folder).find("is a folder; name the file in it") != std::string::npos);
}

TEST_CASE("a file cut short or changed in any byte is read or refused, never worse") {
  const scratch here;
  const auto whole = python_file();
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(refusal(here.write(whole.substr(0, length))) != "accepted");
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const unsigned bit : {1u, 16u, 128u}) {
      auto changed = whole;
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ bit);
      refusal(here.write(changed));  // any other exception, or a crash, fails the test
    }
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

TEST_CASE("a model file says how its model is made, as settings, and reads the rank of older ones") {
  const scratch here;
  const auto path = here.folder / "model.safetensors";
  const checkpoint::model_card card{.model = "gpt",
                                    .data = "text",
                                    .scale{},
                                    .loss = "cross_entropy",
                                    .shape = {64},
                                    .classes = 27,
                                    .made_by = {"model.layers=2"}};
  checkpoint::write_model(path, card, tiny_layout(), tiny_weights());
  auto content = checkpoint::read_safetensors(path);
  content.metadata["rank"] = "[5]";
  const auto found = checkpoint::card_of(path, content);
  CHECK(found.shape == std::vector<std::int64_t>{64});
  CHECK(found.classes == 27);
  CHECK(found.made_by == std::vector<std::string>{"model.layers=2", "model.rank=5"});
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
        "w: these are not weights of tiny (missing: fc.bias; unexpected: extra; of another shape: fc.weight [3, 2] "
        "instead of "
        "[2, 3]); give weights that were saved from tiny");
  CHECK(refused({{{"a", at::zeros({1})}, {"b", at::zeros({1})}, {"c", at::zeros({1})}, {"d", at::zeros({1})}},
                 {{"model", "lenet"}}}) ==
        "w: these are not weights of tiny (missing: fc.weight, fc.bias; unexpected: a, b, c and 1 more); it says that "
        "they are "
        "of lenet: name that model");
}

TEST_CASE("metadata that make no sense are refused") {
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"mean", "[1"}}}), input_error);
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"mean", "[1]"}}}), input_error);
  CHECK_THROWS_AS(checkpoint::card_of("w", {{}, {{"troupe_format", "2"}}}), input_error);
}

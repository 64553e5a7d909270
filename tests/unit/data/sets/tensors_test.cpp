#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/formats/safetensors.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <unistd.h>

namespace tensors_test {

using namespace troupe::data;
namespace fs = std::filesystem;

namespace {

/// A folder of safetensors files.
class scratch : public troupe::testing::scratch {
 public:
  fs::path write(const std::string& name, const tensor_file& content) const {
    return troupe::testing::scratch::write(name, safetensors_of(content));
  }

  fs::path write(const std::string& name, const at::Tensor& inputs, const at::Tensor& targets,
                 const std::map<std::string, std::string>& metadata = {}) const {
    return write(name, {{{"inputs", inputs}, {"targets", targets}}, metadata});
  }
};

dataset_pair load(const fs::path& file, const fs::path& test_file = {}) {
  data_source from;
  from.file = file;
  from.test_file = test_file;
  return find_dataset("tensors")->load(from);
}

std::string failure(const fs::path& file, const fs::path& test_file = {}) {
  try {
    load(file, test_file);
  } catch (const data_error& error) {
    return error.what();
  }
  return "no failure";
}

at::Tensor labels(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

}  // namespace

TEST_CASE("images, numbers and tokens are read from tensors") {
  const scratch here;
  SUBCASE("images") {
    const auto images = at::arange(24, at::kByte).view({2, 3, 2, 2});
    const auto sets = load(here.write("a", images, labels({1, 4})));
    CHECK(sets.train->inputs.equal(images));
    CHECK(sets.train->targets.equal(labels({1, 4})));
    CHECK(sets.train->classes == std::vector<std::string>{"0", "1", "2", "3", "4"});
    CHECK(sets.sample_shape == std::vector<std::int64_t>{3, 2, 2});
    CHECK(sets.test == sets.train);
  }
  SUBCASE("numbers of double and half precision, and targets that are numbers") {
    for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16, at::kFloat}) {
      const auto sets = load(here.write("a", at::ones({3, 5}).to(type), at::arange(3, at::kDouble)));
      CHECK((sets.train->inputs.scalar_type() == at::kFloat));
      CHECK(sets.train->inputs.equal(at::ones({3, 5})));
      CHECK(sets.train->targets.equal(at::arange(3, at::kFloat)));
      CHECK(sets.train->classes.empty());
      CHECK(sets.sample_shape == std::vector<std::int64_t>{5});
    }
  }
  SUBCASE("tokens, with a target at each position") {
    const auto tokens = at::arange(6, at::kLong).view({2, 3});
    const auto sets = load(here.write("a", tokens, tokens + 1));
    CHECK(sets.train->targets.equal(tokens + 1));
    CHECK(sets.train->classes.size() == 7);
    CHECK(load(here.write("a", tokens, labels({0, 1}))).train->classes.size() == 2);  // from the targets alone
  }
}

TEST_CASE("classes are those of both files, or what the metadata say") {
  const scratch here;
  const auto one = at::ones({1, 2});
  const auto train = here.write("train", one, labels({1})), test = here.write("test", one, labels({3}));
  CHECK(load(train, test).train->classes.size() == 4);
  CHECK(load(train, test).test->size() == 1);
  const auto told = here.write("told", one, labels({1}), {{"classes", "3"}});
  CHECK(load(told).train->classes.size() == 3);
  CHECK(failure(told, test) == test.string() + ": targets of sample 0 (counting from 0) is 3; expected 0 to 2");
  const auto named = here.write("named", one, labels({1}), {{"classes", R"(["cat", "dog"])"}});
  CHECK(load(named).train->classes == std::vector<std::string>{"cat", "dog"});
  const auto wrong = here.write("wrong", one, labels({1}), {{"classes", "many"}});
  CHECK(failure(wrong).find("metadata entry `classes` is neither a number of classes nor a list of class names") !=
        std::string::npos);
}

TEST_CASE("what is wrong with tensors is told with file and sample") {
  const scratch here;
  const auto two = at::ones({2, 3});
  const auto said = [&](const at::Tensor& inputs, const at::Tensor& targets) {
    const auto file = here.write("a", inputs, targets);
    const auto text = failure(file);
    CHECK(text.starts_with(file.string() + ": "));
    return text.substr(file.string().size() + 2);
  };
  CHECK(said(two, labels({0, 1, 2})) == "2 inputs and 3 targets; expected equal numbers of both");
  CHECK(said(two, labels({0, -1})) == "targets of sample 1 (counting from 0) is -1; expected 0 to 1048575");
  CHECK(said(two, labels({1 << 30, 1})) ==
        "targets of sample 0 (counting from 0) is 1073741824; expected 0 to 1048575");
  auto broken = at::ones({2, 3});
  broken[1][2] = std::nan("");
  CHECK(said(broken, labels({0, 1})) ==
        "inputs of sample 1 (counting from 0) contain nan; expected finite single-precision numbers");
  CHECK(said(two, at::full({2}, std::numeric_limits<float>::infinity())).find("targets of sample 0") == 0);
  CHECK(said(at::full({2, 3}, 1e300, at::kDouble), labels({0, 1})).find("contain an infinite number") !=
        std::string::npos);
  CHECK(said(at::ones({2}, at::kByte), labels({0, 1})).find("inputs are Byte with shape [2]; expected uint8") == 0);
  CHECK(said(two, at::ones({2, 3}, at::kLong)).find("targets have shape [2, 3]; expected one target per sample") == 0);
  CHECK(said(at::ones({0, 3}), labels({})).find("expected at least one sample") != std::string::npos);
  const auto tokens = at::tensor({5, 0, 2, -1}, at::kLong).view({2, 2});
  for (const auto& targets : {labels({0, 1}), at::ones({2}), at::ones({2, 2}, at::kLong)})
    CHECK(said(tokens, targets) == "inputs of sample 1 (counting from 0) contain -1; expected 0 to 1048575");
  const auto file = here.write("b", {{{"images", two}}, {}});
  CHECK(failure(file).find(file.string() +
                           ": the file has no tensor named \"inputs\" (it has images); save it in Python") == 0);
  CHECK(failure({}) == "data.file is not set; set it to the file that contains the samples");
}

TEST_CASE("two files of different samples are told apart") {
  const scratch here;
  const auto train = here.write("train", at::ones({2, 3}), labels({0, 1}));
  const auto wide = here.write("wide", at::ones({2, 4}), labels({0, 1}));
  CHECK(failure(train, wide) ==
        wide.string() +
            ": its samples are Float with shape [4], but those of train are Float with shape [3]; expected "
            "the same type and shape in both files");
  const auto numbers = here.write("numbers", at::ones({2, 3}), at::ones({2}));
  CHECK(failure(train, numbers).find("its targets differ in kind from those of train") != std::string::npos);
}

TEST_CASE("a column of targets is a list of them, and bool is two classes") {
  const scratch here;
  const auto inputs = at::ones({3, 4});
  const auto targets_of = [&](const at::Tensor& targets, const at::Tensor& given) {
    return load(here.write("a", given, targets)).train->targets;
  };
  const auto two_classes = at::tensor({1, 0, 1}, at::kLong);
  CHECK(targets_of(labels({2, 0, 1}).view({3, 1}), inputs).equal(labels({2, 0, 1})));
  CHECK(targets_of(at::tensor({0.5f, 1.5f, 2.0f}).view({3, 1}), inputs).equal(at::tensor({0.5f, 1.5f, 2.0f})));
  CHECK(targets_of(two_classes.to(at::kBool), inputs).equal(two_classes));
  CHECK(targets_of(two_classes.to(at::kBool).view({3, 1}), inputs).equal(two_classes));
  CHECK(load(here.write("a", inputs, two_classes.to(at::kBool))).train->classes.size() == 2);
  CHECK(targets_of(two_classes.view({3, 1}), at::ones({3, 4}, at::kLong)).equal(two_classes));
  // One token per sample: a target for each position.
  CHECK(targets_of(two_classes.view({3, 1}), at::ones({3, 1}, at::kLong)).dim() == 2);
}

TEST_CASE("entries that are not used may have any type, but must be part of the file") {
  const scratch here;
  const auto write = [&](const std::string& header, std::size_t bytes) {
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size() & 0xff);
    file[1] = static_cast<char>(header.size() >> 8);
    return static_cast<const troupe::testing::scratch&>(here).write("a", file + header + std::string(bytes, '\0'));
  };
  const std::string used = R"("inputs":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                           R"("targets":{"dtype":"I64","shape":[2],"data_offsets":[8,24]})";
  CHECK(load(write("{" + used + R"(,"id":{"dtype":"U64","shape":[2],"data_offsets":[24,40]}})", 40)).train->size() ==
        2);
  CHECK(load(write("{" + used + R"(,"x":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[24,27]}})", 27)).train->size() ==
        2);
  CHECK(failure(write("{" + used + R"(,"id":{"dtype":"U64","shape":[2],"data_offsets":[30,46]}})", 46))
            .find("6 bytes before tensor id belong to no tensor") != std::string::npos);
  CHECK(failure(write(R"({"inputs":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                      R"("targets":{"dtype":"U64","shape":[2],"data_offsets":[8,24]}})",
                      24))
            .find("tensor targets has dtype U64, which is not supported") != std::string::npos);
  CHECK(failure(write(R"({"inputs":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                      R"("labels":{"dtype":"U64","shape":[2],"data_offsets":[8,24]}})",
                      24))
            .find("no tensor named \"targets\" (it has inputs, labels)") != std::string::npos);
}

}  // namespace tensors_test

#include "tests/support/doctest.hpp"

#include "troupe/runtime/node/fingerprint.hpp"

#include <ATen/ops/arange.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>

using namespace troupe;

TEST_CASE("another module of the same weights has another digest") {
  const auto path = std::filesystem::temp_directory_path() / ("troupe-module-" + std::to_string(::getpid()));
  const at::Tensor weights = at::arange(5);
  const auto digest_with = [&](const std::string& module) {
    std::ofstream(path, std::ios::binary) << module;
    return digest_of(weights, path);
  };
  const std::string module(100'000, 'm');
  const auto first = digest_with(module);
  CHECK(first.size() == 8);
  CHECK(first == digest_with(module));
  CHECK(first != digest_with(module + "n"));
  CHECK(first != digest_of(weights));
  CHECK(first != digest_of(weights + 1, path));
  std::filesystem::remove(path);
}

TEST_CASE("a digest of a text that windows are drawn from covers what follows the last whole one") {
  const auto digest_with = [](std::int64_t last, bool drawn) {
    auto text = at::arange(8);
    text[7] = last;
    const auto set = std::make_shared<data::dataset>(data::dataset{.inputs = text.narrow(0, 0, 6).view({2, 3}),
                                                                   .targets = text.narrow(0, 1, 6).view({2, 3}),
                                                                   .classes{},
                                                                   .drawn_from = drawn ? text : at::Tensor{}});
    return digest_of(data::dataset_pair{.train = set, .test = set, .scale{}, .files{}});
  };
  CHECK(digest_with(7, true) != digest_with(9, true));
  CHECK(digest_with(7, true) == digest_with(7, true));
  CHECK(digest_with(7, false) == digest_with(9, false));
}

#include "tests/support/doctest.hpp"

#include "troupe/runtime/node/fingerprint.hpp"

#include <ATen/ops/arange.h>

#include <filesystem>
#include <fstream>
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

#include "troupe/runtime/supervision/fingerprint.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/launch/arithmetic.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>

namespace node_fingerprint_test {

using namespace troupe;

TEST_CASE("a fingerprint holds what the bits of a result depend on") {
  const auto here = fingerprint();
  for (const auto* name : {"LibTorch", "CPU", "CPU capability", "CUDA", "kernel selection"}) {
    CAPTURE(name);
    CHECK(!here.at(name).empty());
  }
  CHECK(here.at("arithmetic").size() == 8);
  CHECK(here.at("bfloat16 arithmetic").size() == 8);
  CHECK(here == fingerprint());
}

TEST_CASE("the number of intra-op threads does not change the digests of arithmetic, which leave it as it was") {
  at::set_num_threads(2);
  const auto with_two = compute_arithmetic();
  CHECK(at::get_num_threads() == 2);
  at::set_num_threads(1);
  const auto with_one = compute_arithmetic();
  CHECK(with_two.float32 == with_one.float32);
  CHECK(with_two.bfloat16 == with_one.bfloat16);
}

TEST_CASE("fingerprints are compared by what both have, and by all that every build writes") {
  const std::map<std::string, std::string> here{{"CPU", "one"}, {"arithmetic", "01234567"}};
  CHECK(differing(here, here).empty());
  CHECK(differing(here, {{"CPU", "one"}, {"arithmetic", "76543210"}}) ==
        "arithmetic is 76543210 there and 01234567 here");
  CHECK(differing(here, {{"CPU", "two"}, {"arithmetic", "01234567"}}) == "CPU is two there and one here");
  CHECK(differing(here, {{"CPU", "one"}}).empty());  // a checkpoint of an older build
  CHECK(differing(here, {{"arithmetic", "01234567"}}) == "CPU is unknown there and one here");
}

TEST_CASE("variables that select kernels are named with their values") {
  const auto* before = std::getenv("MKL_CBWR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("MKL_CBWR", "AVX2\xff\n", 1);
  CHECK(kernel_settings().find("MKL_CBWR=AVX2") != std::string::npos);
  CHECK(kernel_settings().find('\n') == std::string::npos);
  if (before != nullptr)
    ::setenv("MKL_CBWR", kept.c_str(), 1);
  else
    ::unsetenv("MKL_CBWR");
}

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

}  // namespace node_fingerprint_test

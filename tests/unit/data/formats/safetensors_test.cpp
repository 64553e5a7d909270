#include "troupe/data/formats/safetensors.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace safetensors_test {

using namespace troupe::data;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

/// A folder of one test.
struct scratch {
  fs::path folder = fs::temp_directory_path() / ("troupe-data-" + std::to_string(::getpid()));
  scratch() { fs::create_directories(folder); }
  ~scratch() { fs::remove_all(folder); }
  fs::path write(const std::string& bytes) const {
    std::ofstream(folder / "w.safetensors", std::ios::binary) << bytes;
    return folder / "w.safetensors";
  }
};

/// Writes a file with the length of this header, the header, and these data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string refusal(const fs::path& path) {
  try {
    read_safetensors(path);
  } catch (const data_error& error) {
    return error.what();
  }
  return "accepted";
}

/// The output of Python's safetensors 0.6.2 for {"fc.weight": float32 [[1, 2, 3], [4, 5, 6]], "steps": int64 [7]} with
/// metadata {"model": "tiny"}.
std::string python_file() {
  return "\xa0\0\0\0\0\0\0\0"s +
         R"({"__metadata__":{"model":"tiny"},"steps":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
         R"("fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}      )" +
         "\x07\0\0\0\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@\0\0\xc0@"s;
}

}  // namespace

TEST_CASE("a file written by Python is read") {
  const scratch here;
  const auto content = read_safetensors(here.write(python_file()));
  CHECK(content.metadata.at("model") == "tiny");
  REQUIRE(content.tensors.size() == 2);
  CHECK(content.tensors[0].first == "steps");
  CHECK(content.tensors[0].second.item<std::int64_t>() == 7);
  CHECK(content.tensors[1].first == "fc.weight");
  CHECK(content.tensors[1].second.equal(at::arange(1, 7, at::kFloat).view({2, 3})));
}

TEST_CASE("what is written is read back, and equal content gives equal bytes") {
  const scratch here;
  const tensor_file content{{{"b", at::arange(3, at::kFloat)}, {"a", at::ones({2, 2}, at::kDouble).t()}},
                            {{"model", "tiny \"quoted\""}}};
  const auto bytes = safetensors_of(content);
  CHECK(bytes == safetensors_of(content));
  CHECK((bytes.size() - 12 - 32) % 8 == 0);  // the data begin at a multiple of eight
  const auto back = read_safetensors(here.write(bytes));
  CHECK(back.metadata == content.metadata);
  REQUIRE(back.tensors.size() == 2);
  CHECK(back.tensors[0].first == "b");
  CHECK((back.tensors[1].second.scalar_type() == at::kDouble));
  CHECK(back.tensors[1].second.equal(content.tensors[1].second));
}

TEST_CASE("a broken file is refused with the reason") {
  const scratch here;
  const auto four = std::string(4, 'x');
  const auto entry = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const struct {
    std::string bytes, reason;
  } broken[] = {
      {"", "it has only 0 bytes"},
      {"\xff\0"s, "it has only 2 bytes"},
      {"\xff\xff\xff\xff\xff\xff\xff\xff{}",
       "not a safetensors file; expected a file such as safetensors.torch.save_file() writes"},
      {"\x03\0\0\0\0\0\0\0{}"s, "its header claims 3 bytes, but the file has 10"},
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
      {file_of(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four), "an invalid size in shape"},
      {file_of(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), four), "an invalid size in shape"},
      {file_of(entry(R"("dtype":"F32","shape":[1e30],"data_offsets":[0,4])"), four), "an invalid size in shape"},
      {file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four), "does not match its shape"},
      {file_of(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,0])"), four), "does not match its shape"},
      {file_of(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), ""),
       "does not match its shape"},  // 2^64 elements, which overflows to zero
      {file_of(entry(R"("dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0])"), ""),
       "does not match its shape"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), four), "extends beyond the file"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), four), "extends beyond the file"},
      {file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), four), "extends beyond the file"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"u":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           four),
       "tensors t and u overlap"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           four),
       "tensor t is listed twice"},
      {file_of(entry(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), four),
       "1 byte at its end belong to no tensor"},
      {file_of(entry(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])"), four),
       "2 bytes before tensor t belong to no tensor"},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},"u":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
           four),
       "1 byte before tensor t belong to no tensor"},
      {file_of("{}", four), "4 bytes at its end belong to no tensor"},
  };
  for (const auto& [bytes, reason] : broken) {
    CAPTURE(reason);
    const auto path = here.write(bytes);
    const auto said = refusal(path);
    CHECK(said.starts_with(path.string() + ": "));
    CHECK(said.find(reason) != std::string::npos);
  }
  CHECK(refusal(here.folder / "none").find("no such file; check the path") != std::string::npos);
  CHECK(refusal(here.folder).find("this is a folder, not a regular file; name a file") != std::string::npos);
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

}  // namespace safetensors_test

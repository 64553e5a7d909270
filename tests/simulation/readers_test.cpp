// Mutated inputs for every reader of files and of HTTP, in this process. Whatever they contain, they are accepted, or
// refused with a message. TROUPE_TESTS_FULL tests more of them. Recordings and topology files, which are also run, are
// in mutations_test.cpp.
#include "tests/support/doctest.hpp"
#include "tests/support/images.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/sparse_files.hpp"

#include "troupe/data/formats/image_codec.hpp"
#include "troupe/data/formats/safetensors.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/checkpoint/read_weights.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"
#include "troupe/runtime/security/authority.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/comparing/calibration.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/diagnosis/measured_run.hpp"
#include "troupe/tools/watching/http_client.hpp"
#include "troupe/tools/watching/http_text.hpp"
#include "troupe/tools/watching/seen_run.hpp"
#include "troupe/tools/watching/site.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <caffe2/serialize/inline_container.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace readers_test {

namespace {

using namespace troupe;
using namespace std::string_literals;
using data::random_stream;
using testing::row_folder;
using testing::scratch;
namespace fs = std::filesystem;

std::size_t place_in(random_stream& random, const std::string& text) {
  return text.empty() ? 0 : static_cast<std::size_t>(random.below(text.size()));
}

template <class Number>
void overwrite(random_stream& random, std::string& text) {
  static const std::array odd{Number{0},
                              Number{1},
                              static_cast<Number>(-1),
                              std::numeric_limits<Number>::max(),
                              static_cast<Number>(Number{1} << (8 * sizeof(Number) - 1)),
                              Number{255}};
  if (text.size() < sizeof(Number)) return;
  auto number = odd.at(random.below(odd.size()));
  if (random.below(2) == 0) number = static_cast<Number>(__builtin_bswap64(number) >> (64 - 8 * sizeof(Number)));
  std::memcpy(text.data() + random.below(text.size() - sizeof(Number) + 1), &number, sizeof(Number));
}

/// Changes a text in one to four places. `pieces` are inserted as they are.
std::string changed(random_stream& random, std::string text, const std::vector<std::string>& pieces = {}) {
  for (auto times = 1 + random.below(4); times > 0; --times) {
    const auto at = place_in(random, text);
    const auto some = static_cast<std::size_t>(1 + random.below(16));
    switch (random.below(10)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, some);
        break;
      case 2:
        text.insert(at, text.substr(place_in(random, text), some));
        break;
      case 3:
        for (auto i = at; i < std::min(text.size(), at + some); ++i) text[i] = static_cast<char>(random.below(256));
        break;
      case 4:
        overwrite<std::uint32_t>(random, text);
        break;
      case 5:
        overwrite<std::uint64_t>(random, text);
        break;
      case 6:
      case 7:
        if (!pieces.empty()) {
          text.insert(at, pieces[random.below(pieces.size())]);
          break;
        }
        [[fallthrough]];
      default:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
    }
  }
  return text;
}

/// Reads mutated inputs. Each is accepted, or refused with a useful message that is not a library's own.
void demand_words(const std::string& name, const std::function<void(random_stream&)>& read, std::uint64_t part = 1) {
  CAPTURE(name);
  constexpr unsigned seconds_for_each = 60;
  std::uint64_t accepted = 0;
  const auto count = tests::repeat(300, 7'000) / part;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    ::alarm(seconds_for_each);
    random_stream random{seed};
    try {
      read(random);
      ++accepted;
    } catch (const std::runtime_error& error) {
      const std::string said = error.what();
      CAPTURE(said);
      CHECK(said.size() > 10);
      for (const auto* raw : {"INTERNAL ASSERT", "std::", "basic_string", "bad_alloc", "vector::", "[json.exception"})
        CHECK(said.find(raw) == std::string::npos);
    }
  }
  ::alarm(0);
  if (std::getenv("TROUPE_TESTS_SHOW") != nullptr)
    std::printf("%s: %llu inputs, %llu accepted\n", name.c_str(), static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(accepted));
}

std::string one_of(random_stream& random, const std::vector<std::string>& all) {
  return all[random.below(all.size())];
}

data::dataset_pair load(const std::string& kind, const fs::path& file) {
  data::data_source from;
  from.file = file;
  from.sequence_length = 2;
  return data::find_dataset(kind)->load(from);
}

/// Makes a batch of all samples, as a run would.
void use(const data::dataset& set) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(set.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  if (!set.files) data::make_batch(set, {}, all);
}

}  // namespace

TEST_CASE("images of other contents are decoded or refused") {
  const scratch here;
  const std::vector<std::string> images{
      test::plain_png(3, 3, 200, 1, 9),
      test::png(2, {"\x01\x02"s, "\x00\x01"s}, 8, 3, test::png_chunk("PLTE", "abcdefghi")),
      test::png(2, {"\x01\x02\x03\x04\x05\x06\x07\x08"s}, 16, 4),
      test::plain_jpeg(20, 9, 77),
      test::plain_jpeg(16, 16, 77, {{{2, 2}, {1, 1}, {1, 1}}}, true),
      test::plain_jpeg(16, 8, 77, {{{4, 1}, {1, 1}, {1, 1}}})};
  const std::vector<std::string> pieces{
      "\xff\xd8", "\xff\xd9", "\xff\xda", "\xff\xc0",         "\xff\xc9", "\xff\xdd\x00\x04\x00\x01"s,
      "\xff\xd0", "IDAT",     "tRNS",     "\xff\xff\xff\xff", "\0\0\0\0"s};
  demand_words("images", [&](random_stream& random) {
    const auto file = here.write("a.png", changed(random, one_of(random, images), pieces));
    const auto extent = data::extent_of_image(file);
    if (extent.height * extent.width > 1'000'000) return;  // it would only take longer
    const auto decoded = data::decode_image(file);
    CHECK(decoded.extent == extent);
  });
}

TEST_CASE("data sets of other contents are read or refused") {
  const row_folder here;
  const std::vector<std::string> numbers{"1e999",    "-1", "nan", "0", "99999999999999999999", ":", "\0"s,
                                         "\xff\xfe", "::", ",",   " "};
  const auto idx = "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x01"s + "abcd";
  const auto packed = [&](const std::string& text) { return testing::contents(here.pack("packed", text)); };
  const std::vector<std::string> all_idx{idx, packed(idx)};
  demand_words("idx", [&](random_stream& random) {
    const auto file = here.write("idx", changed(random, one_of(random, all_idx)));
    data::data_source from{here.path()};
    for (const auto* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"})
      fs::copy_file(file, here.path() / name, fs::copy_options::overwrite_existing);
    for (const auto* name : {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"})
      here.write(name, "\0\0\x08\x01\0\0\0\x02\x01\x00"s);
    use(*data::find_dataset("mnist")->load(from).train);
  });
  demand_words("cifar10", [&](random_stream& random) {
    const std::string record(3073, '\2');
    for (const auto* name :
         {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"})
      here.write(name, record);
    here.write("test_batch.bin", changed(random, record + record));
    use(*data::find_dataset("cifar10")->load(here.path()).test);
  });
  const auto inputs = at::arange(24, at::kFloat).view({4, 6}), tokens = at::ones({4, 3}, at::kLong);
  const auto targets = at::arange(4, at::kLong);
  const std::vector<std::string> tensors{
      data::safetensors_of({.tensors = {{"inputs", inputs}, {"targets", targets}}, .metadata = {{"classes", "4"}}}),
      data::safetensors_of({.tensors = {{"inputs", tokens}, {"targets", tokens}, {"other", inputs}}, .metadata{}}),
      data::safetensors_of(
          {.tensors = {{"inputs", inputs}, {"targets", targets.to(at::kBool).view({4, 1})}}, .metadata{}})};
  const std::vector<std::string> of_header{"F64",    "BOOL",    "U64",
                                           "inputs", "targets", "[",
                                           "]",      "{",       "}",
                                           "\"",     "-1",      "18446744073709551615",
                                           "1e5",    ",",       std::string(300, '[')};
  demand_words("tensors", [&](random_stream& random) {
    use(*load("tensors", here.write("t", changed(random, one_of(random, tensors), of_header))).train);
  });
  const std::string text = "The quick brown fox, z\xc3\xa4h und s\xc3\xbc\xc3\x9f.\nAnother line";
  demand_words("text", [&](random_stream& random) {
    use(*load("text", here.write("text", changed(random, text, {"\xef\xbb\xbf", "\xff\xfe", "\xf0\x9f", "\n"}))).train);
  });
  const std::string ratings = "0 1 5\n1::2::3.5::97\n2,0,1\n# none\n\n";
  for (const std::string kind : {"libsvm", "triplets"}) {
    const auto rows = kind == "libsvm" ? testing::small : ratings;
    const std::vector<std::string> plain_and_packed{rows, packed(rows)};
    demand_words(kind, [&](random_stream& random) {
      const auto sets = load(kind, here.write(kind, changed(random, one_of(random, plain_and_packed), numbers)));
      constexpr std::int64_t most_columns = 1 << 20;
      if (sets.train->rows->columns() < most_columns) use(*sets.train);
    });
    const auto file = here.write(kind, rows);
    const auto as_text = testing::text_of(*testing::load(kind, file).train);
    testing::load(kind, file, {}, true);
    const auto whole = testing::contents(file.string() + ".rows");
    demand_words(
        kind + ".rows",
        [&](random_stream& random) {
          here.write(kind + ".rows", changed(random, whole));
          CHECK(testing::text_of(*testing::load(kind, file, {}, true).train) == as_text);
        },
        3);
  }
}

TEST_CASE("weights of other contents are read or refused") {
  const scratch here;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  dict.insert("fc.weight", at::ones({3, 4}));
  dict.insert("fc.bias", at::ones({3}));
  const auto pickled = torch::jit::pickle_save(dict);
  torch::jit::Module module{"tiny"};
  module.register_parameter("weight", at::ones({2, 2}), false);
  module.define("def forward(self, x):\n  return x @ self.weight\n");
  std::ostringstream script;
  module.save(script);
  const std::vector<std::string> files{
      data::safetensors_of({.tensors = {{"fc.weight", at::ones({3, 4})}}, .metadata = {{"model", "mlp"}}}),
      std::string(pickled.begin(), pickled.end()), script.str()};
  constexpr std::uint64_t part = 3;  // LibTorch takes a tenth of a second to refuse one
  const auto read = [&](random_stream& random) {
    checkpoint::read_weights(here.write("w", changed(random, one_of(random, files))));
  };
  demand_words("weights", read, part);
  // An intact archive with a mutated pickle.
  const auto path = here.write("dict.pt", files[1]);
  caffe2::serialize::PyTorchStreamReader archive{path.string()};
  const auto [bytes, size] = archive.getRecord("data.pkl");
  const std::string pickle{static_cast<const char*>(bytes.get()), size};
  const std::vector<std::string> pieces{"ccollections\nOrderedDict\n",
                                        "ctorch._utils\n_rebuild_tensor_v2\n",
                                        "X\x05\0\0\0model"s,
                                        "\x8a\x01\x00"s,
                                        "}",
                                        ")",
                                        "u",
                                        "(",
                                        "t",
                                        "R",
                                        "Q",
                                        "K\xff",
                                        "J\xff\xff\xff\x7f",
                                        "."};
  const auto read_pickle = [&](random_stream& random) {
    const auto to = (here.path() / "pickle.pt").string();
    {
      caffe2::serialize::PyTorchStreamWriter writer{to};
      const auto other = changed(random, pickle, pieces);
      writer.writeRecord("data.pkl", other.data(), other.size());
      for (const auto& name : archive.getAllRecords())
        if (name.starts_with("data/")) {
          const auto [data, length] = archive.getRecord(name);
          writer.writeRecord(name, data.get(), length);
        }
      writer.writeEndOfFile();
    }
    checkpoint::read_weights(to);
  };
  demand_words("pickles", read_pickle, part);
}

TEST_CASE("checkpoints of other contents are read or refused") {
  const scratch here;
  run_state state{.step = 4, .actors = {}};
  state.actors["worker 0"].put("weights", at::arange(100, at::kFloat));
  state.actors["worker 1"].put("weights", at::arange(100, at::kFloat));
  state.actors["worker 1"].put_count("steps", 4);
  durable_files disk;
  checkpoint::write_checkpoint(
      here.path(), state, {.topology = "[run]\nsteps = 4\n", .outputs = {{"metrics.jsonl", {.bytes = 7}}}}, 1, disk);
  const auto folder = checkpoint::checkpoints_in(here.path()).front().path;
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& each : fs::directory_iterator(folder))
    files.emplace_back(each.path().filename().string(), testing::contents(each.path()));
  demand_words("checkpoints", [&](random_stream& random) {
    const auto& [name, whole] = files[random.below(files.size())];
    std::ofstream(folder / name, std::ios::binary) << changed(random, whole);
    try {
      checkpoint::read_checkpoint(folder);
    } catch (const std::runtime_error&) {
      std::ofstream(folder / name, std::ios::binary) << whole;
      throw;
    }
    std::ofstream(folder / name, std::ios::binary) << whole;
  });
  const auto print = [](const nlohmann::json& value) {
    return value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto inner = print(nlohmann::json::parse(testing::contents(folder / "manifest.json"))["manifest"]);
  const std::vector<std::string> pieces{"\"",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        ",",
                                        ":",
                                        "null",
                                        "-1",
                                        "1e999",
                                        "../x",
                                        "worker-0.safetensors",
                                        "\"step\": 18446744073709551615,"};
  demand_words("sealed manifests", [&](random_stream& random) {
    const auto other = nlohmann::json::parse(changed(random, inner, pieces), nullptr, false);
    checkpoint::parse_manifest(print({{"sha256", sha256_of(print(other))}, {"manifest", other}}) + "\n");
  });
}

TEST_CASE("recordings, topologies and results of other contents are read or refused") {
  const scratch here;
  std::vector<recording::entry> entries(5, {.actor = 1, .what = {.what = delivery::kind::part, .step = 3}});
  auto bytes = recording::header_of({.version = "1", .topology = "[run]", .digests = {{"samples", "00"}}});
  for (const auto& block : {recording::block_of(entries, 1), recording::block_of({}, 2)})
    bytes.insert(bytes.end(), block.begin(), block.end());
  const std::string whole{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  demand_words("recordings", [&](random_stream& random) { recording::read(here.write("d", changed(random, whole))); });
  const auto file = R"([run]
seed = 1
steps = 6
[model]
name = "mlp"
[data]
name = "digits"
batch_size = 8
[workers]
count = 3
[exchange]
kind = "all_reduce"
[[link]]
at = "*"
latency = "20ms"
)"s;
  demand_words("topologies", [&](random_stream& random) {
    const auto other =
        changed(random, file, {"\"", "'''", "[[", "]]", "=", "\n", "1e400", "extends = \"t.toml\"\n", "\\u0000", "# "});
    topology::load(here.write("t.toml", other));
  });
  const auto metrics = R"({"event":"start","step":0,"seconds":0.1}
{"event":"epoch","step":8,"epoch":1,"seconds":1.5,"train_seconds":1.2,"train_loss":0.5,"val_accuracy":0.9,"epoch_seconds":1}
{"event":"end","status":"done","step":16,"seconds":3,"train_seconds":2.5,"bytes_sent":100,"samples_per_second":9}
)"s;
  const auto workers =
      "worker,steps,samples,busy_seconds,data_wait_seconds,exchange_wait_seconds\n0,16,128,1,0.5,0.5\n1,16,128,2,0,0\n"s;
  const auto links = "interface,direction,bytes,busy_seconds,busy_share,wait_mean_seconds\nw0,send,100,1,0.5,0.1\n"s;
  const std::vector<std::string> pieces{"\"",    "{", "}",  "[",    "null",    "-1",
                                        "1e999", ",", "\n", "\xff", "\x1b[2J", std::string(400, '[')};
  demand_words("results", [&](random_stream& random) {
    const auto m = changed(random, metrics, pieces), w = changed(random, workers, pieces),
               l = changed(random, links, pieces);
    const auto of = random.below(4);
    for (std::string_view rest = m; !rest.empty();) {
      telemetry::record_of(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(std::min(rest.size(), rest.substr(0, rest.find('\n')).size() + 1));
    }
    diagnosis::parse_run(of == 0 ? metrics : m, of == 1 ? workers : w, of == 2 ? links : l, "out");
  });
  here.write("run/topology.toml", file);
  demand_words("results to compare with", [&](random_stream& random) {
    here.write("run/metrics.jsonl", changed(random, metrics, pieces));
    here.write("run/workers.csv", changed(random, workers, pieces));
    here.write("run/links.csv", changed(random, links, pieces));
    comparing::read_figures(here.path() / "run");
  });
  const auto comparison =
      R"({"format":1,"started":"now","first_seed":1,"repeats":2,"target":0.9,"simulated":false,"machines":[{"CPU":"x"}],)"
      R"("variants":[{"file":"a.toml","label":"a","folder":"a","varied":[]}]})"s;
  here.write("c/topologies/a.toml", file);
  here.write("c/wirings/a.svg", "<svg/>");
  demand_words("comparisons", [&](random_stream& random) {
    here.write("c/comparison.json", changed(random, comparison, pieces));
    comparing::read_comparison(here.path() / "c");
  });
}

TEST_CASE("certificates, keys and secrets of other contents are read or refused") {
  const scratch here;
  security::make_certificates({.folder = here.path(), .nodes = {"alpha"}});
  const auto files = security::files_in(here.path(), "alpha");
  std::vector<std::pair<fs::path, std::string>> whole;
  for (const auto& path : {files.authority, files.certificate, files.key})
    whole.emplace_back(path, testing::contents(path));
  // Mutates the encoded bytes, so that a certificate is decoded and then found to be invalid.
  const auto inside = [](random_stream& random, const std::string& pem) {
    const auto begin = pem.find('\n') + 1, end = pem.rfind("\n-----END");
    std::string base64;
    for (const char c : pem.substr(begin, end - begin))
      if (c != '\n') base64 += c;
    std::string der(base64.size(), '\0');
    const auto* from = reinterpret_cast<const unsigned char*>(base64.data());
    der.resize(static_cast<std::size_t>(
        EVP_DecodeBlock(reinterpret_cast<unsigned char*>(der.data()), from, static_cast<int>(base64.size()))));
    der = changed(random, der);
    std::string encoded(4 * der.size() / 3 + 8, '\0');
    encoded.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                                            reinterpret_cast<const unsigned char*>(der.data()),
                                                            static_cast<int>(der.size()))));
    std::string text = pem.substr(0, begin);
    for (std::size_t at = 0; at < encoded.size(); at += 64) text += encoded.substr(at, 64) + "\n";
    return text + pem.substr(end + 1);
  };
  demand_words("certificates", [&](random_stream& random) {
    const auto& [path, text] = whole[random.below(whole.size())];
    const auto restore = [&, &to = path, &as = text] { std::ofstream(to, std::ios::binary) << as; };
    std::ofstream(path, std::ios::binary) << (random.below(3) == 0 ? changed(random, text) : inside(random, text));
    try {
      security::check(files, "alpha");
    } catch (const std::runtime_error&) {
      restore();
      throw;
    }
    restore();
  });
  const auto secret = security::make_secret();
  demand_words("secrets", [&](random_stream& random) {
    security::parse_secret(changed(random, secret), "the secret of the nodes");
  });
}

TEST_CASE("requests and answers of HTTP with other contents get an answer or a refusal") {
  watching::site pages({.facts = {}, .run = std::make_shared<watching::history>(false), .token = ""});
  const std::vector<std::string> requests{
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /data.json HTTP/1.1\r\nHost: 127.0.0.1:8265\r\nAuthorization: Bearer x\r\n\r\n",
      "HEAD /events.json?token=a HTTP/1.0\r\nHost: [::1]:8265\r\nContent-Length: 0\r\n\r\n"};
  const std::vector<std::string> pieces{"\r\n",
                                        "\n",
                                        ":",
                                        " ",
                                        "%00",
                                        "../",
                                        "\0"s,
                                        "\xff",
                                        "Host: evil\r\n",
                                        "Transfer-Encoding: chunked\r\n",
                                        "Content-Length: 99999999999999999999\r\n",
                                        std::string(9000, 'a')};
  demand_words("requests", [&](random_stream& random) {
    const auto answer = watching::answer_to(changed(random, one_of(random, requests), pieces), pages);
    CHECK((answer.empty() || answer.starts_with("HTTP/1.1 ")));
  });
  const auto seen =
      R"({"title":"a.toml","model":"mlp","data":"digits","status":"training","step":3,"steps":9,"seconds":1.5,"workers":[{"step":3,"compute":0.5}],"losses":[[1,0.5]],"links":[],"edges":[]})"s;
  demand_words("answers", [&](random_stream& random) {
    watching::event_reader events(1u << 16u);
    const auto text = changed(random, "data: " + seen + "\n\ndata: " + seen + "\r\n\r\n",
                              {"\"", "[", "{", "}", "null", "-1", "1e999", "\n\ndata:", std::string(2000, '[')});
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(std::min<std::size_t>(rest.size(), 17)))
      for (const auto& each : events.read(rest.substr(0, 17))) watching::parse_seen_run(each);
  });
}

}  // namespace readers_test

#include "troupe/runtime/checkpoint/manifest.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/support/sha256.hpp"

#include <nlohmann/json.hpp>

#include <functional>

namespace checkpoint_manifest_test {

using namespace troupe;
using checkpoint::parse_manifest;
using checkpoint::text_of;
using json = nlohmann::ordered_json;

namespace {

checkpoint::manifest example() {
  return {
      .step = 561,
      .files = {{"worker-0.safetensors", {10, sha256_of("a")}}, {"worker-1.safetensors", {20, sha256_of("b")}}},
      .actors = {{"worker 0", {"worker-0.safetensors", {}}},
                 {"worker 1", {"worker-1.safetensors", {{"compute/weights", "worker-0.safetensors", "compute/w"}}}}},
      .topology = "run.seed = 1\nmodel.name = \"convnet\"\n",
      .fingerprint = {{"CPU", "a \"quoted\" name"}},
      .digests = {{"samples", "01234567"}},
      .outputs = {{"metrics.jsonl", {12, "ab"}}, {"epochs.csv", {3, "cd"}}},
      .options = {{"csv", {"/folder/é.csv", 7, sha256_of("c")}}}};
}

/// Returns why a manifest is refused that was changed and whose digest was renewed.
std::string refusal(const std::function<void(json&)>& change) {
  auto whole = json::parse(text_of(example()));
  change(whole["manifest"]);
  whole["sha256"] = sha256_of(whole["manifest"].dump(1));
  try {
    parse_manifest(whole.dump(1) + "\n");
  } catch (const checkpoint::damaged& reason) {
    return reason.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a manifest is read as it was written") {
  CHECK((parse_manifest(text_of(example())) == example()));
  CHECK((parse_manifest(text_of({})) == checkpoint::manifest{}));
  CHECK(refusal([](json&) {}) == "accepted");
}

TEST_CASE("a manifest with any changed bit is refused") {
  const auto text = text_of(example());
  for (std::size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    auto changed = text;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    CHECK_THROWS_AS(parse_manifest(changed), checkpoint::damaged);
    CHECK_THROWS_AS(parse_manifest(text.substr(0, at)), checkpoint::damaged);
  }
}

TEST_CASE("a manifest that was made up is refused with the reason") {
  CHECK(refusal([](json& all) { all["format"] = 2; }) ==
        "the checkpoint has format 2; this version of Troupe reads format 1");
  CHECK(refusal([](json& all) { all["step"] = -1; }) == "manifest.json: step is not an unsigned integer");
  CHECK(refusal([](json& all) { all["step"] = "1"; }) == "manifest.json: step is not an unsigned integer");
  CHECK(refusal([](json& all) { all["step"] = 1e300; }) == "manifest.json: step is not an unsigned integer");
  CHECK(refusal([](json& all) { all.erase("topology"); }) == "manifest.json has no entry topology");
  CHECK(refusal([](json& all) { all["topology"] = json::array(); }) == "manifest.json: topology is not a string");
  CHECK(refusal([](json& all) { all["files"] = 3; }) == "manifest.json: files is not an object");
  CHECK(refusal([](json& all) { all["fingerprint"]["CPU"] = 3; }) == "manifest.json: CPU is not a string");
  CHECK(refusal([](json& all) { all["outputs"]["epochs.csv"] = "3"; }) ==
        "manifest.json: epochs.csv is not an unsigned integer");
  CHECK(refusal([](json& all) { all["more"] = 3; }) == "manifest.json does not match its own digest");
  CHECK(refusal([](json& all) { all["files"]["worker-0.safetensors"] = 3; }) == "manifest.json has no entry bytes");
  for (const auto* name : {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\nb", "manifest.json"}) {
    CAPTURE(name);
    CHECK(refusal([&](json& all) {
            all["files"][name] = all["files"]["worker-0.safetensors"];
          }).ends_with("which cannot be in a checkpoint"));
    CHECK(refusal([&](json& all) { all["actors"]["worker 0"]["file"] = name; }).ends_with("which it does not list"));
    CHECK(refusal([&](json& all) {
            all["actors"]["worker 1"]["repeated"]["compute/weights"]["file"] = name;
          }).ends_with("which it does not list"));
  }
  for (const auto* text : {"", "[]", "3", "null", "{}", "{\"manifest\": 3}", "{\"manifest\": {\"format\": 1}}"})
    CHECK_THROWS_AS(parse_manifest(text), checkpoint::damaged);
  CHECK_THROWS_AS(parse_manifest(std::string(100'000, '[')), checkpoint::damaged);
}

}  // namespace checkpoint_manifest_test

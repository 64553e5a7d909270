#include "troupe/runtime/checkpoint/manifest.hpp"

#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/topology/canonical.hpp"

#include <algorithm>
#include <cctype>

namespace troupe::checkpoint {

namespace {

using json = files::json;

constexpr std::uint64_t manifest_version = 1;

json json_of(const manifest& content) {
  json object{
      {"format", manifest_version}, {"step", content.step}, {"files", json::object()}, {"actors", json::object()}};
  for (const auto& [name, file] : content.files)
    object["files"][name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  for (const auto& [name, actor] : content.actors) {
    json repeated = json::object();
    for (const auto& entry : actor.repeated)
      repeated[entry.name] = {{"file", entry.file}, {"name", entry.name_in_file}};
    object["actors"][name] = {{"file", actor.file}, {"repeated", repeated}};
  }
  object["topology"] = content.topology;
  object["fingerprint"] = content.fingerprint;
  object["digests"] = content.digests;
  object["outputs"] = json::object();
  for (const auto& [name, file] : content.outputs)
    object["outputs"][name] =
        file.sha256.empty() ? json(file.bytes) : json{{"bytes", file.bytes}, {"sha256", file.sha256}};
  object["options"] = json::object();
  for (const auto& [name, file] : content.options)
    object["options"][name] = {{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}};
  return object;
}

/// Returns a member of a JSON object.
const json& at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) throw damaged(std::string("manifest.json has no entry ") + key);
  return *found;
}

[[noreturn]] void refuse_type(const std::string& key, const char* expected) {
  throw damaged("manifest.json: " + text::printable(key) + " is not " + expected);
}

const json& object_at(const json& object, const char* key) {
  const auto& value = at(object, key);
  if (!value.is_object()) refuse_type(key, "an object");
  return value;
}

std::string text_at(const json& object, const char* key) {
  const auto& value = at(object, key);
  if (!value.is_string()) refuse_type(key, "a string");
  return value.get<std::string>();
}

std::uint64_t number(const json& value, const std::string& key) {
  if (!value.is_number_unsigned()) refuse_type(key, "an unsigned integer");
  return value.get<std::uint64_t>();
}

std::map<std::string, std::string> texts_at(const json& object, const char* key) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : object_at(object, key).items()) {
    if (!value.is_string()) refuse_type(name, "a string");
    texts.emplace(name, value.get<std::string>());
  }
  return texts;
}

/// Returns the recorded size and digest of an output. Earlier versions recorded only the size.
sealed_file output_of(const json& value, const std::string& name) {
  if (!value.is_object()) return {number(value, name)};
  return {number(at(value, "bytes"), "bytes"), text_at(value, "sha256")};
}

/// Returns the name of a file that the manifest lists.
std::string file_at(const json& object, const char* key, const manifest& so_far) {
  auto name = text_at(object, key);
  if (!so_far.files.contains(name))
    throw damaged("manifest.json refers to the file " + text::printable(name) + ", which it does not list");
  return name;
}

saved_actor actor_of(const json& value, const manifest& so_far) {
  saved_actor actor{.file = file_at(value, "file", so_far)};
  for (const auto& [name, where] : object_at(value, "repeated").items())
    actor.repeated.push_back({name, file_at(where, "file", so_far), text_at(where, "name")});
  return actor;
}

manifest manifest_of(const json& object) {
  manifest content;
  const auto version = number(at(object, "format"), "format");
  if (version != manifest_version)
    throw damaged("the checkpoint has format " + std::to_string(version) + "; this version of Troupe reads format " +
                  std::to_string(manifest_version));
  content.step = number(at(object, "step"), "step");
  for (const auto& [name, value] : object_at(object, "files").items()) {
    if (!plain_name(name) || name == "manifest.json")
      throw damaged("manifest.json lists the file " + text::printable(name) + ", which cannot be in a checkpoint");
    content.files[name] = {number(at(value, "bytes"), "bytes"), text_at(value, "sha256")};
  }
  for (const auto& [name, value] : object_at(object, "actors").items()) content.actors[name] = actor_of(value, content);
  content.topology = text_at(object, "topology");
  content.fingerprint = texts_at(object, "fingerprint");
  content.digests = texts_at(object, "digests");
  for (const auto& [name, value] : object_at(object, "outputs").items()) content.outputs[name] = output_of(value, name);
  for (const auto& [name, value] : object_at(object, "options").items())
    content.options[name] = {text_at(value, "path"), number(at(value, "bytes"), "bytes"), text_at(value, "sha256")};
  return content;
}

}  // namespace

bool plain_name(const std::string& name) {
  constexpr std::size_t longest = 200;
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= longest && name.front() != '.' && std::all_of(name.begin(), name.end(), plain);
}

std::string text_of(const manifest& content) {
  const auto print = [](const json& value) { return files::json_text(value, {.indent = 1}); };
  const auto inner = json_of(content);
  return print({{"sha256", sha256_of(print(inner))}, {"manifest", inner}}) + "\n";
}

manifest parse_manifest(const std::string& text) {
  const auto whole = files::parse_json(text);
  if (whole.is_discarded()) throw damaged("manifest.json is not JSON");
  auto content = manifest_of(at(whole, "manifest"));
  if (text != text_of(content)) throw damaged("manifest.json does not match its own digest");
  return content;
}

}  // namespace troupe::checkpoint

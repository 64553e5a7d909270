#include "troupe/runtime/topology/extend.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/syntax.hpp"

#include <algorithm>
#include <utility>

namespace troupe::topology {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_file_bytes = 1 << 20;
constexpr std::size_t most_extended = 16;  // levels below the file that is run

/// Parses the text of the file with this number.
toml::table read_toml(const std::string& text, mistakes& found, std::uint32_t file) {
  const auto refuse = [&](remark why) {
    why.at.file = file;
    found.add(why.at, why.text);
    found.raise();
  };
  if (const auto why = check_text(text)) refuse(*why);
  try {
    return file == 0 ? toml::parse(text) : toml::parse(text, std::string(extended_prefix) + std::to_string(file));
  } catch (const toml::parse_error& error) {
    refuse(explain_syntax(text, position_of(error.source()), error.what()));
  } catch (const std::logic_error&) {
    refuse(odd_header(text));
  }
  return {};
}

std::string nearby_file(const fs::path& file) {
  std::vector<std::string> names;
  std::error_code ignored;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (entry->path().extension() == ".toml") names.push_back(entry->path().stem().string());
  }
  const std::string near = nearest(file.stem().string(), names);
  return near.empty() ? "" : " (did you mean \"" + (file.parent_path() / (near + ".toml")).string() + "\"?)";
}

/// Adds to `own` every key that only `base` sets.
void inherit(toml::table& own, toml::table& base) {
  for (auto&& [name, node] : base) {
    toml::node* mine = own.get(name.str());
    if (mine == nullptr)
      node.visit([&own, &name = name](auto& value) { own.insert(name, std::move(value)); });
    else if (mine->is_table() && node.is_table())
      inherit(*mine->as_table(), *node.as_table());
  }
}

/// Removes from `base` the keys that `own` rules out.
void make_way(const toml::table& own, toml::table& base) {
  for (const exclusion& pair : exclusions()) {
    const toml::table* mine = own[pair.section].as_table();
    toml::table* its = base[pair.section].as_table();
    if (mine == nullptr || its == nullptr) continue;
    if (mine->contains(pair.first)) its->erase(pair.second);
    if (mine->contains(pair.second)) its->erase(pair.first);
  }
  const auto kind = own["exchange"]["kind"].value_or(std::string());
  if (toml::table* its = base["exchange"].as_table(); !kind.empty() && its != nullptr) make_way_for(kind, *its);
  const auto optimizer = own["optimizer"]["name"].value_or(std::string());
  if (toml::table* its = base["optimizer"].as_table(); its != nullptr) make_way_for_optimizer(optimizer, *its);
}

/// Reads a file and those that it extends into one table.
class gatherer {
 public:
  gatherer(mistakes& found, bool has_plugins) : found_(found), has_plugins_(has_plugins) {}

  /// Parses `text`, which is the content of the file `name`, and the files that it extends. Throws input_error.
  toml::table read(const std::string& text, const fs::path& name) {
    const auto file = static_cast<std::uint32_t>(chain_.size());
    chain_.push_back(name);
    toml::table own = read_toml(text, found_, file);
    if (const toml::array* plugins = own["plugins"].as_array(); plugins != nullptr && !has_plugins_) {
      has_plugins_ = true;
      load_listed_plugins(plugins, fs::absolute(name).parent_path());
    }
    const toml::node* extends = own.get("extends");
    if (extends == nullptr || !extends->is_string())
      return own;  // a value that is not a string is refused like any other key
    const fs::path below = (name.parent_path() / extends->value_or(std::string())).lexically_normal();
    toml::table base = read_base(below, position_of(extends->source()));
    own.erase("extends");
    make_way(own, base);
    inherit(own, base);
    return own;
  }

  /// Returns the absolute folder of each file, by number; relative paths in a file start there.
  std::vector<fs::path> folders() const {
    std::vector<fs::path> result;
    for (const fs::path& file : chain_) result.push_back(fs::absolute(file).parent_path());
    return result;
  }

 private:
  toml::table read_base(const fs::path& file, position at) {
    const auto same = [&](const fs::path& other) { return real(other) == real(file); };
    if (const auto seen = std::find_if(chain_.begin(), chain_.end(), same); seen != chain_.end()) {
      std::string chain;
      for (auto step = seen; step != chain_.end(); ++step) chain += step->string() + " extends ";
      refuse(at, chain + file.string() + " in a circle; expected a file that does not extend this one");
    }
    if (chain_.size() > most_extended)
      refuse(at, "files extend each other more than " + std::to_string(most_extended) +
                     " levels deep; expected fewer levels");
    std::string text;
    try {
      text = read_text(file, false);
    } catch (const input_error& error) {
      refuse(at, std::string("extends ") + error.what());
    }
    found_.add_file(file.string());
    return read(text, file);
  }

  static fs::path real(const fs::path& file) {
    std::error_code failed;
    auto path = fs::weakly_canonical(fs::absolute(file), failed);
    return failed ? fs::absolute(file).lexically_normal() : path;
  }

  void refuse(position at, const std::string& text) {
    found_.add(at, text);
    found_.raise();
  }

  mistakes& found_;
  bool has_plugins_;  ///< Whether plug-ins that replace those of the files still to be read have been loaded.
  std::vector<fs::path> chain_;
};

}  // namespace

std::string read_text(const fs::path& file, bool may_be_pipe) try {
  return may_be_pipe ? files::read_all_of_pipe_or_file(file, largest_file_bytes)
                     : files::read_all(file, largest_file_bytes);
} catch (const files::missing& problem) {
  throw input_error(file.string() + ": " + problem.reason() + "; expected a topology file" + nearby_file(file));
} catch (const files::unreadable& problem) {
  throw input_error(file.string() + ": " + problem.reason() + "; expected a topology file");
}

void make_way_for(const std::string& name, toml::table& section) {
  if (section["kind"].value_or(std::string()) == name) return;
  const exchange_kind* kind = find_exchange(name);
  const auto has = [&](const std::string& text) {
    return kind != nullptr && std::any_of(kind->settings.begin(), kind->settings.end(),
                                          [&](const setting& row) { return row.name == text; });
  };
  std::vector<std::string> others;
  for (const auto& [name, node] : section) {
    const std::string text(name.str());
    const bool stays = (text != "sends" && find_key(*find_section("exchange"), text) != nullptr) || has(text);
    if (!stays && numbered(node.source(), override_prefix) == 0) others.push_back(text);
  }
  for (const std::string& other : others) section.erase(other);
}

void make_way_for_optimizer(const std::string& name, toml::table& section) {
  const optimizer_kind* kind = find_optimizer(name);
  if (kind == nullptr) return;
  std::vector<std::string> others;
  for (const auto& [key, node] : section)
    if (!goes_by(*kind, std::string(key.str())) && numbered(node.source(), override_prefix) == 0)
      others.emplace_back(key.str());
  for (const std::string& other : others) section.erase(other);
}

void load_listed_plugins(const toml::array* list, const fs::path& folder) {
  if (list == nullptr) return;
  for (const toml::node& node : *list) try {
      if (const auto* path = node.as_string()) load_plugins({folder / path->get()});
    } catch (const input_error&) {  // refused with its place when the key is read
    }
}

extended_file read_extended(const std::string& text, const fs::path& name, mistakes& found, bool are_overridden) {
  gatherer files(found, are_overridden);
  auto table = files.read(text, name);
  return {std::move(table), files.folders()};
}

}  // namespace troupe::topology

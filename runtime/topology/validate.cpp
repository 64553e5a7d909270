#include "troupe/runtime/topology/validate.hpp"

#include "troupe/data/sampling/shards.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/constraints.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/validate_exchanges.hpp"
#include "troupe/runtime/topology/validate_optimizer.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>

namespace troupe::topology {
namespace {

class checker {
 public:
  checker(topology& file, const places& known, mistakes& found)
      : file_(file), known_(known), found_(found), refuse_(refusal_at(known, found)) {}

  void run() {
    excluded();
    model();
    source();
    remainder();
    windows();
    devices();
    const bool settled = nodes();
    if (settled && batches()) check_micro_batch(file_, refuse_);
    normalisation();
    copies();
    security();
    guests();
    links();
    check_optimizer(file_, known_, found_);
    complete_exchanges(file_, known_, found_, settled);
  }

 private:
  void refuse(const std::string& path, const std::string& text) { refuse_(path, text); }

  void excluded() {
    for (const exclusion& pair : exclusions()) {
      const std::string first = pair.section + "." + pair.first, second = pair.section + "." + pair.second;
      if (!known_.has(first) || !known_.has(second)) continue;
      if (first == "model.name") continue;  // the name of a file's kind may be set too: model() checks it
      const std::string& later =
          std::max(first, second, [&](const auto& a, const auto& b) { return known_.at(a) < known_.at(b); });
      refuse(later, first + " and " + second + " cannot be combined; expected one of them");
    }
    if (!file_.run.epochs && !file_.run.steps) file_.run.epochs = 1;
  }

  /// A kind of model that is read from a file, whose key has the same name.
  struct kind_of_file {
    const std::filesystem::path& path;
    std::string name, example, made_by;
  };

  /// Settles the name of a model that is read from a file, which needs none. Returns false if it was refused.
  bool file_of_model(const kind_of_file& kind) {
    auto& name = file_.model.name;
    const auto key = "model." + kind.name;
    const auto is_given = known_.has(key);
    if (is_given && kind.path.empty()) {
      refuse(key, key + " is empty; expected a file such as \"" + kind.example + "\", " + kind.made_by);
      return false;
    }
    if (is_given && known_.has("model.name") && name != kind.name) {
      refuse(key, key + " and model.name = " + to_toml(name) + " each select a model; expected only one of them");
      return false;
    }
    if (is_given) name = kind.name;
    if (is_given || name != kind.name) return true;
    refuse("model.name", "model.name = \"" + name + "\" requires a file; expected " + key + " = \"" + kind.example +
                             "\", " + kind.made_by);
    return false;
  }

  /// Keeps the settings that the model reads and ignores the others, as source() does for data sets.
  void model() {
    model_settings& given = file_.model;
    if (!file_of_model({given.exported, "exported", "net.pt2", "as written by torch.export.save()"}) ||
        !file_of_model(
            {given.script, "script", "model.pt", "as written by torch.jit.script(model).save(\"model.pt\")"}))
      return;
    const models::network_kind* kind = models::find_network(given.name);
    if (kind == nullptr) return;
    const auto settle = [&](const char* key, auto& value) {
      if (std::find(kind->reads.begin(), kind->reads.end(), key) == kind->reads.end()) value.reset();
    };
    settle("rank", given.rank);
    settle("layers", given.layers);
    settle("width", given.width);
    settle("heads", given.heads);
    settle("dropout", given.dropout);
    settle("shortcut", given.shortcut);
    initializer(*kind);
    if (kind->step != nullptr && file_.workers.precision == "bfloat16")
      refuse("workers.precision", "workers.precision = \"bfloat16\" requires a dense network, but " + given.name +
                                      " updates single coordinates; expected \"float32\"");
  }

  void initializer(const models::network_kind& kind) {
    const model_settings& given = file_.model;
    const bool normal = given.initializer == "normal";
    if (normal && !models::draws_normal_weights(kind))
      refuse("model.initializer",
             "model.initializer = \"normal\" draws the weights of convolutions and linear layers, "
             "but " +
                 given.name + " does not support that; expected \"default\"");
    const model_settings usual;
    const auto of_normal = [&](const std::string& key, bool set) {
      if (set && !normal)
        refuse(
            "model." + key,
            "model." + key +
                " is used only when model.initializer = \"normal\"; set model.initializer = \"normal\", or remove the "
                "key");
    };
    of_normal("initializer_std", given.initializer_std != usual.initializer_std);
    of_normal("initializer_bias", given.initializer_bias != usual.initializer_bias);
  }

  /// Keeps the settings that the data set reads and fills in their defaults. The others are ignored, so that a file for
  /// one data set can be used with another by --set data.name.
  void source() {
    const data::dataset_kind* kind = data::find_dataset(file_.data.name);
    if (kind == nullptr) return;
    const data::data_source usual;
    const auto reads = [&](const char* key) {
      return std::find(kind->reads.begin(), kind->reads.end(), key) != kind->reads.end();
    };
    const auto settle = [&](const char* key, auto& value, auto otherwise) {
      if (!reads(key))
        value.reset();
      else if (!value)
        value = otherwise;
    };
    data_settings& given = file_.data;
    settle("mapped", given.mapped, usual.mapped);
    settle("rows", given.rows, usual.rows);
    settle("columns", given.columns, usual.columns);
    settle("nonzeros", given.nonzeros, usual.nonzeros);
    settle("skew", given.skew, usual.skew);
    settle("sequence_length", given.sequence_length, usual.sequence_length);
    settle("random_windows", given.random_windows, usual.random_windows);
    if (given.split != "dirichlet") given.alpha.reset();
    if (given.split == "dirichlet" && !given.alpha) given.alpha = data::usual_alpha;
    if (!reads("image_size")) given.image_size.reset();
    if (!reads("file")) given.file.clear();
    if (!reads("test_file")) given.test_file.clear();
    if (!reads("inputs")) given.inputs.clear();
    if (!reads("label")) given.label.clear();
    if (!reads("target")) given.target.clear();
    if (!reads("header")) given.header.reset();
  }

  void remainder() {
    const data_settings& given = file_.data;
    if (given.remainder == "pad" && given.split != "strided")
      refuse("data.remainder", "data.remainder = \"pad\" requires data.split = \"strided\", but data.split is " +
                                   to_toml(given.split) +
                                   "; expected data.split = \"strided\", or data.remainder = \"drop\"");
  }

  void windows() {
    if (file_.data.random_windows.value_or(false) && file_.data.split == "contiguous")
      refuse("data.random_windows",
             "data.random_windows = true draws samples from the whole text, but data.split = \"contiguous\" gives each "
             "worker a part of it; expected data.split = \"strided\" or \"all\", or data.random_windows = false");
  }

  /// Takes the number of workers from a list of devices, if nothing else sets it.
  void devices() {
    const auto listed = file_.workers.device.size();
    if (listed > 1 && file_.nodes.empty() && !known_.has("workers.count"))
      file_.workers.count = static_cast<std::int64_t>(listed);
  }

  static std::string node_path(std::size_t index) { return table_path("node", index); }

  /// Returns whether the number of workers is settled.
  bool nodes() {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
      const std::string& name = file_.nodes[i].name;
      if (!known_.has(node_path(i) + ".name")) {
        refuse(node_path(i), "a node has no name; expected name = \"…\", which --name and messages use");
      } else if (!legal_name(name)) {
        refuse(node_path(i) + ".name",
               "a node cannot be called " + to_toml(name) + "; expected at most 64 letters, digits, - and _");
      } else if (!seen.insert(name).second) {
        refuse(node_path(i) + ".name",
               "two nodes are called " + to_toml(name) + "; expected a different name for each");
      }
    }
    ports();
    return file_.nodes.empty() || sum();
  }

  /// Refuses two nodes that use the same port of one host.
  void ports() {
    std::map<std::string, std::map<std::uint16_t, std::string>> taken;  // by host and port: the node
    for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
      const endpoint where = parse_endpoint(file_.nodes[i].address).value_or(endpoint{});
      if (where.port == 0) continue;
      auto& used_ports = taken[where.host == "localhost" ? "127.0.0.1" : where.host];
      const auto [other, is_free] = used_ports.emplace(where.port, file_.nodes[i].name);
      if (is_free) continue;
      endpoint free = where;
      while (used_ports.contains(free.port)) free.port = static_cast<std::uint16_t>(free.port + 1);  // 0 follows 65535
      refuse(node_path(i) + ".address", "the nodes " + to_toml(other->second) + " and " + to_toml(file_.nodes[i].name) +
                                            " both use port " + std::to_string(where.port) + " of " + where.host +
                                            "; expected another port" +
                                            (free.port > 0 ? ", such as " + to_toml(print_endpoint(free)) : ""));
    }
  }

  /// Takes the number of workers from the nodes, unless the file sets it. Returns whether it is settled.
  bool sum() {
    std::int64_t sum = 0;
    for (const node_settings& node : file_.nodes) sum += node.workers;
    const key& count = *find_key(*find_section("workers"), "count");
    if (!allowed(count.row, sum)) {
      refuse("node", "the nodes have " + std::to_string(sum) + (sum == 1 ? " worker" : " workers") +
                         " in total; expected " + expectation(count.row));
      return false;
    }
    if (!known_.has("workers.count")) file_.workers.count = sum;
    return check_node_workers(file_, refuse_);
  }

  /// Settles the size of one worker's batch. Returns whether it could.
  bool batches() {
    file_.data.batch_size = worker_batch_size(file_);
    if (file_.data.global_batch_size) file_.data.batch_sizes.clear();
    return check_global_batch(file_, refuse_) && check_batch_sizes(file_, refuse_);
  }

  void normalisation() {
    const data::dataset_kind* kind = data::find_dataset(file_.data.name);
    check_normalisation(file_, kind != nullptr && !kind->sample_shape.empty() ? kind->sample_shape[0] : 0, refuse_);
  }

  void links() {
    for (std::size_t i = 0; i < file_.links.size(); ++i) {
      const link_settings& link = file_.links[i];
      if (link.at.has_value() == !link.between.empty())
        refuse(table_path("link", i),
               "a [[link]] is at one place or between two; expected either at = \"w0\" or "
               "between = [\"w0\", \"w1\"]");
      if (!link.between.empty() && link.between.size() != 2)
        refuse(table_path("link", i) + ".between",
               "link.between has " + counted(link.between.size(), "name") + "; expected two");
    }
    const auto& slowdown = file_.workers.slowdown;
    if (slowdown.size() > 1 && slowdown.size() != static_cast<std::size_t>(file_.workers.count))
      refuse("workers.slowdown", "workers.slowdown has " + std::to_string(slowdown.size()) +
                                     " numbers, but there are " + std::to_string(file_.workers.count) +
                                     " workers; expected one number, or one for each worker");
  }

  void security() {
    const security_settings& given = file_.security;
    const bool all = !given.authority.empty() && !given.certificate.empty() && !given.key.empty();
    const bool any = !given.authority.empty() || !given.certificate.empty() || !given.key.empty();
    if (any && !all && given.certificates.empty())
      refuse("security", "expected security.certificates, or all of authority, certificate and key");
    if (given.insecure && (any || !given.certificates.empty()))
      refuse("security.insecure",
             "security.insecure = true contradicts the certificates that are given; remove one of them");
  }

  void guests() {
    for (const auto& name : file_.actors.allow) {
      if (!legal_name(name))
        refuse("actors.allow",
               to_toml(name) + " is not a name of a guest; expected at most 64 letters, digits, - and _");
      for (const auto& node : file_.nodes)
        if (node.name == name)
          refuse("actors.allow", to_toml(name) + " is the name of a node; expected names of guests");
    }
  }

  void copies() {
    if (file_.checkpoint.copies > 1 && file_.nodes.size() < 2)
      refuse("checkpoint.copies",
             "checkpoint.copies is " + std::to_string(file_.checkpoint.copies) +
                 ", but only a second node can keep a copy; expected 1, or at least two [[node]] sections");
  }

  topology& file_;
  const places& known_;
  mistakes& found_;
  refusal refuse_;
};

}  // namespace

refusal refusal_at(const places& known, mistakes& found) {
  return [&known, &found](const std::string& path, const std::string& text) { found.add(known.at(path), text); };
}

void complete(topology& file, const places& known, mistakes& found) {
  checker(file, known, found).run();
}

}  // namespace troupe::topology

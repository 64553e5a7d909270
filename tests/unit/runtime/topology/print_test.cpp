#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

namespace topology_print_test {

using namespace troupe;

namespace {

/// Draws valid topologies: any value within the range of its row, adjusted to the rules between keys.
class generator {
 public:
  explicit generator(std::uint64_t seed) : random_(seed) {}

  topology::topology draw() {
    topology::topology file;
    file.file = "/folder/t.toml";
    file.exchanges.resize(below(3));
    file.nodes.resize(below(4));
    file.links.resize(below(3));
    for (const topology::section& section : topology::sections()) {
      const std::size_t tables = section.repeated() ? section.count(file) : 1;
      for (std::size_t i = 0; i < tables; ++i) {
        for (const topology::key& key : section.keys) key.set(file, i, value(key.row));
      }
    }
    for (std::size_t i = 0; i < file.nodes.size(); ++i) {
      file.nodes[i].name = "n" + std::to_string(i);
      file.nodes[i].workers = 1 + file.nodes[i].workers % 10;
      file.workers.count = (i == 0 ? 0 : file.workers.count) + file.nodes[i].workers;
    }
    file.workers.count = 1 + (file.workers.count - 1) % 30;
    if (below(2) == 0) {
      file.run.steps.reset();
    } else {
      file.run.epochs.reset();
    }
    if (below(2) == 0) file.data.batch_size = 1 + file.data.batch_size % 1000;
    if (file.data.batch_size > 1000) {
      file.data.global_batch_size.reset();
    } else {
      file.data.global_batch_size = file.data.batch_size * file.workers.count;
    }
    file.data.micro_batch_size = file.data.batch_size;
    if (below(2) == 0) file.data.micro_batch_size.reset();
    if (below(2) == 0) file.evaluate.target_accuracy.reset();
    if (below(2) == 0) file.model.init.clear();
    if (below(2) == 0) file.checkpoint.every.reset();
    file.checkpoint.copies = 1;
    (below(2) == 0 ? file.data.label : file.data.target).clear();
    if (file.security.insecure) {
      file.security = {};
      file.security.insecure = true;
    }
    for (topology::link_settings& each : file.links) {
      each.between = below(2) == 0 ? std::vector<std::string>{"w0", "s1"} : std::vector<std::string>{};
      each.at = "*";
      if (!each.between.empty()) each.at.reset();
    }
    file.model.exported = file.model.name == "exported" ? "/folder/model.pt2" : "";
    file.model.script = file.model.name == "script" ? "/folder/model.pt" : "";
    if (models::find_network(file.model.name)->step) file.workers.precision = "float32";
    if (file.optimizer.name != "sgd") file.optimizer.momentum = 0;
    if (file.optimizer.name == "sgd") file.optimizer.eps.reset();
    if (file.optimizer.name == "novograd") file.optimizer.name = "adamw";  // several servers can apply adamw, too
    if (file.optimizer.name == "sgd" || file.optimizer.betas.size() != 2) file.optimizer.betas = {};
    if (file.optimizer.momentum == 0) file.optimizer.nesterov = false;
    fit_optimizer(file);
    fit_initializer(file.model);
    if (file.data.remainder == "pad" || file.data.random_windows.value_or(false)) file.data.split = "strided";
    const auto& sizes = data::find_dataset(file.data.name)->sample_shape;
    const auto channels = static_cast<std::size_t>(sizes.empty() ? 0 : sizes[0]);
    file.data.mean.resize(channels, 0.5);
    file.data.std.resize(channels, 0.5);
    if (!file.data.normalize) file.data.mean = file.data.std = {};
    for (std::size_t i = 0; i < file.exchanges.size(); ++i) file.exchanges[i].name = "e" + std::to_string(i);
    const auto stands_alone = [](const auto& each) { return makes_the_step(each) || each.kind == "shared"; };
    if (std::any_of(file.exchanges.begin(), file.exchanges.end(), stands_alone)) file.exchanges.resize(1);
    for (topology::exchange_settings& each : file.exchanges) {
      if (makes_the_step(each)) {
        each.every = {1, false};
        each.from.reset();
        each.until.reset();
        file.optimizer.clip_norm.reset();  // several servers cannot clip
      }
      each.sends = name_of(find_exchange(each.kind)->carries.front().sends);
      do each.options = options(*find_exchange(each.kind), file.workers.count);
      while (!fit(each, file.workers.count));
      if (each.kind == "shared") {
        each.every = {1, false};
        each.from.reset();
        each.until.reset();
      }
      const bool is_encodable = nature_of(*find_exchange(each.kind), each.options).encoding_refusal.empty();
      if (each.sends != "gradient" || !is_encodable || each.encoding != "bf16") each.encoding = "float32";
      if (each.encoding == "float32") each.feedback.reset();
      each.options.erase("consensus_rate");
      if (each.options.contains("fragments")) each.options["fragments"] = std::int64_t{1};
      if (each.options.contains("delay")) each.options["delay"] = std::int64_t{0};
      if (each.options.contains("mix")) each.options["mix"] = 0.0;
      each.growth.reset();
      each.rank.reset();
      each.encode_after.reset();
      each.ratio.reset();
      each.ratio_warm_up.reset();
      each.momentum_correction = 0;
    }
    file.workers.loop = {};
    const auto completed = topology::parse(topology::print(file), file.file);
    file.workers.loop = completed.workers.loop;  // the default
    file.data = completed.data;                  // with the defaults of this data set
    file.model = completed.model;                // and of this model
    return file;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  /// Resets keys that only some optimizers, schedules or models use.
  static void fit_optimizer(topology::topology& file) {
    topology::optimizer_settings& drawn = file.optimizer;
    const topology::optimizer_settings usual;
    drawn.grad_averaging = usual.grad_averaging;  // only for novograd
    drawn.moment_start = usual.moment_start;
    if (drawn.scale_lr == "none") drawn.base_batch_size.reset();
    if (drawn.scale_lr != "none" && file.data.global_batch_size) drawn.base_batch_size = 256;
    if (models::find_network(file.model.name)->step) {
      drawn.no_decay = {};
      drawn.decay_min_dims = 0;
    }
    if (drawn.warmup_epochs == 0) drawn.warmup_start = 0;
    if (drawn.schedule_by == "epoch") {
      drawn.warmup_epochs = std::ceil(drawn.warmup_epochs);
      for (double& epochs : drawn.decay_epochs) epochs = std::ceil(epochs);
    }
    std::sort(drawn.decay_epochs.begin(), drawn.decay_epochs.end());
    if (drawn.decay_epochs.empty() && drawn.schedule == "step") drawn.schedule = "constant";
    if (drawn.schedule != "step") {
      drawn.decay_epochs = {};
      drawn.decay_factor = usual.decay_factor;
    }
    if (drawn.schedule != "polynomial") drawn.decay_power = usual.decay_power;
    if (drawn.schedule != "polynomial" && drawn.schedule != "cosine") drawn.min_lr = usual.min_lr;
  }

  static void fit_initializer(topology::model_settings& drawn) {
    const topology::model_settings usual;
    if (!models::draws_normal_weights(*models::find_network(drawn.name))) drawn.initializer = usual.initializer;
    if (drawn.initializer == "normal") return;
    drawn.initializer_std = usual.initializer_std;
    drawn.initializer_bias = usual.initializer_bias;
  }

  /// Returns whether the exchange makes the step. Such an exchange happens in each step and is the only one.
  static bool makes_the_step(const topology::exchange_settings& each) {
    const carriage& usual = find_exchange(each.kind)->carries.front();
    return usual.sends == slot::gradient && usual.answers == slot::parameters;
  }

  /// Returns a value for each setting with a default, and occasionally for one without.
  setting_values options(const exchange_kind& kind, std::int64_t workers) {
    setting_values drawn;
    for (const setting& row : kind.settings) {
      if (row.default_text.empty() && below(8) > 0) continue;
      if (row.type == setting_type::choice_or_matrix && below(2) == 0) {
        drawn[row.name] = doubly_stochastic(static_cast<std::size_t>(workers));
      } else if (row.type == setting_type::pairs) {
        drawn[row.name] = line(workers);
      } else {
        drawn[row.name] = value(row);
      }
    }
    return drawn;
  }

  static bool fit(const topology::exchange_settings& each, std::int64_t workers) {
    const exchange_kind* kind = find_exchange(each.kind);
    if (each.sends == "gradient" ? mixes_buffers(each.options) : sends_buckets(each.options)) return false;
    if (each.sends == "gradient" && outer_of(each.options).rule != outer_rule::none) return false;
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < workers; ++i) names.push_back("w" + std::to_string(i));
    return !kind->check || !kind->check(names, each.options);
  }

  /// Draws numbers with as many digits as possible.
  std::vector<std::vector<double>> doubly_stochastic(std::size_t n) {
    std::vector<std::vector<double>> rows(n, std::vector<double>(n));
    const double stays = static_cast<double>(below(1'000'000)) / 3e6,
                 comes = static_cast<double>(below(1'000'000)) / 3e6;
    for (std::size_t i = 0; i < n; ++i) {
      rows[i][i] += stays;
      rows[i][(i + 1) % n] += comes;
      rows[i][(i + 2) % n] += 1 - stays - comes;
    }
    return rows;
  }

  std::vector<std::vector<std::string>> line(std::int64_t n) {
    std::vector<std::vector<std::string>> edges;
    for (std::int64_t i = 1; i < n; ++i) {
      const auto other = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(i)));
      edges.push_back({"w" + std::to_string(i), "w" + std::to_string(other)});
    }
    return edges;
  }

  double real(const setting& row) {
    while (true) {  // any bits that represent a number in the range
      const double drawn = below(2) == 0 ? std::bit_cast<double>(random_()) : static_cast<double>(below(1000)) / 1000;
      if (topology::allowed(row, drawn)) return drawn;
    }
  }

  setting_value value(const setting& row) {
    switch (row.type) {
      case setting_type::boolean:
        return below(2) == 0;
      case setting_type::integer: {
        const double most = row.maximum.value_or(9e18);
        return static_cast<std::int64_t>(*row.minimum) +
               static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - *row.minimum) + 1));
      }
      case setting_type::real:
        return row.name == "max_seconds" ? static_cast<double>(1 + below(1'000'000)) / 1000 : real(row);
      case setting_type::choice:
      case setting_type::choice_or_matrix:
        return row.choices[below(row.choices.size())];
      case setting_type::paths:  // a plug-in would be loaded
        return std::vector<std::string>{};
      case setting_type::path:
        return "/some \"quoted\" \\ folder\t\x01\x7f/é" + std::to_string(below(100));
      case setting_type::duration:
        return topology::print_duration(std::chrono::milliseconds(1 + below(10'000'000)));
      case setting_type::delay:
        return topology::print_delay(std::chrono::microseconds(below(10'000'000)));
      case setting_type::rate:
        return std::to_string(1 + below(1000)) + (below(2) == 0 ? "Mbit/s" : "KiB/s");
      case setting_type::every:
        return topology::print_interval({1 + below(1'000'000), below(2) == 0});
      case setting_type::endpoint:  // no two on one host
        return "[fe80::" + std::to_string(hosts_++) + "]:" + std::to_string(below(65'535));
      case setting_type::reals:
      case setting_type::real_or_reals:
        return std::vector<double>{real(row)};
      case setting_type::devices:
        if (below(2) == 0) return std::vector<std::string>{below(2) == 0 ? "auto" : "cuda"};
        return std::vector<std::string>{"cpu", "cuda:" + std::to_string(below(128))};
      case setting_type::integer_or_integers:
        return static_cast<std::int64_t>(1 + below(100));
      case setting_type::column:
        return std::to_string(below(100));
      case setting_type::columns:
        return std::vector<std::string>{"a name", std::to_string(below(100))};
      case setting_type::text:
      case setting_type::words:
      case setting_type::pairs:
        return row.type == setting_type::text ? setting_value("name" + std::to_string(names_++))
                                              : std::vector<std::string>{};
    }
    return false;
  }

  std::mt19937_64 random_;
  std::uint64_t hosts_{0}, names_{0};  ///< No two hosts are equal, and no two actors.
};

}  // namespace

TEST_CASE("what is printed reads back as the same topology, to the last bit") {
  generator random(1);
  for (int i = 0; i < 300; ++i) {
    const topology::topology drawn = random.draw();
    const std::string text = topology::print(drawn);
    CAPTURE(text);
    CHECK(topology::parse(text, drawn.file) == drawn);
  }
}

TEST_CASE("a matrix and pairs are printed as lists of lists") {
  CHECK(topology::to_toml(std::vector<std::vector<double>>{{0.5, 0.5}, {0, 1}}) == "[[0.5, 0.5], [0.0, 1.0]]");
  CHECK(topology::to_toml(std::vector<std::vector<double>>{{1.0 / 3}}) == "[[0.3333333333333333]]");
  CHECK(topology::to_toml(std::vector<std::vector<std::string>>{{"w0", "w\"1"}}) == R"([["w0", "w\"1"]])");
  CHECK(topology::to_toml(std::vector<std::vector<std::string>>{}) == "[]");
}

TEST_CASE("a print has every default filled in") {
  const std::string text = topology::print(topology::parse("", "t.toml"));
  CHECK(text == R"(format = 1

[run]
seed               = 0
epochs             = 1
budget             = "worker"
threads            = 1
timeout            = "60s"
silence            = "5s"
join_timeout       = "300s"
verify_every       = 100
stop_on_non_finite = true

[model]
name             = "convnet"
loss             = "auto"
initializer      = "default"
initializer_std  = 0.01
initializer_bias = "default"
sync_batch_norm  = false

[data]
name       = "digits"
batch_size = 32
shuffle    = true
drop_last  = true
remainder  = "drop"
split      = "strided"
normalize  = true

[augment]
preset = "none"

[optimizer]
name           = "sgd"
lr             = 0.01
momentum       = 0.0
weight_decay   = 0.0
l2_penalty     = 0.0
decay_min_dims = 0
nesterov       = false
grad_averaging = false
moment_start   = "zero"
scale_lr       = "none"
warmup_epochs  = 0.0
warmup_start   = 0.0
schedule       = "constant"
schedule_by    = "step"
min_lr         = 0.0
decay_power    = 1.0
decay_factor   = 0.1

[workers]
count     = 1
loop      = ["gradient", "apply"]
precision = "float32"
device    = "auto"

[evaluate]
every          = "1 epoch"
batch_size     = 1000
target_hold    = 2
drop_last      = false
split          = "whole"
buffers        = "mean"
each_worker    = false
pause_training = false

[checkpoint]
keep   = 2
copies = 1
)");
}

TEST_CASE("nodes are printed one by one") {
  const std::string nodes =
      "\n[[node]]\nname    = \"a\"\naddress = \"127.0.0.1:0\"\nworkers = 2\n"
      "\n[[node]]\nname    = \"b\"\naddress = \"10.0.0.1:4700\"\nlisten  = \"[::1]:4700\"\nworkers = 1\n";
  CHECK(topology::print(topology::parse(nodes, "t.toml")).ends_with("\n" + nodes));
}

TEST_CASE("durations and intervals have one grammar") {
  using namespace std::chrono_literals;
  CHECK(topology::parse_duration("20ms") == 20ms);
  CHECK(topology::parse_duration("1.5s") == 1500ms);
  CHECK(topology::parse_duration("5 min") == 300'000ms);
  CHECK(topology::parse_duration("2h") == 7'200'000ms);
  for (const char* text : {"", "0s", "-1s", "1", "s", "1e3s", "0.0001s", "nans", "infs", "9999999h", "1s "}) {
    CAPTURE(text);
    CHECK(!topology::parse_duration(text));
  }
  CHECK(topology::print_duration(90'000ms) == "90s");
  CHECK(topology::parse_interval("4") == topology::interval{4, false});
  CHECK(topology::parse_interval("4 steps") == topology::interval{4, false});
  CHECK(topology::parse_interval("1 epoch") == topology::interval{1, true});
  for (const char* text : {"", "0", "-1", "4  steps", "4 minutes", "1000000000001", "1.5 epochs"}) {
    CAPTURE(text);
    CHECK(!topology::parse_interval(text));
  }
}

TEST_CASE("every key has a line of explanation and a name of its own in its section") {
  for (const topology::section& section : topology::sections()) {
    CHECK(!section.explanation.empty());
    for (const topology::key& key : section.keys) {
      CAPTURE(key.row.name);
      CHECK(key.row.explanation.ends_with('.'));
      CHECK(topology::find_key(section, key.row.name) == &key);
    }
  }
}

}  // namespace topology_print_test

// Mutated files: recordings with valid checksums, and topologies that are simulated. Whatever the files contain, they
// are refused, or their run ends. TROUPE_TESTS_FULL tests more of them.
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/simulation/replay_run.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/simulation/simulation.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace mutations_test {

namespace {

using namespace troupe;
using data::random_stream;
using tests::tiny_options;

/// Ends the process if a file takes longer than this. doctest does not report the seed then: see for_each_seed().
constexpr unsigned seconds_for_each = 60;

/// Returns the first seed. Another number in the environment variable TROUPE_TESTS_FIRST gives other files.
std::uint64_t first_seed() {
  const auto* text = std::getenv("TROUPE_TESTS_FIRST");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

/// Calls `act` with `count` seeds. If one of them ends the process or does not end, TROUPE_TESTS_SHOW=1 shows which.
template <class Act>
void for_each_seed(std::uint64_t count, Act act) {
  const auto shows = std::getenv("TROUPE_TESTS_SHOW") != nullptr;
  for (auto seed = first_seed(); seed < first_seed() + count; ++seed) {
    CAPTURE(seed);
    if (shows) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    ::alarm(seconds_for_each);
    act(seed);
  }
  ::alarm(0);
}

template <class T>
const T& one_of(random_stream& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

// Recordings. ------------------------------------------------------------------------------------------------------

struct recorded {
  troupe::plan plan;
  std::vector<recording::entry> entries;
};

/// Simulates a run and records it, as recording::writer does.
recorded record_run(const tiny_options& options) {
  recorded made{.plan = tests::tiny_plan(options), .entries = {}};
  std::map<std::uint32_t, std::shared_ptr<shared_memory>> memories;
  simulation_options how{.seed = 1};
  how.deliveries.order_of = [&](std::uint32_t actor) {
    return delivery_order{.log = [&made, actor](const delivery& what) { made.entries.push_back({actor, what}); }};
  };
  how.deliveries.lock_order_of = [&](std::uint32_t id, const auto& memory) {
    memory->note_acquisitions();
    memories.emplace(id, memory);
    return std::shared_ptr<lock_order>{};
  };
  models::buffer_pool pool;
  const auto journal = std::make_shared<tests::remembered>();
  simulate(made.plan, tests::tiny_data(), initial_weights(made.plan, pool), pool, journal, how);
  for (const auto& [id, memory] : memories)
    for (const auto who : memory->take_acquisitions())
      made.entries.push_back({id, {.what = delivery::kind::acquisition, .from = who, .step = 1}});
  return made;
}

std::vector<recorded> recordings() {
  std::vector<recorded> all;
  for (auto options : tests::asynchronous_wirings()) {
    if (options.settings.contains("lock")) options.settings["lock"] = true;
    for (auto& exchange : options.exchanges)
      if (exchange.options.contains("lock")) exchange.options["lock"] = true;
    all.push_back(record_run(options));
    options.total_budget = true;
    if (options.exchanges.empty()) all.push_back(record_run(options));
  }
  all.push_back(record_run(tests::deterministic_wirings()[3]));
  return all;
}

template <class Number>
Number other_number(random_stream& random, Number before) {
  switch (random.below(5)) {
    case 0:
      return std::numeric_limits<Number>::max();
    case 1:
      return 0;
    case 2:
      return static_cast<Number>(before + 1);
    case 3:
      return static_cast<Number>(random.next());
    default:
      return static_cast<Number>(random.below(8));
  }
}

void change(random_stream& random, recording::entry& one) {
  auto& what = one.what;
  switch (random.below(8)) {
    case 0:
      one.actor = other_number(random, one.actor);
      break;
    case 1:
      what.what = static_cast<delivery::kind>(1 + random.below(static_cast<std::uint64_t>(delivery::last_kind)));
      break;
    case 2:
      what.from = other_number(random, what.from);
      break;
    case 3:
      what.part = other_number(random, what.part);
      break;
    case 4:
      what.step = other_number(random, what.step);
      break;
    case 5:
      what.at = other_number(random, what.at);
      break;
    case 6:
      what.taken = other_number(random, what.taken);
      break;
    default:
      what.given = other_number(random, what.given);
  }
}

void change(random_stream& random, std::vector<recording::entry>& all) {
  if (all.empty()) return;
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size()));
  switch (random.below(6)) {
    case 0:
      all.erase(at);
      break;
    case 1:
      all.insert(at, one_of(random, all));
      break;
    case 2:
      std::swap(*at, all[random.below(all.size())]);
      break;
    case 3:
      if (random.below(4) == 0) all.erase(at, all.end());
      break;
    default:
      change(random, *at);
  }
}

TEST_CASE("a recording with other contents is replayed, refused or found to differ, and always ends") {
  const auto all = recordings();
  for_each_seed(tests::repeat(400, 100'000), [&](std::uint64_t seed) {
    random_stream random{seed};
    auto [plan, entries] = one_of(random, all);
    for (auto times = 1 + random.below(4); times > 0; --times) change(random, entries);
    auto bytes = recording::header_of({.version = "1", .topology = ""});
    const auto add = [&](const auto& block) { bytes.insert(bytes.end(), block.begin(), block.end()); };
    add(recording::block_of(entries, 1));
    if (random.below(2) == 0) add(recording::block_of({}, 2));
    std::optional<std::uint64_t> until;
    if (random.below(3) == 0) until = 1 + random.below(plan.steps + 2);
    models::buffer_pool pool;
    const auto journal = std::make_shared<tests::remembered>();
    try {
      auto initial = initial_weights(plan, pool);
      replay_run(plan, tests::tiny_data(), std::move(initial), pool, journal,
                 {.recorded = recording::parse(bytes), .until = until});
    } catch (const std::runtime_error&) {  // a refusal
    }
  });
}

// Topologies. ------------------------------------------------------------------------------------------------------

constexpr std::string_view head = R"([run]
seed = 1
steps = 6
timeout = "10s"
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 8
[optimizer]
lr = 0.05
momentum = 0.9
[evaluate]
every = 3
)";

constexpr std::string_view emulated = R"([[link]]
at = "*"
bandwidth = "100Mbit/s"
latency = "20ms"
[[link]]
between = ["w0", "w1"]
jitter = "5ms"
loss = 0.001
[simulate]
gradient = "12ms"
jitter = 0.1
memory = "8GB/s"
cores = 2
evaluate = "1ms"
)";

std::vector<std::string> whole_files() {
  std::vector<std::string> all;
  for (const std::string_view wiring :
       {"[workers]\ncount = 3\nslowdown = [1, 1, 4]\nloop = [\"gradient\", \"exchange\", \"apply\"]\n"
        "[exchange]\nkind = \"all_reduce\"\nroute = \"ring\"\n",
        "[workers]\ncount = 3\nslowdown = 2.5\nloop = [\"gradient\", \"exchange\"]\n"
        "[exchange]\nkind = \"parameter_server\"\nsends = \"gradient\"\napply = \"each\"\nshards = 2\n",
        "[workers]\ncount = 4\nloop = [\"gradient\", \"apply\", \"exchange\"]\n"
        "[exchange]\nkind = \"gossip\"\ngraph = \"ring\"\nevery = 2\n",
        "[workers]\nloop = [\"gradient\", \"exchange\", \"apply\"]\n[exchange]\nkind = \"star\"\n"
        "[[node]]\nname = \"alpha\"\nworkers = 2\naddress = \"127.0.0.1:4700\"\n"
        "[[node]]\nname = \"beta\"\nworkers = 1\naddress = \"[::1]:4701\"\nlisten = \"[::]:4701\"\n"
        "[security]\ncertificates = \"nowhere\"\ninsecure = false\n[[link]]\nat = \"alpha\"\nbandwidth = \"20Mbit/s\"\n"
        "[[link]]\nbetween = [\"alpha\", \"beta\"]\nlatency = \"1ms\"\n"
        "[[fault]]\nkind = \"slow\"\nat = \"step 2\"\nbetween = [\"alpha\", \"beta\"]\nlatency = \"3ms\"\nlasts = "
        "\"1s\"\n"
        "[[fault]]\nkind = \"freeze\"\nat = \"1ms\"\nnode = \"beta\"\nlasts = \"2h\"\n",
        "[workers]\ncount = 3\nloop = [\"gradient\", \"exchange\", \"apply\"]\n"
        "[exchange]\nkind = \"elastic\"\nsends = \"parameters\"\nalpha = 0.2\napply = \"each\"\n"})
    all.push_back(std::string(head) + std::string(wiring) + std::string(emulated));
  return all;
}

const std::vector<std::string> odd_texts{
    R"("")",     R"("*")",         R"("0s")",         R"("1us")",        R"("10000h")",         R"("1e9h")",
    R"("-5ms")", R"("99999999h")", R"("0B/s")",       R"("1bit/s")",     R"("0.0000001bit/s")", R"("w0")",
    R"("w99")",  R"("s0")",        R"("alpha")",      R"("measure")",    R"("9999999TiB/s")",   R"('x')",
    R"("3ms")",  R"("1TB/s")",     R"(["w0", "w2"])", R"(["w0", "w0"])", R"("\u0000")",         R"(["*", "w1"])"};
const std::vector<std::string> odd_numbers{"0",           "-1",
                                           "1",           "2",
                                           "3",           "7",
                                           "1e308",       "-1e308",
                                           "5e-324",      "nan",
                                           "inf",         "0.5",
                                           "1e6",         "true",
                                           "64.5",        "0.999999999",
                                           "1e-9",        "[1]",
                                           "[1e6, 1, 1]", "[1, 1, 1, 1, 1]",
                                           "[]",          "{}",
                                           "0.3",         "100",
                                           "1979-05-27",  "999999999999",
                                           "[[1], 2]",    "9223372036854775807"};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// Changes one of the lines from `first` on.
void change(random_stream& random, std::vector<std::string>& lines, std::size_t first,
            const std::vector<std::string>& files) {
  auto& line = lines[first + random.below(lines.size() - first)];
  const auto equals = line.find('=');
  switch (random.below(12)) {
    case 0:
      line.clear();
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(random.below(lines.size())), std::string(line));
      break;
    case 2:
      std::swap(line, lines[random.below(lines.size())]);
      break;
    case 3:
      if (!line.empty()) line[random.below(line.size())] = static_cast<char>(random.below(256));
      break;
    case 4:
      line = one_of(random, lines_of(one_of(random, files)));
      break;
    default:
      if (equals == std::string::npos) break;
      const auto is_text = line.find_first_of("\"'", equals) != std::string::npos;
      line.resize(equals + 1);
      line += " " + one_of(random, is_text == (random.below(8) != 0) ? odd_texts : odd_numbers);
  }
}

/// The samples of a file, read once.
class samples {
 public:
  const data::dataset_pair& of(const topology::topology& file) {
    for (const auto& [settings, sets] : known_)
      if (settings == file.data) return sets;
    return known_.emplace_back(file.data, load_data(file)).second;
  }

 private:
  std::list<std::pair<topology::data_settings, data::dataset_pair>> known_;
};

TEST_CASE("a topology with other contents is refused in words, or simulated") {
  const auto files = whole_files();
  samples all;
  std::uint64_t simulated = 0, refused = 0;
  const auto count = tests::repeat(300, 100'000);
  for_each_seed(count, [&](std::uint64_t seed) {
    random_stream random{seed};
    auto lines = lines_of(one_of(random, files));
    for (auto times = 1 + random.below(2); times > 0; --times)
      change(random, lines, random.below(3) == 0 ? 0 : lines.size() / 2, files);
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    CAPTURE(text);
    try {
      const auto file = topology::parse(text, "changed.toml");
      const auto& sets = all.of(file);
      auto plan = make_plan(file, data_facts(sets, file));
      constexpr std::int64_t most_elements = 200'000;
      if (plan.workers > 32 || plan.layout.total > most_elements) return;  // it would only take longer
      if (plan.file.simulate.gradient == "measure") plan.file.simulate.gradient = "1ms";
      models::buffer_pool pool;
      auto initial = initial_weights(plan, pool);
      const auto journal = std::make_shared<tests::remembered>();
      simulate_run(plan, sets, std::move(initial), pool, journal,
                   {.seed = seed, .computes = false, .stop_after = 2000});
      ++simulated;
    } catch (const input_error& error) {
      CHECK(std::string_view(error.what()).size() > 10);
      ++refused;
    } catch (const std::runtime_error& error) {  // the simulation failed
      CHECK(std::string_view(error.what()).size() > 10);
    }
  });
  CHECK(simulated > count / 10);
  CHECK(refused > count / 10);
}

}  // namespace

}  // namespace mutations_test

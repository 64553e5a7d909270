// What the command line accepts, as plain data taken from the options themselves. Shell completions and man pages are
// generated from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

/// What a shell can offer as a value.
enum class offered : std::uint8_t {
  nothing,   ///< A number, or a name that only the user knows.
  words,     ///< The words in described_option::choices.
  folders,   ///< Any folder.
  files,     ///< Files that end in described_option::ending, or all of them.
  settings,  ///< section.key=value of the topology file.
};

struct described_option {
  std::vector<std::string> names;  ///< Such as "-o" and "--output"; for a positional argument, its name.
  std::string description;
  std::string value;           ///< Stands for the value in help texts, such as "DIR"; empty for a flag.
  std::string default_text{};  ///< Empty if the description names it, or if there is none.
  bool positional{false}, required{false}, repeatable{false};
  offered values{offered::nothing};
  std::vector<std::string> choices{};
  std::string ending{};  ///< Such as ".toml"; empty for any file.
};

struct described_command {
  /// Includes the names of the commands that it belongs to, as in "data fetch"; empty for `troupe` itself.
  std::string name;
  std::string description;
  std::vector<described_option> positionals, options;
  std::vector<described_command> commands;
};

/// Gives the values of options descriptive names in help texts, such as DIR rather than TEXT.
void name_values(CLI::App& app);

/// Describes the whole command line. Hidden options are left out.
described_command describe_command_line(const CLI::App& app);

/// A setting that --set accepts.
struct described_setting {
  std::string key;  ///< Such as "exchange.kind".
  std::string explanation;
  std::vector<std::string> choices{};  ///< Empty unless only these values are valid.
};

/// Returns the keys that --set takes without the name of a section, each once.
std::vector<described_setting> described_settings();

}  // namespace troupe::apps

#include "troupe/apps/completions.hpp"

namespace troupe::apps {

namespace {

std::string quoted_for_fish(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string first_sentence(const std::string& text) {
  return text.substr(0, text.find(". "));
}

/// Returns the options of `complete` that offer the values of an option.
std::string fish_values_of(const described_option& option) {
  std::string words;
  switch (option.values) {
    case offered::words:
      for (const auto& choice : option.choices) words += (words.empty() ? "" : " ") + choice;
      return " -f -a " + quoted_for_fish(words);
    case offered::folders:
      return " -f -a '(__fish_complete_directories)'";
    case offered::files:
      return option.ending.empty() ? " -F" : " -f -a '(__fish_complete_suffix " + option.ending + ")'";
    case offered::settings:
      return " -f -a '(__troupe_settings)'";
    case offered::nothing:
      break;
  }
  return " -f";
}

void add_command(const described_command& command, std::string& text) {
  const std::string condition = command.commands.empty() ? "__troupe_at " : "__troupe_needs_command ";
  const auto at = "complete -c troupe -n '" + condition + command.name + "'";
  for (const auto& subcommand : command.commands)
    text += at + " -f -a " + subcommand.name.substr(subcommand.name.rfind(' ') + 1) + " -d " +
            quoted_for_fish(subcommand.description) + "\n";
  for (const auto& option : command.options) {
    text += at;
    for (const auto& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.value.empty()) text += " -r" + fish_values_of(option);
    text += " -d " + quoted_for_fish(option.description) + "\n";
  }
  for (const auto& positional : command.positionals) text += at + fish_values_of(positional) + "\n";
  if (command.positionals.empty()) text += at + " -f\n";
  for (const auto& subcommand : command.commands) add_command(subcommand, text);
}

}  // namespace

std::string fish_completions(const described_command& all, const std::vector<described_setting>& settings) {
  std::string text = R"(# Completes the arguments of troupe in fish. Made by: troupe completions fish

# Whether the command line names this command.
function __troupe_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l count (count $argv)
    test $count -eq 0; or test "$words[1..$count]" = "$argv"
end

# Whether the command line names this command, and none below it.
function __troupe_needs_command
    test (commandline -opc | count) -eq (math (count $argv) + 1); and __troupe_at $argv
end

function __troupe_settings
    printf '%s\t%s\n' \
)";
  for (const auto& row : settings) {
    text +=
        "        " + quoted_for_fish(row.key + "=") + " " + quoted_for_fish(first_sentence(row.explanation)) + " \\\n";
    for (const auto& choice : row.choices) text += "        " + quoted_for_fish(row.key + "=" + choice) + " '' \\\n";
  }
  text += "        ''\nend\n\n";
  add_command(all, text);
  return text;
}

}  // namespace troupe::apps

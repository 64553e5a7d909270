#include "troupe/apps/completions.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>

namespace troupe::apps {

namespace {

/// Returns text in single quotes, with a backslash before each of `special`.
std::string quoted_for_zsh(const std::string& text, const std::string& special) {
  std::string result = "'";
  for (const char c : text) {
    if (special.find(c) != std::string::npos) result += '\\';
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

std::string function_of(const described_command& command) {
  auto name = command.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return name.empty() ? "_troupe" : "_troupe_" + name;
}

/// Returns the action of _arguments for a value.
std::string action_of(const described_option& option) {
  switch (option.values) {
    case offered::words:
      return "(" + text::joined(option.choices, " ") + ")";
    case offered::folders:
      return "_files -/";
    case offered::files:
      return option.ending.empty() ? "_files" : "_files -g \"*" + option.ending + "\"";
    case offered::settings:
      return "_troupe__settings";
    case offered::nothing:
      break;
  }
  return " ";
}

/// Returns the words of _arguments that describe an option under each of its names.
std::string specification_of(const described_option& option) {
  std::string words;
  for (const auto& name : option.names) {
    const auto* many = option.repeatable ? "*" : "";
    const auto* with_equals = !option.value.empty() && name.starts_with("--") ? "=" : "";
    auto text = many + name + with_equals + "[" + option.description + "]";
    auto quoted = quoted_for_zsh(text.substr(0, text.find('[') + 1), "");
    quoted.pop_back();
    const auto description = quoted_for_zsh(option.description, "[]:\\");
    quoted += description.substr(1, description.size() - 2) + "]";
    if (!option.value.empty()) quoted += ":" + option.value + ":" + action_of(option);
    words += " \\\n    " + quoted + "'";
  }
  return words;
}

std::string function_text(const described_command& command) {
  auto text = function_of(command) + "() {\n";
  std::string arguments;
  for (const auto& option : command.options) arguments += specification_of(option);
  if (command.commands.empty()) {
    for (const auto& positional : command.positionals)
      arguments += " \\\n    '" + std::string(positional.repeatable ? "*" : "") + ":" + positional.names.front() + ":" +
                   action_of(positional) + "'";
    return text + "  _arguments -s" + arguments + "\n}\n\n";
  }
  text += "  local state line curcontext=$curcontext\n  local -A opt_args\n  local -a commands=(\n";
  for (const auto& subcommand : command.commands) {
    const auto name = subcommand.name.substr(subcommand.name.rfind(' ') + 1);
    text += "    " + quoted_for_zsh(name + ":" + subcommand.description, "") + "\n";
  }
  text += "  )\n  _arguments -C" + arguments +
          " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n"
          "    command) _describe -t commands command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const auto& subcommand : command.commands)
    text +=
        "        " + subcommand.name.substr(subcommand.name.rfind(' ') + 1) + ") " + function_of(subcommand) + " ;;\n";
  return text + "      esac ;;\n  esac\n}\n\n";
}

void add_functions(const described_command& command, std::string& text) {
  for (const auto& subcommand : command.commands) add_functions(subcommand, text);
  text += function_text(command);
}

}  // namespace

std::string zsh_completions(const described_command& all, const std::vector<described_setting>& settings) {
  std::string text = R"(#compdef troupe
# Completes the arguments of troupe in zsh. Made by: troupe completions zsh

_troupe__settings() {
  if compset -P '*='; then
    local key=${${IPREFIX%=}##*=}
    case $key in
)";
  for (const auto& row : settings)
    if (!row.choices.empty()) text += "      " + row.key + ") compadd -- " + text::joined(row.choices, " ") + " ;;\n";
  text += "    esac\n    return\n  fi\n  local -a keys=(\n";
  for (const auto& row : settings) {
    const auto sentence = row.explanation.substr(0, row.explanation.find(". "));
    text += "    " + quoted_for_zsh(row.key + ":" + sentence, "") + "\n";
  }
  text += "  )\n  _describe -t settings setting keys -S '='\n}\n\n";
  add_functions(all, text);
  return text + "if [[ $funcstack[1] == _troupe ]]; then\n  _troupe \"$@\"\nelse\n  compdef _troupe troupe\nfi\n";
}

}  // namespace troupe::apps

#include "troupe/apps/completions.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/value.hpp"

namespace troupe::apps {

namespace {

/// Returns the lines of a `case` that set the variables of one option or positional argument.
std::string bash_values_of(const described_option& option) {
  switch (option.values) {
    case offered::words:
      return "words='" + text::joined(option.choices, " ") + "'";
    case offered::folders:
      return "files=folders";
    case offered::files:
      return "files='" + (option.ending.empty() ? "*" : "*" + option.ending) + "'";
    case offered::settings:
      return "settings=yes";
    case offered::nothing:
      break;
  }
  return "words=";
}

void add_command(const described_command& command, std::string& names, std::string& cases) {
  std::vector<std::string> commands, options;
  for (const auto& subcommand : command.commands)
    commands.push_back(subcommand.name.substr(subcommand.name.rfind(' ') + 1));
  for (const auto& option : command.options) options.insert(options.end(), option.names.begin(), option.names.end());
  cases += "    '" + command.name + "')\n      options='" + text::joined(options, " ") + "'\n";
  std::string with_values;
  for (const auto& option : command.options)
    if (!option.value.empty())
      with_values += "        " + text::joined(option.names, "|") + ") " + bash_values_of(option) + " ;;\n";
  std::string without = ":";
  if (!commands.empty()) without = "words='" + text::joined(commands, " ") + "'";
  if (!command.positionals.empty()) without = bash_values_of(command.positionals.front());
  cases += "      case $option in\n" + with_values + "        *) option= " + without + " ;;\n      esac ;;\n";
  if (!command.name.empty()) names += (names.empty() ? "'" : "|'") + command.name + "'";
  for (const auto& subcommand : command.commands) add_command(subcommand, names, cases);
}

}  // namespace

std::string bash_completions(const described_command& all, const std::vector<described_setting>& settings) {
  std::string names, cases, keys, choices;
  add_command(all, names, cases);
  for (const auto& row : settings) {
    keys += (keys.empty() ? "" : " ") + row.key + "=";
    if (!row.choices.empty()) choices += "      " + row.key + ") words='" + text::joined(row.choices, " ") + "' ;;\n";
  }
  return R"(# Completes the arguments of troupe in bash. Made by: troupe completions bash
_troupe() {
  local current=${COMP_WORDS[COMP_CWORD]} command= option= before= equals= key= options= words= files= settings= word i
  COMPREPLY=()
  # "=" is a word of its own.
  if [[ $current == = ]]; then current= equals=yes; elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then equals=yes; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == = ]] && continue
    case "${command:+$command }$word" in
      )" +
         names +
         R"() command+="${command:+ }$word" ;;
    esac
    before=$option option=$word
  done
  if [[ $equals && $option != -* ]]; then key=$option option=$before; fi
  case $command in
)" + cases +
         R"(  esac
  if [[ $settings && $key ]]; then
    settings=
    case $key in
)" + choices +
         R"(    esac
  elif [[ $key ]]; then
    return
  fi
  if [[ $current == -* && ! $option ]]; then
    words=$options files= settings=
  fi
  if [[ $settings ]]; then
    compopt -o nospace
    words=')" +
         keys + R"('
  fi
  if [[ $files ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
    if [[ $files != folders ]]; then
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X "!$files" -- "$current" | while IFS= read -r word; do
        [[ -d $word ]] || printf '%s\n' "$word"
      done)
    fi
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _troupe troupe
)";
}

}  // namespace troupe::apps

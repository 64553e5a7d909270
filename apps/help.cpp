// The help texts of the command, as wide as the terminal, and troupe help [COMMAND].
#include "troupe/apps/help.hpp"

#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/suggest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

/// Names that other programs have for these commands.
const std::map<std::string, std::string>& synonyms() {
  static const std::map<std::string, std::string> words{
      {"train", "run"},         {"start", "run"},        {"fit", "run"},       {"launch", "run"},
      {"test", "eval"},         {"evaluate", "eval"},    {"plan", "check"},    {"validate", "check"},
      {"lint", "check"},        {"draw", "graph"},       {"plot", "graph"},    {"ls", "list"},
      {"show", "list"},         {"describe", "explain"}, {"download", "data"}, {"diff", "compare"},
      {"benchmark", "compare"}, {"sim", "simulate"},     {"watch", "top"},     {"doc", "man"},
      {"manual", "man"}};
  return words;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

void print_help_of(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  std::string before;
  for (const auto& word : words) {
    const auto subcommands = command->get_subcommands([](CLI::App*) { return true; });
    const auto next = std::find_if(subcommands.begin(), subcommands.end(),
                                   [&](const CLI::App* candidate) { return candidate->get_name() == word; });
    if (next == subcommands.end())
      throw input_error("unknown command \"" + word + "\"; \"troupe --help\" lists the commands" +
                        meant_command(*command, word));
    before += (before.empty() ? "" : " ") + command->get_name();
    command = *next;
  }
  print_help(words.empty() ? app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal)
                           : command->help(before));
}

}  // namespace

std::string meant_command(const CLI::App& app, const std::string& word) {
  const auto names = names_of_commands(app);
  if (auto question = topology::did_you_mean(word, names); !question.empty()) return question;
  std::vector<std::string> others;
  for (const auto& [other, name] : synonyms()) others.push_back(other);
  const auto synonym = synonyms().find(topology::nearest(word, others));
  return synonym == synonyms().end() ? "" : topology::did_you_mean(synonym->second, names);
}

void print_help(const std::string& text) {
  constexpr std::size_t column = 30;  // where the descriptions begin
  const auto columns = page_columns(80);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto is_row = line.starts_with("  ") && line.size() > column;
    if (columns_of_text(line) <= columns)
      std::cout << line << "\n";
    else if (is_row)
      print_wrapped(line.substr(0, column), column, line.substr(column), columns);
    else
      print_wrapped("", 0, line, columns);
  }
}

void add_help(CLI::App& app, int&) {
  auto* command = app.add_subcommand("help", "Describe a command");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *words, "Command to describe, such as run or data fetch (default: list all commands)");
  command->callback([&app, words] { print_help_of(app, *words); });
}

}  // namespace troupe::apps

// troupe man [COMMAND]: the manual, generated from the options of the commands and the table of keys.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/command_line.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {

namespace {

/// Returns the code point that begins at `at`, and moves `at` past it. The text is valid UTF-8.
unsigned next_code_point(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const auto first = byte(at++);
  const auto more = first >= 0xf0u ? 3 : first >= 0xe0u ? 2 : first >= 0xc0u ? 1 : 0;
  auto code = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more && at < text.size(); ++i) code = code << 6u | (byte(at++) & 0x3fu);
  return code;
}

/// Escapes text for roff: backslashes and hyphens, and everything that is not ASCII.
std::string escaped(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto code = next_code_point(text, at);
    if (code == '\\') {
      result += "\\e";
    } else if (code == '-') {
      result += "\\-";
    } else if (code < 0x80) {
      result += static_cast<char>(code);
    } else {
      std::array<char, 16> name{};
      std::snprintf(name.data(), name.size(), "\\[u%04X]", code);
      result += name.data();
    }
  }
  return result;
}

/// Returns a paragraph as roff: each sentence on a line of its own, long sentences on several lines, and no line that
/// roff would take for a request.
std::string roff(const std::string& text) {
  std::string paragraph, line;
  const auto end_line = [&] {
    if (!line.empty())
      paragraph += (paragraph.empty() ? "" : "\n") + (line[0] == '.' || line[0] == '\'' ? "\\&" + line : line);
    line.clear();
  };
  std::istringstream words{text};
  for (std::string word; words >> word;) {
    const auto shown = escaped(word);
    if (line.size() + 1 + shown.size() > 78) end_line();
    line += (line.empty() ? "" : " ") + shown;
    if (word.ends_with('.')) end_line();
  }
  end_line();
  return paragraph;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + escaped(text) + "\\fR";
}

/// Returns the name of the page of a command, such as "troupe-data-fetch".
std::string page_name(const std::string& command) {
  auto name = command.empty() ? "troupe" : "troupe-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// Date of the last change to the text in this file, which the manual pages show.
const std::string last_revised = "2026-11-24";

std::string header(const std::string& name, const std::string& section, const std::string& what) {
  std::string upper = name;
  for (auto& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return ".TH " + escaped(upper) + " " + section + " " + last_revised + " \"Troupe " + escaped(version()) +
         "\"\n.SH NAME\n" + escaped(name) + " \\- " + roff(what) + "\n";
}

/// Returns a description in the form of the NAME section of a page: without an initial capital and a full stop.
std::string phrase(const std::string& description) {
  auto text = description;
  if (text.size() > 1 && text[1] >= 'a' && text[1] <= 'z' && text[0] >= 'A' && text[0] <= 'Z')
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string names_of(const described_option& option) {
  std::string text;
  for (const auto& name : option.names)
    text += (text.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
  return option.value.empty() || option.positional ? text : text + " " + italic(option.value);
}

std::string entry(const described_option& option) {
  auto text = option.description;
  if (!text.ends_with('.')) text += ".";
  if (!option.choices.empty() && option.choices.size() <= 8) text += " One of " + text::listed(option.choices) + ".";
  if (!option.default_text.empty()) text += " The default is " + option.default_text + ".";
  return ".TP\n" + names_of(option) + "\n" + roff(text) + "\n";
}

std::string synopsis(const described_command& command) {
  std::string text = ".SH SYNOPSIS\n" + bold(command.name.empty() ? "troupe" : "troupe " + command.name);
  if (!command.commands.empty()) text += " " + italic("COMMAND");
  text += " [" + italic("OPTIONS") + "]";
  for (const auto& positional : command.positionals) {
    const auto word = italic(positional.names.front()) + (positional.repeatable ? "\\[u2026]" : "");
    text += positional.required ? " " + word : " [" + word + "]";
  }
  return text + "\n";
}

std::string list(const std::string& title, const std::vector<described_option>& options) {
  if (options.empty()) return {};
  std::string text = ".SH " + title + "\n";
  for (const auto& option : options) text += entry(option);
  return text;
}

std::string page_of(const described_command& command) {
  auto text = header(page_name(command.name), "1", phrase(command.description)) + synopsis(command);
  text += ".SH DESCRIPTION\n" + roff(command.description + (command.description.ends_with('.') ? "" : ".")) + "\n";
  text += list("ARGUMENTS", command.positionals);
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const auto& subcommand : command.commands)
    text += ".TP\n" + bold(subcommand.name) + "\n" + roff(subcommand.description) + ".\n";
  text += list("OPTIONS", command.options);
  if (command.name.empty())
    text +=
        ".SH EXIT STATUS\n.TP\n0\nSuccess.\n.TP\n1\nThe run failed.\n.TP\n2\nThe input is invalid; nothing was "
        "started.\n.TP\n128 + N\nEnded by signal N: 129 by SIGHUP, 130 by SIGINT, 131 by SIGQUIT, 143 by SIGTERM.\n"
        ".SH ENVIRONMENT\n.TP\n" +
        bold("TROUPE_DATA") + "\nFolder of the data sets.\n.TP\n" + bold("TROUPE_NODE") + "\nName of the node that " +
        bold("troupe node --name auto") + " runs.\n.TP\n" + bold("NO_COLOR") +
        "\nIf set, nothing is printed in colours.\n";
  std::vector<std::string> others;
  if (!command.name.empty()) others.push_back(bold("troupe") + "(1)");
  for (const auto& subcommand : command.commands) others.push_back(bold(page_name(subcommand.name)) + "(1)");
  others.push_back(bold("troupe-topology") + "(5)");
  return text + ".SH SEE ALSO\n" + text::joined(others, ",\n") + "\n";
}

std::string entry(const setting& row) {
  auto text = row.explanation + " The value is " + topology::expectation(row);
  text += row.default_text.empty() ? "." : "; the default is " + row.default_text + ".";
  return ".TP\n" + bold(row.name) + "\n" + roff(text) + "\n";
}

std::string topology_page() {
  auto text = header("troupe-topology", "5", "the topology file, which describes a run of Troupe");
  text += ".SH DESCRIPTION\n" +
          roff(
              "A topology is a TOML file. Keys that are left out have their defaults. On the command line, --set "
              "section.key=value overrides a key, and `troupe explain` describes it.") +
          "\n";
  for (const auto& section : topology::sections()) {
    text += section.name.empty() ? ".SH TOP OF THE FILE\n" : ".SH [" + section.name + "]\n";
    text += roff(section.explanation) + "\n";
    for (const auto& key : section.keys) text += entry(key.row);
    for (const auto& kinds : section.kinds)
      for (const auto& kind : kinds.all()) {
        if (kind.settings->empty()) continue;
        text += ".SS " + kinds.key + " = \"" + escaped(kind.name) + "\"\n" + roff(kind.explanation) + "\n";
        for (const auto& row : *kind.settings) text += entry(row);
      }
  }
  return text + ".SH SEE ALSO\n" + bold("troupe") + "(1)\n";
}

void add_pages(const described_command& command, std::map<std::string, std::string>& pages) {
  pages.emplace(page_name(command.name), page_of(command));
  for (const auto& subcommand : command.commands) add_pages(subcommand, pages);
}

/// Returns all pages by name.
std::map<std::string, std::string> pages_of(const CLI::App& app) {
  std::map<std::string, std::string> pages;
  add_pages(describe_command_line(app), pages);
  pages.emplace("troupe-topology", topology_page());
  return pages;
}

void write_all(const std::map<std::string, std::string>& pages, const std::filesystem::path& folder) {
  for (const auto& [name, text] : pages) {
    const std::string section = name == "troupe-topology" ? "5" : "1";
    std::filesystem::create_directories(folder / ("man" + section));
    write_aside(folder / ("man" + section) / (name + "." + section), text);
  }
}

struct man_options {
  std::vector<std::string> command;
  std::filesystem::path folder;
};

void print_page(const CLI::App& app, const man_options& given) {
  const auto pages = pages_of(app);
  if (!given.folder.empty()) return write_all(pages, given.folder);
  const auto page = pages.find(page_name(text::joined(given.command, " ")));
  if (page != pages.end()) {
    std::cout << page->second;
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, text] : pages)
    if (name != "troupe") names.push_back(name.substr(std::string("troupe-").size()));
  const auto wanted = text::joined(given.command, " ");
  throw input_error("man: unknown page \"" + wanted + "\"; expected " + text::listed(names) +
                    topology::did_you_mean(wanted, names));
}

}  // namespace

void add_man(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("man", "Print a page of the manual, in the format of the man command");
  const auto given = std::make_shared<man_options>();
  command->add_option("COMMAND", given->command,
                      "Command that the page describes, or topology for the topology file (default: all commands)");
  command->add_option("--dir", given->folder, "Write all pages to this folder instead, such as /usr/local/share/man");
  command->callback([given, &app, &status] {
    print_page(app, *given);
    status = 0;
  });
}

}  // namespace troupe::apps

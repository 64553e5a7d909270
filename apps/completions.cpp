// troupe completions SHELL: a script with which a shell completes commands, options, files and settings.
#include "troupe/apps/completions.hpp"

#include "troupe/apps/commands.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace troupe::apps {

void add_completions(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("completions", "Print the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "Shell to complete commands in")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app, &status] {
    auto* const generate = *shell == "bash" ? bash_completions : *shell == "zsh" ? zsh_completions : fish_completions;
    std::cout << generate(describe_command_line(app), described_settings());
    status = 0;
  });
}

}  // namespace troupe::apps

// Completion scripts, one function per shell.
#pragma once

#include "troupe/apps/console/command_line.hpp"

#include <string>
#include <vector>

namespace troupe::apps {

std::string bash_completions(const described_command& all, const std::vector<described_setting>& settings);
std::string zsh_completions(const described_command& all, const std::vector<described_setting>& settings);
std::string fish_completions(const described_command& all, const std::vector<described_setting>& settings);

}  // namespace troupe::apps

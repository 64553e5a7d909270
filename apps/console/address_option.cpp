#include "troupe/apps/console/address_option.hpp"

#include "troupe/files/error.hpp"
#include "troupe/net/channels/endpoint.hpp"

#include <CLI/CLI.hpp>

#include <utility>
#include <vector>

namespace troupe::apps {

void add_address_option(CLI::App& command, const address_option& option, std::optional<std::string>& address,
                        const std::string& description) {
  command
      .add_option_function<std::vector<std::string>>(
          option.name,
          [&address, option](const std::vector<std::string>& values) {
            address = values.empty() || values[0].empty() ? option.by_default : values[0];
          },
          description)
      ->type_name("[HOST:PORT]")
      ->expected(0, 1);
}

void settle(const address_option& option, std::optional<std::string>& address, std::filesystem::path& file) {
  if (!address || address->empty() || parse_endpoint(*address)) return;
  if (!file.empty())
    throw input_error(std::string(option.name) + ": \"" + *address + "\" is not an address; expected one such as " +
                      option.example);
  file = std::exchange(*address, option.by_default);
}

}  // namespace troupe::apps

// Options that turn something on and may have an address, such as --dashboard [HOST:PORT].
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace troupe::apps {

/// An option as given: unset if it is missing, and the default if it has no address.
struct address_option {
  const char* name;        ///< Such as "--dashboard".
  const char* by_default;  ///< The address if none is given.
  const char* example;     ///< An address for messages.
};

/// Adds the option. `address` must outlive the command.
void add_address_option(CLI::App& command, const address_option& option, std::optional<std::string>& address,
                        const std::string& description);

/// Moves FILE of `--dashboard FILE` to `file` if it is not an address: the address of the option may be left out.
/// Throws input_error if the address is not valid.
void settle(const address_option& option, std::optional<std::string>& address, std::filesystem::path& file);

}  // namespace troupe::apps

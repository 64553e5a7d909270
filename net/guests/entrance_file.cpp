#include "troupe/net/guests/entrance_file.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"

namespace troupe::guests {

std::string text_of(const endpoint& address, const std::string& secret) {
  return files::json_text(files::json{{"address", print_endpoint(address)}, {"secret", secret}}, {.indent = 2}) + "\n";
}

entrance_file read_entrance(const std::filesystem::path& folder) try {
  const auto path = folder / entrance_file_name;
  constexpr std::size_t most_bytes = 4096;
  const files::input file{path};
  std::string text(most_bytes, '\0');
  text.resize(file.read_at(0, text.data(), text.size()));
  const auto object = files::parse_json(text);
  const auto value = [&](const char* key) {
    const auto entry = object.is_object() ? object.find(key) : object.end();
    if (entry == object.end() || !entry->is_string())
      throw input_error(path.string() + ": there is no \"" + key + "\"; expected the file of a run with --actors");
    return entry->get<std::string>();
  };
  const auto address = parse_endpoint(value("address"));
  if (!address) throw input_error(path.string() + ": the address is not valid");
  return {.address = *address, .secret = security::parse_secret(value("secret"), path.string())};
} catch (const files::unreadable& problem) {
  throw input_error((folder / entrance_file_name).string() + ": " + problem.reason() +
                    "; expected the results folder of a run that was started with --actors and has not ended");
}

}  // namespace troupe::guests

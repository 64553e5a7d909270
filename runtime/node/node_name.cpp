#include "troupe/runtime/node/node_name.hpp"

#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace troupe {

namespace {

constexpr std::array index_variables{"SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "JOB_COMPLETION_INDEX"};

const std::string& name_at(const std::vector<std::string>& names, std::string_view digits, const std::string& from) {
  std::size_t index = 0;
  const auto* end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, index);
  if (error != std::errc{} || last != end || index >= names.size())
    throw input_error("--name auto: " + from + ", but the file has " + std::to_string(names.size()) +
                      (names.size() == 1 ? " node" : " nodes") + "; expected a number from 0 to " +
                      std::to_string(names.size() - 1));
  return names[index];
}

}  // namespace

launch_surroundings surroundings() {
  constexpr std::size_t longest = 256;
  std::array<char, longest + 1> host{};
  if (::gethostname(host.data(), longest) != 0) host[0] = '\0';
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); }, .host = host.data()};
}

std::string launched_name(const std::vector<std::string>& names, const launch_surroundings& where) {
  if (const auto* name = where.variable("TROUPE_NODE")) return name;
  for (const auto* variable : index_variables)
    if (const auto* index = where.variable(variable))
      return name_at(names, index, std::string(variable) + " is " + topology::printable(index));
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto begin = std::find_if_not(where.host.rbegin(), where.host.rend(), is_digit).base();
  if (begin == where.host.end())
    throw input_error(
        "--name auto: this process has no number; expected TROUPE_NODE, SLURM_NODEID, OMPI_COMM_WORLD_RANK or "
        "JOB_COMPLETION_INDEX in the environment, or a host name that ends with a number");
  return name_at(names, {begin, where.host.end()}, "the host is called " + topology::printable(where.host));
}

}  // namespace troupe

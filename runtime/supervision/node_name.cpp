#include "troupe/runtime/supervision/node_name.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/tcp/listen.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace troupe {

namespace {

constexpr std::array index_variables{"SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "JOB_COMPLETION_INDEX"};

constexpr auto* how_to_say_it = "; set TROUPE_NODE to the name of the node, or use --name NAME instead of auto";

const std::string& name_at(const std::vector<planned_node>& nodes, std::string_view digits, const std::string& from) {
  std::size_t index = 0;
  const auto* end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, index);
  if (error != std::errc{} || last != end || index >= nodes.size())
    throw input_error("--name auto: " + from + ", but the file has " + std::to_string(nodes.size()) +
                      (nodes.size() == 1 ? " node" : " nodes") + "; expected a number from 0 to " +
                      std::to_string(nodes.size() - 1));
  return nodes[index].name;
}

std::string lower(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Returns whether two names refer to one host: they are equal, or one is the other without all or the end of its
/// domain.
bool same_host(const std::string& a, const std::string& b) {
  const auto &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  return !shorter.empty() && longer.starts_with(shorter) &&
         (longer.size() == shorter.size() || longer[shorter.size()] == '.');
}

/// Returns whether a host is given as a numeric address, which contains no host name.
bool is_numeric(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos || host.find(':') != std::string::npos;
}

/// Returns the one node for which `is_it` holds, or null. Throws input_error if there are several.
template <class IsIt>
const planned_node* only(const std::vector<planned_node>& nodes, const std::string& host, IsIt is_it) {
  std::vector<std::string> names;
  const planned_node* match = nullptr;
  for (const auto& node : nodes)
    if (is_it(node)) {
      match = &node;
      names.push_back(node.name);
    }
  if (names.size() > 1)
    throw input_error("--name auto: the nodes " + text::listed(names, "and") + " are all at this host, " +
                      text::printable(host) + how_to_say_it);
  return match;
}

/// Returns the digits of a name such as "troupe-2"; nothing for one such as "node02", "web-02" or "ip-10-0-0-2".
std::optional<std::string_view> ordinal_of(std::string_view host) {
  const auto dash = host.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const auto digits = host.substr(dash + 1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  if ((digits.size() > 1 && digits.front() == '0') || is_digit(static_cast<unsigned char>(host[dash - 1])))
    return std::nullopt;
  return digits;
}

}  // namespace

launch_surroundings surroundings() {
  constexpr std::size_t longest = 256;
  std::array<char, longest + 1> host{};
  if (::gethostname(host.data(), longest) != 0) host[0] = '\0';
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); },
          .host = host.data(),
          .is_our_host = transport::is_of_this_host};
}

std::string launched_name(const std::vector<planned_node>& nodes, const launch_surroundings& where) {
  if (const auto* name = where.variable("TROUPE_NODE")) return name;
  for (const auto* variable : index_variables)
    if (const auto* index = where.variable(variable))
      return name_at(nodes, index, std::string(variable) + " is " + text::printable(index));
  const auto host = lower(where.host), label = host.substr(0, host.find('.'));
  if (const auto* node = only(nodes, host, [&](const auto& planned) { return lower(planned.name) == label; }))
    return node->name;
  const auto by_name = [&](const planned_node& node) {
    return !is_numeric(node.address.host) && same_host(lower(node.address.host), host);
  };
  if (const auto* node = only(nodes, host, by_name)) return node->name;
  const auto by_address = [&](const planned_node& node) {
    return !is_loopback(node.address) && where.is_our_host(node.address);
  };
  if (const auto* node = only(nodes, host, by_address)) return node->name;
  const auto on_one_host = [](const planned_node& node) { return is_loopback(node.address); };
  const auto digits = ordinal_of(label);
  if (digits && std::all_of(nodes.begin(), nodes.end(), on_one_host))
    return name_at(nodes, *digits, "the host is called " + text::printable(where.host));
  throw input_error(
      "--name auto: nothing says which node this process is: none of TROUPE_NODE, SLURM_NODEID, OMPI_COMM_WORLD_RANK "
      "and JOB_COMPLETION_INDEX is set, and no node has the name or the address of this host, " +
      text::printable(where.host) + how_to_say_it);
}

}  // namespace troupe

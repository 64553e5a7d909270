#include "troupe/runtime/topology/members.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace troupe::topology {
namespace {

std::string name_of_worker(std::uint32_t rank) {
  return "w" + std::to_string(rank);
}

/// Returns the rank that a name such as "w3" denotes among `count` workers, or nothing.
std::optional<std::uint32_t> rank_named(const std::string& name, std::int64_t count) {
  std::uint32_t rank = 0;
  if (name.size() < 2 || name.front() != 'w') return {};
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + 1, end, rank);
  if (error != std::errc{} || last != end || rank >= count || name != name_of_worker(rank)) return {};
  return rank;
}

/// Returns the ranks of a group, which are the workers that an exchange names. Groups of groups are not supported,
/// because the file would not show the order of their sums.
std::optional<std::vector<std::uint32_t>> group_named(const topology& file, const std::string& name,
                                                      std::size_t but_not) {
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    if (i == but_not || file.exchanges[i].name != name) continue;
    std::vector<std::uint32_t> ranks;
    for (const std::string& member : file.exchanges[i].members) {
      const auto rank = rank_named(member, file.workers.count);
      if (!rank) return {};
      ranks.push_back(*rank);
    }
    std::sort(ranks.begin(), ranks.end());
    if (!ranks.empty()) return ranks;
  }
  return {};
}

/// Returns why the exchange `name`, if there is one, cannot be a member of exchange `index`, or "".
std::string reason_against_group(const topology& file, const std::string& name, std::size_t index) {
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    if (file.exchanges[i].name != name) continue;
    if (i == index) return "an exchange cannot contain itself";
    for (const std::string& member : file.exchanges[i].members)
      if (!rank_named(member, file.workers.count))
        return to_toml(name) + " cannot be a member, because its own member " + to_toml(member) + " is not a worker";
    return to_toml(name) + " cannot be a member, because it does not list its own members";
  }
  return {};
}

[[noreturn]] void refuse_name(const topology& file, std::size_t index, std::size_t which) {
  const std::string& name = file.exchanges[index].members[which];
  const std::string reason = reason_against_group(file, name, index);
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < file.exchanges.size(); ++i)
    if (i != index && group_named(file, file.exchanges[i].name, index)) groups.push_back(file.exchanges[i].name);
  std::string expected =
      file.workers.count == 1 ? "w0" : "w0 to " + name_of_worker(static_cast<std::uint32_t>(file.workers.count - 1));
  if (!groups.empty())
    expected += ", or " + text::listed(text::in_quotes(groups)) + ", which stand for the workers of that exchange";
  throw member_error(which, (reason.empty() ? "there is no worker or exchange " + to_toml(name) : reason) +
                                "; expected " + expected + did_you_mean(name, groups));
}

}  // namespace

std::vector<exchange_member> members_of(const topology& file, std::size_t index) {
  const auto& names = file.exchanges[index].members;
  std::vector<exchange_member> members;
  if (names.empty()) {
    for (std::uint32_t rank = 0; rank < file.workers.count; ++rank) members.push_back({name_of_worker(rank), {rank}});
    return members;
  }
  std::map<std::uint32_t, std::string> taken;  // by rank: the member that contains it
  for (std::size_t i = 0; i < names.size(); ++i) {
    exchange_member member{names[i], {}};
    if (const auto rank = rank_named(names[i], file.workers.count)) {
      member.ranks = {*rank};
    } else if (auto group = group_named(file, names[i], index)) {
      member.ranks = std::move(*group);
    } else {
      refuse_name(file, index, i);
    }
    for (const auto rank : member.ranks) {
      const auto [other, fresh] = taken.emplace(rank, names[i]);
      if (!fresh)
        throw member_error(
            i,
            name_of_worker(rank) + " is in this exchange twice" +
                (other->second == names[i] ? "" : ", through " + to_toml(other->second) + " and " + to_toml(names[i])) +
                "; expected each worker once");
    }
    members.push_back(std::move(member));
  }
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  return members;
}

}  // namespace troupe::topology

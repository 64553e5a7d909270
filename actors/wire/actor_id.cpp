#include "troupe/actors/wire/actor_id.hpp"

namespace troupe {

namespace {

const char* name_of(role what) {
  switch (what) {
    case role::worker:
      return "worker";
    case role::compute:
      return "compute";
    case role::port:
      return "port";
    case role::server:
      return "server";
    case role::evaluator:
      return "evaluator";
    case role::coordinator:
      return "coordinator";
    case role::recorder:
      return "recorder";
    case role::interface:
      return "interface";
    case role::copies:
      return "copies";
    case role::reception:
      return "reception";
    case role::link:
      return "link";
  }
  return "actor";
}

actor_label numbered(role what, std::uint32_t rank) {
  return {{.what = what, .rank = rank}, std::string{name_of(what)} + " " + std::to_string(rank)};
}

}  // namespace

actor_label label_of_worker(std::uint32_t rank) {
  return numbered(role::worker, rank);
}

actor_label label_of_compute(std::uint32_t rank) {
  return numbered(role::compute, rank);
}

actor_label label_of(role what) {
  return {{.what = what}, name_of(what)};
}

actor_label label_of_port(const std::string& exchange, std::uint32_t place, std::uint32_t rank) {
  return {{.what = role::port, .place = place, .rank = rank}, exchange + " " + std::to_string(rank)};
}

actor_label label_of_server(const std::string& exchange, std::uint32_t place, std::uint32_t index) {
  return {{.what = role::server, .place = place, .rank = index}, exchange + " server " + std::to_string(index)};
}

}  // namespace troupe

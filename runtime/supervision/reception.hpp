// The reception of the first node judges whether a visitor may join the run. It can do nothing else: it has no state
// and uses only the links, to refuse a visitor, and the supervisor, to pass on an accepted one.
#pragma once

#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// A visitor and its introduction.
struct visit {
  transport::visitor_id visitor{};
  control::introduction who;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, visit& x) {
  return detail::inspect_local(f, "visit", x.who.node);
}

using reception_actor = caf::typed_actor<caf::reacts_to<visit>>;

struct reception_options {
  std::shared_ptr<const plan> run_plan;
  control::introduction self;  ///< Introduction of the first node, with which visitors are compared.
  std::shared_ptr<transport::control_links> links;
  std::function<void(const std::string&)> report;  ///< See supervisor_options.
  /// Called for an accepted visitor, with the index of its node.
  std::function<void(transport::visitor_id, std::uint32_t node)> admitted;
};

reception_actor spawn_reception(caf::actor_system& system, reception_options options);

}  // namespace troupe

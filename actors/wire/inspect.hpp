// How CAF prints and serialises the messages. Control messages are ordinary values. A message that holds a tensor or
// work to be done never leaves its process: it can be printed, but serialising it is an error, so that CAF never sends
// it over its own network format or, worse, sends an empty one in its place.
#pragma once

#include "troupe/actors/wire/fields.hpp"
#include "troupe/actors/wire/reformation.hpp"
#include "troupe/algorithms/messages/run_state.hpp"

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include <string>
#include <type_traits>

namespace troupe {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stamp& x) {
  return f(caf::meta::type_name("stamp"), x.run, x.sender, x.generation, x.step, x.version);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, key& x) {
  return f(caf::meta::type_name("key"), x.place, x.part);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, milestone& x) {
  return inspect_fields(f, "milestone", x.rank, x.step, x.loss_sum, x.sample_count, x.correct, x.classified,
                        x.bytes_sent, x.data_wait, x.busy, x.cpu, x.loading_cpu, x.exchange_wait);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, assignment& x) {
  return f(caf::meta::type_name("assignment"), x.first_step, x.first_batch, x.count);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, memory_handle& x) {
  return f(caf::meta::type_name("memory_handle"), x.process, x.file);
}

namespace detail {

/// Inspects a message that never leaves its process; only `shown` is visible.
template <class Inspector, class... Shown>
typename Inspector::result_type inspect_local(Inspector& f, const char* name, Shown... shown) {
  if constexpr (is_caf_format<Inspector>) {
    return caf::make_error(caf::sec::invalid_argument, std::string{"a "} + name + " stays in its process");
  } else {
    return f(caf::meta::type_name(name), shown...);
  }
}

/// Returns the shape of a tensor as readable text.
std::string shape_of(const at::Tensor& tensor);

}  // namespace detail

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, part& x) {
  return detail::inspect_local(f, "part", x.origin, x.which, x.piece.first, detail::shape_of(x.piece.values));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, outcome& x) {
  return detail::inspect_local(f, "outcome", x.origin, x.pieces.size());
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, snapshot& x) {
  return detail::inspect_local(f, "snapshot", x.origin, detail::shape_of(x.values));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, advance& x) {
  return detail::inspect_local(f, "advance", x.from.origin, x.verbs.size(), x.times);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, advanced& x) {
  return detail::inspect_local(f, "advanced", x.now.origin, x.loss_sum, x.sample_count);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, holding& x) {
  return detail::inspect_local(f, "holding", x.version, x.piece.first, detail::shape_of(x.piece.values));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, evaluation& x) {
  return detail::inspect_local(f, "evaluation", x.step, x.loss, x.sample_count);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, record& x) {
  return detail::inspect_local(f, "record", x.event, x.step);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, state_dict& x) {
  return detail::inspect_local(f, "state_dict", x.entries().size());
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, exchange_standing& x) {
  return detail::inspect_local(f, "exchange_standing", x.step, x.last.has_value());
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, reformation& x) {
  return detail::inspect_local(f, "reformation", x.among.generation, x.peers.size());
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_state& x) {
  return detail::inspect_local(f, "run_state", x.step, x.actors.size());
}

}  // namespace troupe

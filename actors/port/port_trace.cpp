#include "troupe/actors/port/port_state.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"

#include <caf/all.hpp>

#include <array>
#include <chrono>

namespace troupe {

namespace {

trace_time now(port_pointer self) {
  return trace_time_of(self->clock().now());
}

/// Returns the number of the arrow of the next part between this port and that of `other`. Parts from one port to
/// another arrive in the order in which they were sent, so both ends count them in the same way.
std::uint64_t next_arrow(port_state& my, std::uint32_t other, bool sends) {
  constexpr std::uint64_t of_place = 58, of_sender = 38, of_receiver = 18, ids = 1 << 20, counted = 1 << 18;
  const auto own = static_cast<std::uint32_t>(id_of(my.options, my.options.own.among.rank));
  const auto from = sends ? own : other, to = sends ? other : own;
  const auto number = my.arrows[{other, sends}]++;
  return std::uint64_t{my.options.own.place} << of_place | from % ids << of_sender | to % ids << of_receiver |
         number % counted;
}

/// Returns what a part carries and the elements of the flat storage that it covers.
std::array<trace_detail, 3> details_of(const part& piece) {
  return {
      {{"stage", static_cast<std::int64_t>(piece.at)}, {"first", piece.piece.first}, {"elements", elements_of(piece)}}};
}

}  // namespace

void take_traced(port_pointer self, const part& piece) {
  auto& my = self->state;
  const auto begin = now(self);
  const auto from = static_cast<std::uint32_t>(piece.origin.sender);
  const auto bytes = static_cast<std::int64_t>(piece.piece.values.nbytes());
  const auto step = static_cast<std::int64_t>(piece.origin.step);
  if (is_own(my, piece)) {
    take(self, piece);
    return my.options.track.add("contribute", begin, now(self), {{"step", step}, {"bytes", bytes}});
  }
  const auto arrow = next_arrow(my, from, false);
  const auto [at, first, elements] = details_of(piece);
  take(self, piece);
  my.options.track.add_arrow("receive", begin, now(self), trace_span::arrow::ends, arrow,
                             {{"from", from}, {"step", step}, {"bytes", bytes}, at, first, elements});
}

void report_sent(port_pointer self, rank_id to, const part& piece) {
  auto& my = self->state;
  if (to == my.options.own.among.rank) return;
  const auto other = static_cast<std::uint32_t>(id_of(my.options, to));
  const auto time = now(self);
  const auto [at, first, elements] = details_of(piece);
  my.options.track.add_arrow("send", time, time, trace_span::arrow::begins, next_arrow(my, other, true),
                             {{"to", other},
                              {"step", static_cast<std::int64_t>(piece.origin.step)},
                              {"bytes", static_cast<std::int64_t>(piece.piece.values.nbytes())},
                              at,
                              first,
                              elements});
}

}  // namespace troupe

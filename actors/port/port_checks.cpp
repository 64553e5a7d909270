// Checks that decide whether a port accepts a part.
#include "troupe/actors/port/port_state.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <caf/all.hpp>

#include <string>

namespace troupe {

bool is_own(const port_state& my, const part& piece) {
  return index_of(my.options, piece.origin.sender) == my.options.own.among.rank && piece.at == stage::contribution;
}

std::optional<caf::error> refusal(const port_state& my, const part& piece) {
  const auto known = index_of(my.options, piece.origin.sender);
  const auto from = " (from " +
                    (known ? list_of(my.options, {*known})
                           : "rank " + std::to_string(static_cast<std::uint32_t>(piece.origin.sender))) +
                    ", step " +
                    std::to_string(my.options.passes.step_of(piece.origin.step - my.options.own.due.lead) + 1) + ")";
  if (piece.origin.run != my.options.run)
    return make_error(errc::mismatch, "received a part that belongs to another run" + from);
  if (!known) return make_error(errc::mismatch, "received a part from an unknown rank" + from);
  if (piece.which.place != my.options.own.place)
    return make_error(errc::mismatch, "received a part that belongs to another exchange" + from);
  if (piece.total != my.options.own.layout.parameter_end)
    return make_error(errc::mismatch, "received a part that belongs to another model" + from);
  const auto due = piece.at == stage::result ? my.options.own.carries.answers : my.options.own.carries.sends;
  if (piece.what != due)
    return make_error(errc::mismatch, "received a part whose values are not of kind " + name_of(due) + from);
  const auto own = is_own(my, piece);
  if (!own && piece.origin.generation != my.options.own.among.generation)
    return make_error(errc::mismatch, "received a part from another set of members" + from);
  // A part can be float32 in any exchange, because there are answers, and steps, that are not encoded.
  const auto& expected = codec_of(own ? encoding::float32 : my.options.how);
  const auto is_known = piece.how == encoding::float32 || (piece.how == my.options.how && !own);
  if (!is_known || !piece.piece.values.defined() ||
      piece.piece.values.scalar_type() != codec_of(piece.how).payload_type())
    return make_error(errc::mismatch, "received a part whose values are not encoded as " + expected.name() + from);
  if (piece.sample_count <= 0) return make_error(errc::mismatch, "received a part without samples" + from);
  if (!my.options.own.due.due(piece.origin.step))
    return make_error(errc::mismatch, "received a part for a step without this exchange" + from);
  if (!my.most_ahead) return std::nullopt;
  if (piece.origin.step < my.step)
    return make_error(errc::stale, "received a part for a step that is already complete" + from);
  if (piece.origin.step > my.step + *my.most_ahead)
    return make_error(errc::mismatch, "received a part more than " + std::to_string(*my.most_ahead) +
                                          (*my.most_ahead == 1 ? " step" : " steps") +
                                          " ahead, which is the limit for this kind of exchange" + from);
  return std::nullopt;
}

}  // namespace troupe

#include "troupe/runtime/transport/state_frames.hpp"

#include "troupe/data/safetensors.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::transport {

std::vector<state_piece> cut(rank_id rank, std::uint64_t number, const state_dict& state) {
  data::tensor_file content;
  for (const auto& [name, values] : state.entries()) content.tensors.emplace_back(name, values);
  const auto text = data::safetensors_of(content);
  const auto total = static_cast<std::int64_t>(text.size());
  const auto bytes = at::empty({total}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  std::vector<state_piece> pieces;
  for (std::int64_t first = 0; first < total; first += state_piece_bytes)
    pieces.push_back({.rank = rank,
                      .number = number,
                      .first = first,
                      .total = total,
                      .bytes = bytes.narrow(0, first, std::min(state_piece_bytes, total - first))});
  return pieces;
}

std::optional<whole_state> state_assembler::add(const state_piece& piece) {
  auto& so_far = arrived_[piece.rank];
  if (piece.first != static_cast<std::int64_t>(so_far.size()))
    throw frame_error("received a piece of a state that does not continue the previous one");
  so_far.append(static_cast<const char*>(piece.bytes.const_data_ptr()), piece.bytes.nbytes());
  if (static_cast<std::int64_t>(so_far.size()) < piece.total) return std::nullopt;
  whole_state whole{.rank = piece.rank, .number = piece.number, .state = {}};
  try {
    for (const auto& [name, values] :
         data::parse_safetensors(std::exchange(so_far, {}), "the state of a worker").tensors)
      whole.state.put(name, values);
  } catch (const std::runtime_error& reason) {
    throw frame_error(reason.what());
  }
  return whole;
}

}  // namespace troupe::transport

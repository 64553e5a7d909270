#include "troupe/runtime/transport/state_frames.hpp"

#include "troupe/data/formats/safetensors.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::transport {

namespace {

/// Returns the pieces of a state; `like` contains what they have in common.
std::vector<state_piece> pieces_of(const state_dict& state, const state_piece& like) {
  data::tensor_file content;
  for (const auto& [name, values] : state.entries()) content.tensors.emplace_back(name, values);
  const auto text = data::safetensors_of(content);
  const auto total = static_cast<std::int64_t>(text.size());
  const auto bytes = at::empty({total}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  std::vector<state_piece> pieces;
  for (std::int64_t first = 0; first < total; first += state_piece_bytes) {
    auto piece = like;
    piece.first = first;
    piece.total = total;
    piece.bytes = bytes.narrow(0, first, std::min(state_piece_bytes, total - first));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

std::vector<state_piece> cut(rank_id rank, std::uint64_t number, const state_dict& state) {
  return pieces_of(state, {.rank = rank, .number = number});
}

std::vector<state_piece> cut_copy(std::uint64_t step, const state_dict& files) {
  return pieces_of(files, {.kind = frame_kind::copy, .number = step});
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
         data::parse_safetensors(std::exchange(so_far, {}), "a state from another node").tensors)
      whole.state.put(name, values);
  } catch (const std::runtime_error& reason) {
    throw frame_error(reason.what());
  }
  return whole;
}

}  // namespace troupe::transport

// The states of workers and the copies of checkpoints between nodes: each travels as the bytes of a safetensors file,
// cut into frames.
#pragma once

#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::transport {

/// Cuts the state of a worker into pieces, in the order in which they must be sent.
std::vector<state_piece> cut(rank_id rank, std::uint64_t number, const state_dict& state);

/// Cuts the files of the checkpoint of `step`, see checkpoint::pack_copy(), into pieces.
std::vector<state_piece> cut_copy(std::uint64_t step, const state_dict& files);

struct whole_state {
  rank_id rank{};
  std::uint64_t number{0};
  state_dict state;
};

/// Assembles states, or copies of checkpoints, from their pieces. Memory grows only with the bytes that have arrived.
class state_assembler {
 public:
  /// Returns the state that the piece completes. Throws frame_error if the piece does not continue what has arrived
  /// from this worker, or if the bytes are not a state.
  std::optional<whole_state> add(const state_piece& piece);

 private:
  std::map<rank_id, std::string> arrived_;
};

}  // namespace troupe::transport

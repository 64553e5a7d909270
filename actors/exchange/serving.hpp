// What the servers of exchanges have in common: which contribution must come next, how it is answered, and what has to
// be kept for later although workers have gone on.
#pragma once

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/actors/rules/schedule.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe::serving {

/// Throws exchange_error (mismatch) unless `piece` is what one of `world_size` workers brings itself, is `what`, and is
/// the range of `cut` with this index.
void check_contribution(const part& piece, std::uint32_t world_size, slot what, const std::vector<rules::range>& cut,
                        std::uint32_t index);

/// Returns what `server` answers a contribution with: its stamp, but for sender and version.
part answer_to(const part& contribution, rank_id server, std::uint64_t version, slot what, const at::Tensor& values);

/// The steps of each worker's contributions, one after the other as the exchange is due. So nothing is taken twice and
/// nothing is left out.
class roll_call {
 public:
  roll_call(std::uint32_t world_size, const cadence& due);

  /// Notes that the contribution of `worker` to `step` has come. Throws exchange_error: stale (it came already),
  /// mismatch (it is another's turn).
  void note(rank_id worker, std::uint64_t step);

  /// Workers whose contribution to `step` has not come.
  std::vector<rank_id> missing(std::uint64_t step) const;

 private:
  cadence due_;
  std::vector<std::uint64_t> next_;  ///< By worker: the step that must come next.
};

/// What a server held at steps that workers are beyond, until it is asked for.
class archive {
 public:
  archive(const schedule& when, const cadence& due) : when_(when), due_(due) {}

  /// To be told what the server holds before it takes in the contributions of all that are stamped `step`.
  void keep_before(std::uint64_t step, const holding& now);

  /// Returns what the server held when all had completed `step` steps, which is `now` unless that was kept. Forgets
  /// what was kept up to there.
  holding take(std::uint64_t step, const holding& now);

 private:
  schedule when_;
  cadence due_;
  std::uint64_t reached_{0};  ///< Up to here, excluded, it is known what the server held.
  std::map<std::uint64_t, holding> kept_;
};

}  // namespace troupe::serving

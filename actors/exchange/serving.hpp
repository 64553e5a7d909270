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

/// Whether the settings say apply = "each" rather than "all".
bool applies_each(const setting_values& settings);

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

/// What all servers do alike: they look at what comes, and answer each contribution once.
class answering_server : public server {
 public:
  /// A pass over all that it holds, or a step of LibTorch's optimizer, never belongs in a handler.
  std::int64_t largest_fold() const final;

 protected:
  explicit answering_server(port_options options);

  /// Throws exchange_error (mismatch) unless `piece` is what a worker brings itself, is `what`, is the range of `cut`
  /// with this index, and comes from parameters that there have been.
  void check(const part& piece, slot what, const std::vector<range>& cut, std::uint32_t index) const;

  /// Answers a contribution: with its stamp, but for sender and version.
  void answer(const part& contribution, slot what, const at::Tensor& values, outbox& out);

  port_options options_;
  roll_call roll_call_;
  std::uint64_t version_{0};   ///< Updates made.
  std::uint64_t answered_{0};  ///< Contributions.
};

}  // namespace troupe::serving

#include "troupe/actors/exchange/serving.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

namespace troupe::serving {

bool applies_each(const setting_values& settings) {
  return std::get<std::string>(settings.at("apply")) == "each";
}

roll_call::roll_call(std::uint32_t world_size, const cadence& due) : due_(due), next_(world_size, due.next_due(0)) {}

void roll_call::note(rank_id worker, std::uint64_t step) {
  const auto index = static_cast<std::size_t>(worker);
  auto& next = next_.at(index);
  if (step < next)
    throw exchange_error(errc::stale, "rank " + std::to_string(index) + " contributed to the same step twice");
  if (step > next) throw exchange_error(errc::mismatch, "rank " + std::to_string(index) + " skipped a step");
  next = due_.next_due(step + 1);
}

std::vector<rank_id> roll_call::missing(std::uint64_t step) const {
  std::vector<rank_id> ranks;
  for (std::size_t i = 0; i < next_.size(); ++i)
    if (next_[i] <= step) ranks.push_back(rank_id{static_cast<std::uint32_t>(i)});
  return ranks;
}

void archive::keep_before(std::uint64_t step, const holding& now) {
  // A contribution stamped `step` is made in the step after step − lead completed ones, and changes what is held from
  // the next on.
  for (; reached_ + due_.lead <= step; ++reached_)
    if (when_.milestone_at(reached_)) kept_.emplace(reached_, now);
}

holding archive::take(std::uint64_t step, const holding& now) {
  const auto found = kept_.find(step);
  const auto result = found == kept_.end() ? now : found->second;
  kept_.erase(kept_.begin(), kept_.upper_bound(step));
  reached_ = std::max(reached_, step + 1);
  return result;
}

answering_server::answering_server(port_options options)
    : options_(std::move(options)), roll_call_(options_.world_size, options_.due) {}

std::int64_t answering_server::largest_fold() const {
  return std::numeric_limits<std::int64_t>::max();
}

void answering_server::check(const part& piece, slot what, const std::vector<range>& cut, std::uint32_t index) const {
  if (piece.at != stage::contribution || static_cast<std::uint32_t>(piece.origin.sender) >= options_.world_size)
    throw exchange_error(errc::mismatch, "a server received a part that is not a contribution from a worker");
  if (piece.what != what) throw exchange_error(errc::mismatch, "a server received values of the wrong kind");
  if (piece.which.part != index)
    throw exchange_error(errc::mismatch, "a server received a part for another server's shard");
  rules::check_fits(piece, cut);
  if (piece.origin.version > version_)
    throw exchange_error(errc::mismatch,
                         "a contribution refers to a version of the parameters that does not exist yet");
}

void answering_server::answer(const part& contribution, slot what, const at::Tensor& values, outbox& out) {
  ++answered_;
  part answer = contribution;
  answer.origin.sender = options_.rank;
  answer.origin.version = version_;
  answer.what = what;
  answer.at = stage::result;
  answer.piece.values = values;
  answer.receipt.reset();
  out.send(contribution.origin.sender, std::move(answer));
}

}  // namespace troupe::serving

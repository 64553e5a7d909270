#include "troupe/algorithms/exchange/servers/serving.hpp"

#include "troupe/algorithms/messages/message_state.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

namespace troupe::serving {

bool applies_each(const setting_values& settings) {
  return std::get<std::string>(settings.at("apply")) == "each";
}

std::uint64_t first_due(const member_options& options) {
  return options.due.next_due(options.first_step + options.due.lead);
}

std::vector<planned_edge> edges_to_one_server(std::uint32_t workers, const models::flat_layout& layout,
                                              const setting_values&) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  std::vector<planned_edge> edges;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    edges.push_back({worker, workers, 1, bytes});
    edges.push_back({workers, worker, 1, bytes});
  }
  return edges;
}

void save(const holding& held, const std::string& name, state_dict& into) {
  into.put_counts(name + "/place", {static_cast<std::uint64_t>(held.piece.first), held.version});
  into.put_all(name + "/staleness", state_of(held.staleness));
  if (held.piece.values.defined()) into.put(name + "/x", held.piece.values);
}

holding restored_holding(const state_dict& from, const std::string& name) {
  const auto place = from.counts(name + "/place", 2);
  holding held{.piece = {static_cast<std::int64_t>(place[0]), {}}, .version = place[1], .staleness = {}};
  restore(held.staleness, from.all(name + "/staleness"));
  if (from.has(name + "/x")) held.piece.values = from.tensor(name + "/x");
  return held;
}

roll_call::roll_call(const member_options& options)
    : due_(options.due),
      next_(options.restored ? options.restored->counts("next", options.among.world_size)
                             : std::vector<std::uint64_t>(options.among.world_size, first_due(options))) {}

void roll_call::note(rank_id worker, std::uint64_t step) {
  const auto index = static_cast<std::size_t>(worker);
  if (step > next_.at(index)) throw exchange_error(errc::mismatch, "rank " + std::to_string(index) + " skipped a step");
  note_later(worker, step);
}

void roll_call::note_later(rank_id worker, std::uint64_t step) {
  const auto index = static_cast<std::size_t>(worker);
  auto& next = next_.at(index);
  if (step < next)
    throw exchange_error(errc::stale, "rank " + std::to_string(index) + " contributed to the same step twice");
  next = due_.next_due(step + 1);
}

std::vector<rank_id> roll_call::missing(std::uint64_t step) const {
  std::vector<rank_id> ranks;
  for (std::size_t i = 0; i < next_.size(); ++i)
    if (next_[i] <= step) ranks.push_back(rank_id{static_cast<std::uint32_t>(i)});
  return ranks;
}

archive::archive(const member_options& options) : when_(options.when), due_(options.due), reached_(options.first_step) {
  if (!options.restored) return;
  reached_ = options.restored->count("archive/reached");
  for (const auto step : options.restored->counts("archive/steps"))
    kept_.emplace(step, restored_holding(*options.restored, "archive/" + std::to_string(step)));
}

void archive::save(state_dict& into) const {
  into.put_count("archive/reached", reached_);
  std::vector<std::uint64_t> steps;
  for (const auto& [step, held] : kept_) {
    steps.push_back(step);
    serving::save(held, "archive/" + std::to_string(step), into);
  }
  into.put_counts("archive/steps", steps);
}

void archive::keep_before(std::uint64_t step, const holding& now) {
  // A contribution stamped `step` is made in the step that follows step − lead completed ones. It changes what is held
  // from the next step on.
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

served_client::served_client(member_options options, service with)
    : options_(std::move(options)), with_(std::move(with)), awaited_(with_.cut.size()) {
  options_.restored.reset();
}

void served_client::contribute(const part& own, outbox& out) {
  if (!waiting_for(own.origin.step).empty())
    throw exchange_error(errc::stale, "a worker contributed before its last contribution was answered");
  step_ = own.origin.step;
  begin(own);
  for (std::uint32_t shard = 0; shard < with_.cut.size(); ++shard) {
    const auto [first, count] = with_.cut[shard];
    part piece = own;
    piece.origin.version = with_.versions[shard];
    piece.which.part = shard;
    piece.piece = {first, own.piece.values.narrow(0, first, count)};
    awaited_[shard] = true;
    out.send(server_of(shard), std::move(piece));
  }
}

void served_client::receive(const part& piece, outbox& out) {
  rules::check_fits(piece, with_.cut);
  const auto shard = piece.which.part;
  if (piece.at != stage::result || piece.what != with_.answers || piece.origin.sender != server_of(shard))
    throw exchange_error(errc::mismatch,
                         "a worker received a part that is not an answer from the server of that shard");
  if (!awaited_[shard] || piece.origin.step != step_)
    throw exchange_error(errc::stale, "a worker received an answer from a server that it did not request");
  auto& version = with_.versions[shard];
  if (piece.origin.version < version || (piece.origin.version == version && !with_.may_repeat_version))
    throw exchange_error(errc::mismatch, "a server answered with a version that is not newer than the last one");
  awaited_[shard] = false;
  version = piece.origin.version;
  out.answer(answer_from(piece));
}

std::vector<rank_id> served_client::waiting_for(std::uint64_t) const {
  std::vector<rank_id> servers;
  for (std::uint32_t shard = 0; shard < awaited_.size(); ++shard)
    if (awaited_[shard]) servers.push_back(server_of(shard));
  return servers;
}

answering_server::answering_server(member_options options) : options_(std::move(options)), roll_call_(options_) {
  if (!options_.restored) return;
  version_ = options_.restored->count("version");
  answered_ = options_.restored->count("answered");
}

state_dict answering_server::state() const {
  state_dict state;
  state.put_counts("next", roll_call_.next());
  state.put_count("version", version_);
  state.put_count("answered", answered_);
  return state;
}

std::int64_t answering_server::largest_fold() const {
  return std::numeric_limits<std::int64_t>::max();
}

void answering_server::check(const part& piece, slot what, const std::vector<range>& cut, std::uint32_t index) const {
  if (piece.at != stage::contribution || static_cast<std::uint32_t>(piece.origin.sender) >= options_.among.world_size)
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
  answer.origin.sender = options_.among.rank;
  answer.origin.version = version_;
  answer.what = what;
  answer.at = stage::result;
  answer.piece.values = values;
  answer.receipt.reset();
  out.send(contribution.origin.sender, std::move(answer));
}

}  // namespace troupe::serving

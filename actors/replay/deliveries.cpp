#include "troupe/actors/replay/deliveries.hpp"

#include "troupe/actors/replay/lock_order.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/files/crc32c.hpp"

#include <algorithm>
#include <span>

namespace troupe {

std::string describe(const delivery& one) {
  using kind = delivery::kind;
  const auto rank = "rank " + std::to_string(one.from);
  const auto after = " after " + std::to_string(one.step) + " steps";
  switch (one.what) {
    case kind::part:
      return "the contribution of " + rank + " to step " + std::to_string(one.step + 1);
    case kind::result:
      return "the result" + after;
    case kind::state:
      return "the request for a state";
    case kind::acquisition:
      return "the lock taken by " + (one.from == keeper_of_memory ? "the server" : rank);
    case kind::milestone:
      return "the report of " + rank + after;
    case kind::replica:
      return "the parameters of " + rank + after;
    case kind::barrier:
      return "the wait of " + rank + " for a checkpoint" + after;
    case kind::digests:
      return "the digests of " + rank + after;
    case kind::interrupt:
      return "the interrupt";
    case kind::time_limit:
      return "the end of run.max_seconds";
    case kind::halted:
      return "the halt of " + rank + after;
    case kind::assembled:
      return "an assembled result";
    case kind::evaluated:
      return "an evaluation";
    case kind::written:
      return "a written checkpoint";
    case kind::order:
      return "an order of a guest";
    case kind::held:
      return "the hold of " + rank + after;
    case kind::stopped:
      return "the stop of " + rank + after;
  }
  return "an unknown delivery";
}

std::uint32_t digest_of_values(const at::Tensor& values, bool all, std::uint32_t so_far) {
  if (!values.defined() || values.numel() == 0) return so_far;
  TROUPE_ASSERT(values.is_contiguous() && values.device().is_cpu(), "digests are made of contiguous values on the CPU");
  const auto bytes = std::as_bytes(
      std::span{static_cast<const char*>(values.const_data_ptr()), static_cast<std::size_t>(values.nbytes())});
  constexpr std::size_t runs = 64, run = 64;  // bytes: one cache line each
  if (all || bytes.size() <= runs * run) return crc32c(bytes, so_far);
  const auto stride = (bytes.size() - run) / (runs - 1);
  for (std::size_t i = 0; i < runs; ++i) so_far = crc32c(bytes.subspan(i * stride, run), so_far);
  return so_far;
}

void intake::admit(const delivery& what, continuation then) {
  if (!how_.script) return then(what);
  held_.emplace_back(what, std::move(then));
  release();
}

void intake::release() {
  if (!how_.script || releasing_) return;
  releasing_ = true;
  auto& script = *how_.script;
  const auto is_due = [&](const auto& held) {
    if (script.is_open()) return true;
    return script.due() && held.first.is(*script.due()) && (!how_.is_ready || how_.is_ready());
  };
  for (auto next = held_.begin(); (next = std::find_if(held_.begin(), held_.end(), is_due)) != held_.end();) {
    auto [arrival, then] = std::move(*next);
    held_.erase(next);
    if (!script.is_open()) {
      arrival = *script.due();
      script.advance();
    }
    try {
      then(arrival);
    } catch (...) {
      releasing_ = false;
      throw;
    }
  }
  releasing_ = false;
}

void intake::settle(const delivery& what, const delivery& recorded) const {
  if (how_.log) return how_.log(what);
  if (!replays() || what == recorded) return;
  const auto differs = what.taken != recorded.taken ? "its values differ" : "what follows from it differs";
  const auto where = recorded.at > 0 ? " at version " + std::to_string(recorded.at) : std::string{};
  throw replay_difference("the replay differs from the recording" + where + ": " + describe(recorded) + ": " + differs);
}

void intake::admit_and_settle(const delivery& what, continuation then) {
  if (!is_used()) return then(what);
  admit(what, [this, what, then = std::move(then)](const delivery& recorded) {
    if (how_.log) how_.log(what);
    then(recorded);
  });
}

}  // namespace troupe

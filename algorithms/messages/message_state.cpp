#include "troupe/algorithms/messages/message_state.hpp"

#include <array>
#include <bit>
#include <initializer_list>
#include <utility>

namespace troupe {

namespace {

void put_stamp(state_dict& into, const stamp& origin) {
  into.put_counts("origin",
                  {static_cast<std::uint64_t>(origin.sender), origin.generation, origin.step, origin.version});
}

stamp stamp_of(const state_dict& from) {
  const auto numbers = from.counts("origin", 4);
  return {.run = {},
          .sender = static_cast<rank_id>(numbers[0]),
          .generation = static_cast<std::uint32_t>(numbers[1]),
          .step = numbers[2],
          .version = numbers[3]};
}

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

std::int64_t signed_of(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::span<const optional_number> optional_numbers() {
  static constexpr std::array<optional_number, 17> all{
      {{"samples_per_second", &record::samples_per_second},
       {"train_loss", &record::train_loss},
       {"val_loss", &record::val_loss},
       {"val_accuracy", &record::val_accuracy},
       {"val_top_k_accuracy", &record::val_top_k_accuracy},
       {"train_accuracy", &record::train_accuracy},
       {"epoch_seconds", &record::epoch_seconds},
       {"epoch_train_loss", &record::epoch_train_loss},
       {"lr", &record::lr},
       {"data_wait", &record::data_wait},
       {"staleness_mean", &record::staleness_mean},
       {"staleness_max", &record::staleness_max},
       {"gradients_refused", &record::gradients_refused},
       {"consensus_distance", &record::consensus_distance},
       {"consensus_distance_before", &record::consensus_distance_before},
       {"consensus_distance_after", &record::consensus_distance_after},
       {"consensus_distance_max", &record::consensus_distance_max}}};
  return all;
}

void put_numbers(state_dict& into, const std::string& name, const std::vector<double>& values) {
  std::vector<std::uint64_t> bits;
  for (const auto value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  into.put_counts(name, bits);
}

std::vector<double> numbers_of(const state_dict& from, const std::string& name) {
  std::vector<double> values;
  for (const auto bits : from.counts(name)) values.push_back(std::bit_cast<double>(bits));
  return values;
}

state_dict state_of(const snapshot& one) {
  state_dict state;
  put_stamp(state, one.origin);
  state.put("values", one.values);
  state.put_count("taken", static_cast<std::uint64_t>(one.taken));
  return state;
}

void restore(snapshot& one, const state_dict& from) {
  const auto taken = from.has("taken") ? from.count("taken") : 0;  // older checkpoints lack it
  if (taken > static_cast<std::uint64_t>(snapshot_time::after_mixing))
    throw state_error("the entry \"taken\" has an unknown value");
  one = {.origin = stamp_of(from), .values = from.tensor("values"), .taken = static_cast<snapshot_time>(taken)};
}

state_dict state_of(const part& one) {
  state_dict state;
  put_stamp(state, one.origin);
  state.put("values", one.piece.values);
  state.put_counts("shape", {one.which.place, one.which.part, static_cast<std::uint64_t>(one.what),
                             static_cast<std::uint64_t>(one.at), unsigned_of(one.piece.first), unsigned_of(one.total),
                             unsigned_of(one.sample_count)});
  state.put_number("mass", one.mass);
  return state;
}

void restore(part& one, const state_dict& from) {
  const auto shape = from.counts("shape", 7);
  one = {.origin = stamp_of(from),
         .which = {static_cast<std::uint32_t>(shape[0]), static_cast<std::uint32_t>(shape[1])},
         .what = static_cast<slot>(shape[2]),
         .at = static_cast<stage>(shape[3]),
         .piece = {signed_of(shape[4]), from.tensor("values")},
         .total = signed_of(shape[5]),
         .sample_count = signed_of(shape[6]),
         .mass = from.number("mass")};
}

state_dict state_of(const milestone& one) {
  state_dict state;
  state.put_counts("counts", {static_cast<std::uint64_t>(one.rank), one.step, unsigned_of(one.sample_count),
                              unsigned_of(one.correct), unsigned_of(one.classified), one.bytes_sent});
  put_numbers(state, "sums", {one.loss_sum, one.data_wait, one.busy, one.exchange_wait, one.cpu, one.loading_cpu});
  return state;
}

void restore(milestone& one, const state_dict& from) {
  const auto counts = from.counts("counts", 6);
  const auto sums = numbers_of(from, "sums");
  // Older checkpoints lack the CPU times.
  if (sums.size() < 4 || sums.size() > 6) throw state_error("the entry \"sums\" has the wrong size");
  one = {.rank = static_cast<rank_id>(counts[0]),
         .step = counts[1],
         .loss_sum = sums[0],
         .sample_count = signed_of(counts[2]),
         .correct = signed_of(counts[3]),
         .classified = signed_of(counts[4]),
         .bytes_sent = counts[5],
         .data_wait = sums[1],
         .busy = sums[2],
         .cpu = sums.size() > 4 ? sums[4] : 0,
         .loading_cpu = sums.size() > 5 ? sums[5] : 0,
         .exchange_wait = sums[3]};
}

state_dict state_of(const evaluation& one) {
  state_dict state;
  state.put_counts("counts", {one.step, unsigned_of(one.sample_count)});
  state.put_number("loss", one.loss);
  put_if_any(state, "accuracy", one.accuracy);
  put_if_any(state, "top_k_accuracy", one.top_k_accuracy);
  return state;
}

void restore(evaluation& one, const state_dict& from) {
  const auto counts = from.counts("counts", 2);
  one = {.step = counts[0],
         .loss = from.number("loss"),
         .accuracy = find_if_any<double>(from, "accuracy"),
         .top_k_accuracy = find_if_any<double>(from, "top_k_accuracy"),
         .sample_count = signed_of(counts[1])};
}

state_dict state_of(const staleness_tally& one) {
  state_dict state;
  state.put_counts("counts", one.counts);
  state.put_counts("sums", {one.applied, one.sum, one.most, one.refused});
  return state;
}

void restore(staleness_tally& one, const state_dict& from) {
  const auto sums = from.counts("sums", 4);
  one = {.counts = from.counts("counts"), .applied = sums[0], .sum = sums[1], .most = sums[2], .refused = sums[3]};
}

state_dict state_of(const record& one) {
  state_dict state;
  state.put_counts("counts", {one.epoch, one.step, one.updates, one.bytes_sent});
  put_numbers(state, "seconds", {one.seconds, one.train_seconds});
  for (const auto& [name, member] : optional_numbers()) put_if_any(state, name, one.*member);
  put_numbers(state, "val_accuracy_workers", one.val_accuracy_workers);
  put_numbers(state, "train_loss_workers", one.train_loss_workers);
  return state;
}

void restore(record& one, const state_dict& from) {
  const auto counts = from.counts("counts", 4);
  const auto seconds = numbers_of(from, "seconds");
  if (seconds.size() != 2) throw state_error("the entry \"seconds\" has the wrong size");
  one = {};
  one.epoch = counts[0];
  one.step = counts[1];
  one.updates = counts[2];
  one.bytes_sent = counts[3];
  one.seconds = seconds[0];
  one.train_seconds = seconds[1];
  for (const auto& [name, member] : optional_numbers()) one.*member = find_if_any<double>(from, name);
  one.val_accuracy_workers = numbers_of(from, "val_accuracy_workers");
  one.train_loss_workers = numbers_of(from, "train_loss_workers");
}

state_dict state_of(const rules::report& one) {
  state_dict state;
  state.put_all("line", state_of(one.line));
  state.put_counts("flags", {one.epoch_ends ? 1U : 0U, one.evaluated ? 1U : 0U});
  put_if_any(state, "result", one.result);
  state.put_number("epoch_seconds", one.epoch_seconds);
  put_if_any(state, "epoch_train_loss", one.epoch_train_loss);
  return state;
}

void restore(rules::report& one, const state_dict& from) {
  const auto flags = from.counts("flags", 2);
  one = {};
  restore(one.line, from.all("line"));
  one.epoch_ends = flags[0] != 0;
  one.evaluated = flags[1] != 0;
  one.result = find_if_any<snapshot>(from, "result");
  one.epoch_seconds = from.number("epoch_seconds");
  one.epoch_train_loss = find_if_any<double>(from, "epoch_train_loss");
}

}  // namespace troupe

#include "troupe/algorithms/exchange/around/encoder.hpp"

#include "troupe/algorithms/exchange/around/compressing.hpp"
#include "troupe/algorithms/messages/errc.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/random/subset.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

constexpr auto* error_name = "error";
constexpr auto* velocity_name = "velocity";
constexpr auto* answers_name = "answers";

std::int64_t end_of(const range& where) {
  return where.first + where.count;
}

/// Returns whether `values` is [where.first, …) of the memory of `whole`.
bool lies_in(const at::Tensor& whole, const part& piece) {
  return whole.defined() && end_of({piece.piece.first, piece.piece.values.numel()}) <= whole.numel() &&
         piece.piece.values.const_data_ptr<float>() == whole.const_data_ptr<float>() + piece.piece.first;
}

/// Returns the elements of each parameter.
std::vector<range> parameters_of(const models::flat_layout& layout) {
  std::vector<range> parameters;
  for (const auto& entry : layout.parameters) parameters.push_back({entry.first, entry.count});
  return parameters;
}

/// Returns the elements of each gap behind a parameter.
std::vector<range> gaps_of(const models::flat_layout& layout) {
  std::vector<range> gaps;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const auto& entry = layout.parameters[i];
    const auto first = entry.first + entry.count;
    const auto end = i + 1 < layout.parameters.size() ? layout.parameters[i + 1].first : layout.parameter_end;
    if (first < end) gaps.push_back({first, end - first});
  }
  return gaps;
}

}  // namespace

std::int64_t parameters_in(const models::flat_layout& layout, const range& where) {
  std::int64_t count = 0;
  for (const auto& entry : layout.parameters) {
    const auto end = std::min(end_of({entry.first, entry.count}), end_of(where));
    count += std::max<std::int64_t>(0, end - std::max(entry.first, where.first));
  }
  return count;
}

encoder::encoder(const member_options& own, encoding_options options)
    : options_(std::move(options)),
      codec_(codec_of(options_.how)),
      nature_(codec_.nature()),
      pool_(own.pool),
      seed_(own.seed),
      place_(own.place),
      rank_(static_cast<std::uint64_t>(own.among.rank)),
      lead_(own.due.lead),
      first_element_(own.first_element),
      is_server_(own.among.is_server()),
      used_(parameters_of(own.layout)),
      gaps_(gaps_of(own.layout)) {
  const auto total = own.layout.parameter_end;
  if (options_.pieces.empty()) options_.pieces.push_back({0, total});
  for (const auto& where : options_.pieces)
    pieces_.push_back({.where = where, .used = parameters_in(own.layout, where)});
  if (own.restored) restore(own.restored->all(options_.state_name), total);
  if (is_server_ || !options_.feedback) return;
  if (!error_.defined()) error_ = at::zeros({total});
  if (options_.momentum_correction > 0 && !velocity_.defined()) velocity_ = at::zeros({total});
}

part encoder::contribution(const part& own) {
  forget_sent();
  if (!is_encoded_at(own)) return own;
  auto decoded = pool_.take(own.piece.values.numel());
  for (auto& piece : pieces_) {
    auto values = decoded.narrow(0, piece.where.first, piece.where.count);
    encode_piece(own, piece, values);
  }
  contributed_ = decoded;
  auto result = own;
  result.piece.values = std::move(decoded);
  return result;
}

part encoder::sent(const part& piece) {
  if (piece.how != encoding::float32 || !is_encoded_at(piece)) return piece;
  const range where{piece.piece.first, piece.piece.values.numel()};
  switch (piece.at) {
    case stage::contribution:
      if (lies_in(contributed_, piece))
        if (const auto payload = cut_of(where)) return encoded(piece, options_.how, *payload);
      return as_values_of(piece);
    case stage::partial:
      return as_values_of(piece);
    case stage::result:
      return encodes_answers() ? encoded(piece, options_.how, answer_payload(piece)) : piece;
  }
  return piece;
}

part encoder::answer(const part& piece) {
  if (!options_.same_for_all || is_server_ || !encodes_answers() || !is_encoded_at(piece)) return piece;
  if (nature_.block != 1 && !sent_as(piece.piece.values).defined()) return piece;
  auto result = piece;
  result.piece.values = pool_.take(piece.piece.values.numel());
  decode(answer_payload(piece), {piece.piece.first, piece.piece.values.numel()}, piece.origin.step,
         result.piece.values);
  return result;
}

part encoder::received(const part& piece) {
  if (piece.how == encoding::float32) return piece;
  auto result = piece;
  result.how = encoding::float32;
  result.elements = 0;
  result.piece.values = pool_.take(piece.elements);
  decode(piece.piece.values, {piece.piece.first, piece.elements}, piece.origin.step, result.piece.values);
  return result;
}

void encoder::forget_sent() {
  contributed_.reset();
  for (auto& piece : pieces_) piece.payload.reset();
  answers_sent_ = {};
}

state_dict encoder::state() const {
  state_dict all;
  if (error_.defined()) all.put(error_name, error_.clone());
  if (velocity_.defined()) all.put(velocity_name, velocity_.clone());
  // Neighbouring ranges are joined, because another placement may cut them differently.
  state_dict of_answers;
  for (auto at = errors_of_answers_.begin(); at != errors_of_answers_.end();) {
    std::vector<at::Tensor> joined;
    const auto first = at->first;
    for (auto end = first; at != errors_of_answers_.end() && at->first == end; ++at) {
      joined.push_back(at->second);
      end += at->second.numel();
    }
    of_answers.put(std::to_string(first), at::cat(joined));
  }
  all.put_all(answers_name, of_answers);
  return all;
}

void encoder::restore(const state_dict& saved, std::int64_t total) {
  if (saved.has(error_name)) error_ = saved.tensor(error_name, total).clone();
  if (saved.has(velocity_name)) velocity_ = saved.tensor(velocity_name, total).clone();
  const auto of_answers = saved.all(answers_name);
  std::map<std::int64_t, at::Tensor> errors;
  for (const auto& [name, error] : of_answers.entries()) {
    std::int64_t first = -1;
    const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), first);
    if (problem != std::errc{} || rest != name.data() + name.size() || first < 0)
      throw state_error("the entry \"" + name + "\" is not the first element of a range");
    errors[first] = of_answers.tensor(name).clone();
  }
  std::int64_t end = 0;
  for (const auto& [first, error] : errors) {
    if (first < end || error.dim() != 1 || error.numel() > total - first)
      throw state_error("what answers have lost does not fit this model");
    end = first + error.numel();
  }
  errors_of_answers_ = std::move(errors);
}

bool encoder::is_encoded_at(const part& piece) const {
  return piece.origin.step - lead_ >= options_.after;
}

bool encoder::encodes_answers() const {
  return is_server_ ? nature_.block == 1 : nature_.block != 0 || nature_.same_places;
}

double encoder::ratio_at(std::uint64_t step) const {
  if (step >= options_.ratio_warm_up) return options_.ratio;
  std::vector<double> larger;
  for (double ratio = 0.25; ratio > options_.ratio; ratio /= 4) larger.push_back(ratio);
  return larger.empty() ? options_.ratio : larger[larger.size() * step / options_.ratio_warm_up];
}

/// Returns the task of encoding values from the element `first` on.
encoding_task encoder::task_of(const part& piece, std::int64_t first, std::uint64_t phase) const {
  const auto step = piece.origin.step;
  return {.ratio = ratio_at(step - lead_ - options_.after),
          .random = data::keyed(seed_, data::purpose::rounding, (place_ << 33) + 2 * rank_ + phase, step),
          .first = first_element_ + first};
}

/// Returns a part as it travels if partial sums can be encoded, and as it is otherwise.
part encoder::as_values_of(const part& piece) {
  if (!encodes_sums(options_.how)) return piece;
  const range where{piece.piece.first, piece.piece.values.numel()};
  return encoded(piece, options_.how,
                 encode(piece.piece.values, where, piece.origin.step, task_of(piece, where.first, 0)));
}

/// Returns the places in `where`, int64 [k], ascending, of the values that all members send in a step.
at::Tensor encoder::places_in(const range& where, std::uint64_t step) {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& candidate) {
    return candidate.where.first <= where.first && end_of(where) <= end_of(candidate.where);
  });
  if (piece == pieces_.end()) throw exchange_error(errc::mismatch, "a part lies in several encoded pieces");
  auto& places = piece->places[step];
  if (!places.defined()) {
    const encoding_task task{.used = piece->used, .ratio = options_.ratio};
    const auto share = std::min(share_of(task), piece->used);
    const auto chosen =
        data::random_subset(share, piece->used, data::keyed(seed_, data::purpose::coordinates, place_, step));
    places = at::empty({share}, at::kLong);
    auto* out = places.mutable_data_ptr<std::int64_t>();
    std::int64_t before = 0;  // parameters of the piece that precede those of `entry`
    auto next = chosen.begin();
    for (const auto& entry : used_) {
      const auto first = std::max(entry.first, piece->where.first);
      const auto count = std::min(end_of(entry), end_of(piece->where)) - first;
      if (count <= 0) continue;
      for (; next != chosen.end() && *next < before + count; ++next)
        *out++ = first - piece->where.first + *next - before;
      before += count;
    }
    constexpr std::size_t most_steps = 4;
    if (piece->places.size() > most_steps)
      piece->places.erase(piece->places.begin()->first == step ? std::prev(piece->places.end())
                                                               : piece->places.begin());
  }
  if (where == piece->where) return places;
  const auto* all = places.const_data_ptr<std::int64_t>();
  const auto from = where.first - piece->where.first;
  const auto first = std::lower_bound(all, all + places.numel(), from);
  const auto last = std::lower_bound(first, all + places.numel(), from + where.count);
  return places.narrow(0, first - all, last - first).sub(from);
}

at::Tensor encoder::encode(const at::Tensor& values, const range& where, std::uint64_t step,
                           const encoding_task& task) {
  if (!nature_.same_places) return codec_.encode(values, task);
  const auto places = places_in(where, step);
  // A message is never empty.
  return codec_.encode(places.numel() > 0 ? values.index_select(0, places) : at::zeros({1}), task);
}

void encoder::decode(const at::Tensor& payload, const range& where, std::uint64_t step, at::Tensor& values) {
  if (nature_.same_places) {
    const auto places = places_in(where, step);
    if (payload.numel() != std::max<std::int64_t>(places.numel(), 1))
      throw exchange_error(errc::mismatch, "a part has not as many values as are sent in its step");
    values.zero_();
    if (places.numel() == 0) return;
    auto sent = pool_.take(payload.numel());
    codec_.decode(payload, sent);
    values.index_copy_(0, places, sent);
    return;
  }
  codec_.decode(payload, values);
  if (nature_.block == 1) return;
  for (const auto& gap : gaps_) {  // some codecs decode zero as another value
    const auto first = std::max(gap.first, where.first), end = std::min(end_of(gap), end_of(where));
    if (first < end) values.narrow(0, first - where.first, end - first).zero_();
  }
}

/// Encodes a piece of a contribution, and writes to `decoded` what its receivers decode.
void encoder::encode_piece(const part& own, encoded_piece& into, at::Tensor& decoded) {
  const auto& where = into.where;
  auto values = own.piece.values.narrow(0, where.first, where.count);
  auto task = task_of(own, where.first, 0);
  task.used = into.used;
  // What is not sent must not hide that the rest is useless.
  const auto spoils = [&](const at::Tensor& all) {
    return nature_.same_places && !at::isfinite(all).all().item<bool>();
  };
  if (!options_.feedback) {
    if (spoils(values)) values = at::full_like(values, std::numeric_limits<float>::quiet_NaN());
    into.payload = encode(values, where, own.origin.step, task);
    return decode(into.payload, where, own.origin.step, decoded);
  }
  auto left = error_.narrow(0, where.first, where.count);
  at::Tensor velocity;
  if (velocity_.defined()) {
    velocity = velocity_.narrow(0, where.first, where.count);
    velocity.mul_(options_.momentum_correction).add_(values);
    left.add_(velocity);
  } else {
    left.add_(values);
  }
  if (spoils(left)) left.fill_(std::numeric_limits<float>::quiet_NaN());
  into.payload = encode(left, where, own.origin.step, task);
  decode(into.payload, where, own.origin.step, decoded);
  left.sub_(decoded);
  const auto is_finite = at::isfinite(left).all().item<bool>();
  if (!is_finite) left.zero_();
  if (velocity.defined()) {
    if (is_finite)
      velocity.index_fill_(0, chosen_by_top_k(into.payload).to(at::kLong), 0);
    else
      velocity.zero_();
  }
}

/// Returns the payload of a range of the last contribution, or nothing if it cannot be cut from what was encoded.
std::optional<at::Tensor> encoder::cut_of(const range& where) const {
  for (const auto& piece : pieces_) {
    const auto first = where.first - piece.where.first;
    if (!piece.payload.defined() || first < 0 || end_of(where) > end_of(piece.where)) continue;
    if (where == piece.where) return piece.payload;
    if (nature_.block == 0 || first % nature_.block != 0) return std::nullopt;
    const auto size = static_cast<std::int64_t>(piece.payload.element_size());
    return piece.payload.narrow(0, codec_.max_bytes(first) / size, codec_.max_bytes(where.count) / size);
  }
  return std::nullopt;
}

at::Tensor encoder::sent_as(const at::Tensor& answer) const {
  for (const auto& [values, payload] : answers_sent_)
    if (values.defined() && values.const_data_ptr() == answer.const_data_ptr() && values.numel() == answer.numel())
      return payload;
  return {};
}

/// Returns the payload of an answer, encoded once.
at::Tensor encoder::answer_payload(const part& piece) {
  if (auto known = sent_as(piece.piece.values); known.defined()) return known;
  const range where{piece.piece.first, piece.piece.values.numel()};
  const auto task = task_of(piece, where.first, 1);
  at::Tensor payload;
  // Where each value is encoded by itself, all members encode all answers, also those that another one has computed.
  if (options_.feedback && !encodes_sums(options_.how)) {
    auto left = left_of_answer(where);
    left.add_(piece.piece.values);
    payload = codec_.encode(left, task);
    auto decoded = pool_.take(where.count);
    decode(payload, where, piece.origin.step, decoded);
    left.sub_(decoded);
    if (!at::isfinite(left).all().item<bool>()) left.zero_();
  } else {
    payload = encode(piece.piece.values, where, piece.origin.step, task);
  }
  answers_sent_[next_answer_++ % answers_sent_.size()] = {piece.piece.values, payload};
  return payload;
}

/// Returns a view of what answers of this range have lost.
at::Tensor encoder::left_of_answer(const range& where) {
  const auto after = errors_of_answers_.upper_bound(where.first);
  if (after != errors_of_answers_.begin()) {
    const auto& [first, error] = *std::prev(after);
    if (end_of(where) <= first + error.numel()) return error.narrow(0, where.first - first, where.count);
  }
  return errors_of_answers_.insert_or_assign(where.first, at::zeros({where.count})).first->second;
}

}  // namespace troupe

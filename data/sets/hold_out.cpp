#include "troupe/data/sets/hold_out.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/data/random/shuffle.hpp"

#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

namespace troupe::data {

namespace {

std::shared_ptr<const dataset> chosen(const dataset& all, const std::vector<std::int64_t>& indices) {
  const at::Tensor which = at::tensor(indices, at::kLong);
  return std::make_shared<dataset>(
      dataset{.inputs = all.inputs.defined() ? all.inputs.index_select(0, which) : at::Tensor{},
              .targets = all.targets.index_select(0, which),
              .classes = all.classes,
              .rows = all.rows ? all.rows->chosen(indices) : nullptr,
              .files = all.files ? all.files->chosen(indices) : nullptr});
}

// The two parts share one character: the last training target is the first validation input.
void divide_text(dataset_pair& sets, std::int64_t held) {
  const auto whole = sets.train;
  const auto kept = whole->size() - held, length = whole->inputs.size(1);
  sets.test = std::make_shared<dataset>(dataset{.inputs = whole->inputs.narrow(0, kept, held),
                                                .targets = whole->targets.narrow(0, kept, held),
                                                .classes = whole->classes});
  sets.train = std::make_shared<dataset>(dataset{.inputs = whole->inputs.narrow(0, 0, kept),
                                                 .targets = whole->targets.narrow(0, 0, kept),
                                                 .classes = whole->classes,
                                                 .drawn_from = whole->drawn_from.narrow(0, 0, kept * length + 1)});
}

}  // namespace

std::int64_t held_out_of(std::int64_t samples, double fraction) {
  const auto held = static_cast<std::int64_t>(static_cast<double>(samples) * fraction);
  if (held < 1 || held >= samples) {
    throw data_error("data.validation holds out " + std::to_string(held) + " of " + std::to_string(samples) +
                     " training samples; expected a share that leaves at least one sample in each of the two sets");
  }
  return held;
}

void hold_out(dataset_pair& sets, double fraction, std::uint64_t seed) {
  const std::int64_t samples = sets.train->size();
  const auto held = held_out_of(samples, fraction);
  if (sets.train->drawn_from.defined()) return divide_text(sets, held);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, keyed(seed, purpose::validation));
  std::vector<std::int64_t> evaluated(order.end() - held, order.end());
  order.resize(static_cast<std::size_t>(samples - held));
  // Adjacent samples are gathered faster, and blocks of the set remain blocks.
  std::sort(order.begin(), order.end());
  std::sort(evaluated.begin(), evaluated.end());
  sets.test = chosen(*sets.train, evaluated);
  sets.train = chosen(*sets.train, order);
}

}  // namespace troupe::data

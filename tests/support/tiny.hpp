// A network and a data set small enough for a test to run hundreds of complete trainings: 4 inputs, 3 classes, one
// linear layer.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::tests {

/// Softmax regression on [1, 2, 2]: weight [3, 4], bias [3].
const models::network_kind& tiny_network();

/// The same between two batch norms: bn1 over the 4 inputs, bn2 over the 3 scores.
const models::network_kind& normed_network();

/// `samples` points around one centre for each class, always the same. The training and test sets are the same set.
data::dataset_pair tiny_data(std::int64_t samples = 60);

struct tiny_options {
  bool norms{false};   ///< normed_network() with synchronised norms; else tiny_network().
  bool normed{false};  ///< normed_network() with norms local to each worker.
  std::uint32_t workers{4};
  std::string exchange{"all_reduce"};  ///< Empty: none.
  setting_values settings{{"route", std::string{"auto"}}};
  std::string sends{};                                             ///< Empty: the kind's default.
  std::uint64_t every{1};                                          ///< In steps.
  std::vector<std::string> loop{"gradient", "exchange", "apply"};  ///< Used only with an exchange.
  std::vector<topology::exchange_settings> exchanges{};            ///< Replace the one exchange; the loop names them.
  std::uint64_t steps{10};
  std::uint64_t evaluate_every{5};
  std::int64_t samples{60};
  std::int64_t batch_size{2};
  bool keeps_last{false};  ///< Whether an epoch includes its last, smaller batch.
  bool pads{false};        ///< Whether the epoch is padded to a multiple of the number of workers.
  std::int64_t micro_batches{1};
  bool total_budget{false};            ///< All workers draw from one queue.
  std::vector<std::uint32_t> nodes{};  ///< Number of workers of each node; if empty, all are in one process.
};

/// A plan over tiny_data(): SGD with momentum.
plan tiny_plan(const tiny_options& options);

/// Keeps the records and outputs of a run.
struct remembered final : journal {
  std::vector<record> lines;
  at::Tensor result, best;
  std::shared_ptr<const run_state> checkpoint_taken;  ///< The last one.
  std::size_t lines_before{0};                        ///< Number of lines that had been written then.
  std::uint64_t fail_at_step{~std::uint64_t{0}};      ///< write() throws at a record of this step.

  void write(const record& line) override;
  void progress(std::uint64_t) override {}
  void keep(const snapshot& saved) override { best = saved.values; }
  void save(const snapshot& saved) override { result = saved.values; }
  std::optional<state_dict> checkpoint(const run_state& state, bool) override {
    checkpoint_taken = std::make_shared<const run_state>(state);
    lines_before = lines.size();
    return {};
  }

  /// The records of one event.
  std::vector<record> of(const std::string& event) const;
};

}  // namespace troupe::tests

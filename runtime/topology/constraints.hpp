// Rules that both the parser and make_plan() check, each stated once. The parser collects all violations in a file with
// their positions. make_plan() throws at the first one, because it also takes topologies that were made in code.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::topology {

/// Receives a violation: the path of the key, such as "exchange.0.every", and a text with what is wrong and what was
/// expected.
using refusal = std::function<void(const std::string& path, const std::string& text)>;

/// Checks each value by itself: its range, or whether it is one of its choices.
void check_values(const topology& file, const refusal& refuse);

/// Checks that the nodes have as many workers as the run. Returns whether they do.
bool check_node_workers(const topology& file, const refusal& refuse);

/// Returns the batch size of one worker, which is its share of data.global_batch_size if that is set.
std::int64_t worker_batch_size(const topology& file);

/// Checks a list of batch sizes, one for each worker. Returns whether it is sound.
bool check_batch_sizes(const topology& file, const refusal& refuse);

/// Checks that the workers can share data.global_batch_size equally. Returns whether they can.
bool check_global_batch(const topology& file, const refusal& refuse);

/// Checks that data.micro_batch_size divides a worker's batch. Requires that check_global_batch() has passed.
void check_micro_batch(const topology& file, const refusal& refuse);

/// Checks data.mean and data.std for samples with this number of channels; 0 if it is not known.
void check_normalisation(const topology& file, std::int64_t channels, const refusal& refuse);

/// Returns what an exchange sends and answers; if the file does not set it, the default of its kind. Returns nullptr if
/// the kind is unknown or cannot send that.
const carriage* carriage_of(const exchange_settings& exchange);

/// Checks that the kind of exchange `index` can send what the exchange is set to send.
void check_sends(const topology& file, std::size_t index, const refusal& refuse);

/// Checks the members of exchange `index`, and its settings in combination with the members and with other sections.
/// Requires that workers.count is settled.
void check_exchange(const topology& file, std::size_t index, const refusal& refuse);

}  // namespace troupe::topology

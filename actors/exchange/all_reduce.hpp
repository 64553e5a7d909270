// Everybody ends with the mean of everybody's gradients, without a master.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

namespace troupe {

/// `route = "direct"` (what "auto" means): rank j folds shard j of all ranks, in rank order, where it lies, and hands
/// the mean to all; in one process nothing is copied on the way. `route = "ring"`: the textbook ring (Patarasuk and
/// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009, §3): 2(n−1) hops; each chunk's
/// sum starts at another rank, so its bits are its own. Bytes for each worker: 2·(n−1)/n of the gradient either way.
exchange_kind all_reduce_kind();

}  // namespace troupe

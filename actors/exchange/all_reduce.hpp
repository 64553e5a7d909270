// Everybody ends with the mean of everybody's gradients, without a master.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

namespace troupe {

/// Routes, a file each in all_reduce/; all but the ring have the bits of the fold in rank order.
/// "direct": rank j folds shard j of all ranks where it lies and hands the mean to all; in one process nothing is
/// copied on the way. Two hops; each worker sends 2·(n−1)/n of the gradient.
/// "auto": direct, but a small gradient goes whole from everyone to everyone: one hop, n−1 gradients sent by each.
/// "chain": the sum goes up the ranks, the mean comes back down. 2(n−1) hops; each link carries one gradient each way.
/// "ring": the textbook ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009, §3). 2(n−1) hops; each segment's sum starts at another rank, so its bits are its own. Bytes as
/// direct.
/// All but the small one are cut into chunks (port_options::chunk_elements), each of which travels on its own, so that
/// the hops of one overlap with those of the others.
exchange_kind all_reduce_kind();

}  // namespace troupe

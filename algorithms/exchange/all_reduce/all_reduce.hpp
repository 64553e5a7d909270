// Averages the gradients or the parameters of all workers without a master: every worker gets the mean.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

/// Returns the kind. Its routes are in direct.cpp, all_gather.cpp and pipelined_routes.cpp (chain and ring). All routes
/// except the ring give the bits of the fold in rank order. "direct": rank j folds shard j of all ranks in place and
/// sends the mean to all; within one process nothing is copied. Two hops; each worker sends 2·(n−1)/n of the gradient.
/// "all_gather": every worker sends its whole gradient to every other. One hop; each worker sends n−1 gradients.
/// "chain": the sum travels up the ranks and the mean travels back down. 2(n−1) hops; each link carries one
/// gradient in each direction. "ring": the textbook ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
/// for clusters of workstations", 2009, §3). 2(n−1) hops; each segment's sum starts at another rank, so its bits differ
/// from those of the other routes. Bytes are as for direct. "auto": the fastest of direct, all_gather and chain; see
/// all_reduce/automatic_route.hpp. All routes except all_gather cut the gradient into chunks
/// (member_options::chunk_elements) that travel separately, so that their hops overlap.
exchange_kind all_reduce_kind();

}  // namespace troupe

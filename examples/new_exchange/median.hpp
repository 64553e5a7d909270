// Rank 0 gathers all workers' gradients and answers with the median of each coordinate: up to half of the workers may
// send arbitrary values without pulling it beyond what the others sent. Source: Yin et al. 2018, "Byzantine-robust
// distributed learning: towards optimal statistical rates", algorithm 1, option I.
#pragma once

#include "troupe/exchange.hpp"

/// Returns the kind "median", for register_exchange.
troupe::exchange_kind median_kind();
